//! Throughput of the near-duplicate stage.
//!
//! ```text
//! cargo bench -p curation                                   a generated corpus of 62 MB
//! cargo bench -p curation -- FOLDER [MAX_MB]                every text file in a folder, at most 300 MB
//! ```
//!
//! Each row is a pass over the whole corpus, on all threads of the machine, in MB of text per
//! second: the median of seven runs, and the slowest and fastest. *signing* makes shingle sets and
//! signatures, *deciding* finds the near-duplicates, *total* is both. Reading files is not part of
//! it.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use corpus::Silent;
use curation::dedup::{BandLayout, NearDuplicateRule, SignedDocuments, Threshold, near_duplicates};

const RUNS: usize = 7;
const FIVE_WORDS: NonZeroUsize = NonZeroUsize::new(5).expect("five is not zero");

fn main() {
    // `cargo bench` passes `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let max_bytes =
        arguments.get(1).map_or(300, |mb| mb.parse().expect("MAX_MB is a number of megabytes"))
            * 1_000_000;
    let texts = match arguments.first() {
        Some(folder) => texts_of_folder(Path::new(folder), max_bytes),
        None => generate::documents(1, 4_500),
    };
    let texts = distinct(&texts);
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    println!(
        "{} distinct documents, {:.1} MB, {threads} threads, {RUNS} runs",
        texts.len(),
        bytes as f64 / 1e6
    );
    println!("{:<16} {:>9}  {:>19}", "", "MB/s", "slowest to fastest");

    for (name, layout) in [("26 x 5", BandLayout::STANDARD), ("32 x 4", BandLayout::HIGH)] {
        let rule = NearDuplicateRule {
            shingle_words: FIVE_WORDS,
            threshold: Threshold::PAPER,
            layout,
            seed: 1,
        };
        let (mut signing, mut deciding, mut total) = (Vec::new(), Vec::new(), Vec::new());
        let mut removed = 0;
        for _ in 0..RUNS {
            let started = Instant::now();
            let signed = SignedDocuments::sign(&texts, &rule, &Silent).expect("never stopped");
            let signed_after = started.elapsed().as_secs_f64();
            let decisions = near_duplicates(&signed, &rule, &Silent).expect("never stopped");
            let decided_after = started.elapsed().as_secs_f64();
            removed = decisions.removed.iter().flatten().count();
            signing.push(bytes as f64 / 1e6 / signed_after);
            deciding.push(bytes as f64 / 1e6 / (decided_after - signed_after));
            total.push(bytes as f64 / 1e6 / decided_after);
        }
        println!("{name}: {removed} documents removed");
        for (step, mut rates) in [("signing", signing), ("deciding", deciding), ("total", total)] {
            rates.sort_by(f64::total_cmp);
            println!(
                "  {step:<14} {:>9.1}  {:>8.1} to {:>7.1}",
                rates[RUNS / 2],
                rates[0],
                rates[RUNS - 1]
            );
        }
    }
}

/// The texts without exact copies, which the stage before removes.
fn distinct(texts: &[String]) -> Vec<&str> {
    let mut seen = HashSet::new();
    texts.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect()
}

/// Every UTF-8 file below `folder`, in the order of their paths.
fn texts_of_folder(folder: &Path, max_bytes: usize) -> Vec<String> {
    let mut texts = Vec::new();
    let mut bytes = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        if bytes >= max_bytes {
            break;
        }
        if path.is_dir() {
            let mut entries: Vec<_> = fs::read_dir(&path)
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_symlink()))
                .map(|entry| entry.path())
                .collect();
            entries.sort_by(|a, b| b.cmp(a));
            waiting.extend(entries);
        } else if let Ok(text) = fs::read_to_string(&path) {
            bytes += text.len();
            texts.push(text);
        }
    }
    texts
}
