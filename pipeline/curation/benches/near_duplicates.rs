//! Speed of near-duplicate removal: `cargo bench -p curation --bench near_duplicates -- [PATH]
//! [--mb N] [--runs N] [--exact] [--high] [--index-mb N] [--recall] [--json]`.
//!
//! PATH is a file, folder or glob of JSONL, or anything else that `pipeline dedup` reads. Without
//! it documents are made up; with `--boilerplate N`, N that share a header and all stay. Each row
//! is a pass over all of it on all threads of the machine, in MB of text per second: the median of
//! the runs, and the slowest and fastest.
//!
//! * *reading*: from the files to texts in memory,
//! * *equal texts*: finding them by hash,
//! * *signing*: shingle sets and signatures,
//! * *deciding*: finding the near-duplicates,
//! * *total*: all of it, from files to the list of removed documents.
//!
//! `--recall` compares the removed documents with those of the exact method. Others come about
//! where a document that should have gone stays and becomes a witness.
//!
//! Where a file `planted.tsv` lies beside the corpus (two documents, by their key `src`, and their
//! Jaccard similarity as somebody else computed it, on each line), the similarities are compared
//! with ours.
//!
//! With `--json` the table gives way to one line:
//! `{"documents", "text_bytes", "threads", "seconds": [of each run], "removed": [numbers from 0]}`.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::Silent;
use corpus::reader::{
    Item, JsonlConfig, ParsedBlock, ReadPolicy, RecordBlock, SourceConfig, SourceFormat, Sources,
};
use curation::dedup::{
    BandLayout, Candidates, ExactIndex, NearDuplicateRule, Search, SignedDocuments, Threshold,
    jaccard_above, shingles, text_hash,
};
use rayon::prelude::*;

const FIVE_WORDS: NonZeroUsize = NonZeroUsize::new(5).expect("five is not zero");

/// Blocks of records that are parsed at the same time.
const BLOCKS_AT_ONCE: usize = 16;

/// What the command line asks for.
struct Options {
    path: Option<PathBuf>,
    max_bytes: usize,
    runs: usize,
    rule: NearDuplicateRule,
    index_bytes: u64,
    json: bool,
    recall: bool,
    /// Made-up documents that share a header, instead of a path.
    boilerplate: Option<usize>,
}

impl Options {
    fn of_command_line() -> Self {
        let mut options = Self {
            path: None,
            max_bytes: usize::MAX,
            runs: 7,
            rule: NearDuplicateRule {
                shingle_words: FIVE_WORDS,
                threshold: Threshold::PAPER,
                candidates: Candidates::Bands(BandLayout::STANDARD),
                seed: 1234,
            },
            index_bytes: u64::MAX,
            json: false,
            recall: false,
            boilerplate: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || -> usize {
                arguments.next().and_then(|n| n.parse().ok()).expect("a number behind the option")
            };
            match argument.as_str() {
                "--bench" => {} // from cargo
                "--mb" => options.max_bytes = number() * 1_000_000,
                "--runs" => options.runs = number().max(1),
                "--index-mb" => options.index_bytes = number() as u64 * 1_000_000,
                "--high" => options.rule.candidates = Candidates::Bands(BandLayout::HIGH),
                "--exact" => options.rule.candidates = Candidates::Exact,
                "--boilerplate" => options.boilerplate = Some(number()),
                "--recall" => options.recall = true,
                "--json" => options.json = true,
                option if option.starts_with("--") => panic!("unknown option {option}"),
                path => options.path = Some(path.into()),
            }
        }
        options
    }
}

/// Seconds that each step took.
#[derive(Default)]
struct Run {
    steps: [f64; 4],
    removed: Vec<u32>,
    passes: u32,
}

const STEPS: [&str; 4] = ["reading", "equal texts", "signing", "deciding"];

fn main() {
    let options = Options::of_command_line();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let runs: Vec<Run> = (0..options.runs).map(|_| run(&options)).collect();
    let documents = documents(&options);
    let text_bytes: usize = documents.iter().map(|(_, text)| text.len()).sum();

    if options.json {
        let seconds: Vec<f64> = runs.iter().map(|run| run.steps.iter().sum()).collect();
        let line = serde_json::json!({
            "documents": documents.len(),
            "text_bytes": text_bytes,
            "threads": threads,
            "seconds": seconds,
            "removed": runs[0].removed,
        });
        println!("{line}");
        return;
    }

    println!(
        "{} documents, {:.1} MB of text, {threads} threads, {} runs; {} removed in {} passes",
        documents.len(),
        text_bytes as f64 / 1e6,
        runs.len(),
        runs[0].removed.len(),
        runs[0].passes,
    );
    println!("{:<14} {:>9}  {:>20}", "", "MB/s", "slowest to fastest");
    for (number, step) in STEPS.iter().enumerate() {
        print_row(step, text_bytes, runs.iter().map(|run| run.steps[number]));
    }
    print_row("total", text_bytes, runs.iter().map(|run| run.steps.iter().sum()));

    if options.recall {
        print_recall(&options, &runs[0].removed);
    }
    if let Some(planted) = options.path.as_deref().and_then(planted_pairs) {
        print_comparison(&planted, &documents);
    }
}

fn print_row(name: &str, text_bytes: usize, seconds: impl Iterator<Item = f64>) {
    let mut rates: Vec<f64> = seconds.map(|seconds| text_bytes as f64 / 1e6 / seconds).collect();
    rates.sort_by(f64::total_cmp);
    let spread = format!("{:.1} to {:.1}", rates[0], rates[rates.len() - 1]);
    println!("{name:<14} {:>9.1}  {spread:>20}", rates[rates.len() / 2]);
}

/// Prints how many of the documents that the exact method removes were removed.
fn print_recall(options: &Options, removed: &[u32]) {
    let rule = NearDuplicateRule { candidates: Candidates::Exact, ..options.rule };
    let exact = run(&Options { path: options.path.clone(), rule, ..*options });
    let found = exact.removed.iter().filter(|document| removed.binary_search(document).is_ok());
    let found = found.count();
    println!(
        "recall: {found} of the {} documents that the exact method removes, {:.5}; {} others",
        exact.removed.len(),
        found as f64 / exact.removed.len() as f64,
        removed.len() - found,
    );
}

/// One pass from the files to the list of removed documents.
fn run(options: &Options) -> Run {
    let mut run = Run::default();
    let mut step = 0;
    let mut started = Instant::now();
    let mut ended = |run: &mut Run| {
        run.steps[step] = started.elapsed().as_secs_f64();
        step += 1;
        started = Instant::now();
    };

    let documents = documents(options);
    ended(&mut run);

    let mut index = ExactIndex::default();
    let mut distinct = Vec::new();
    for (number, (_, text)) in documents.iter().enumerate() {
        let is_equal = |first: u32| Ok::<_, Infallible>(documents[first as usize].1 == *text);
        match index.first_copy_or_insert(number as u32, text_hash(text), is_equal) {
            Ok(Some(_)) => run.removed.push(number as u32),
            Ok(None) => distinct.push(number),
        }
    }
    let texts: Vec<&str> = distinct.iter().map(|&number| documents[number].1.as_str()).collect();
    ended(&mut run);

    let corpus = SignedDocuments::sign(&texts, &options.rule, &Silent).expect("never stopped");
    ended(&mut run);

    let mut search = Search::new(&corpus, &options.rule, options.index_bytes);
    while let Some(stretch) = search.next_stretch(&Silent).expect("never stopped") {
        let removed = stretch.removed.iter();
        run.removed.extend(removed.map(|removal| distinct[removal.document as usize] as u32));
        run.passes = stretch.place.pass + 1;
    }
    ended(&mut run);
    run.removed.sort_unstable();
    run
}

/// The identifier and the text of every document.
fn documents(options: &Options) -> Vec<(String, String)> {
    let Some(path) = &options.path else {
        let texts = match options.boilerplate {
            Some(count) => generate::boilerplate(1, count),
            None => generate::documents(1, 4_500),
        };
        let texts = texts.into_iter().enumerate();
        return texts.map(|(number, text)| (number.to_string(), text)).collect();
    };
    let mut source = SourceConfig::detect(path).expect("a path that can be read");
    if let SourceFormat::Jsonl(keys) = &mut source.format {
        *keys = JsonlConfig { id_key: "src".to_owned(), ..JsonlConfig::default() };
    }
    let mut sources =
        Sources::open(&[source], ReadPolicy::default()).expect("files that can be read");
    let mut documents = Vec::new();
    let mut bytes = 0;
    while bytes < options.max_bytes {
        let blocks: Vec<RecordBlock> =
            std::iter::from_fn(|| sources.next_block()).take(BLOCKS_AT_ONCE).collect();
        if blocks.is_empty() {
            break;
        }
        let parsed: Vec<ParsedBlock> = blocks.into_par_iter().map(RecordBlock::parse).collect();
        for block in parsed {
            for item in sources.accept(block).expect("records that can be read") {
                if let Item::Document(document) = item {
                    bytes += document.text.len();
                    documents.push((document.provenance.id.unwrap_or_default(), document.text));
                }
            }
        }
    }
    documents
}

/// Two documents by their identifiers, and their similarity.
type PlantedPair = (String, String, f64);

/// The pairs of the `planted.tsv` that lies beside a corpus.
fn planted_pairs(corpus: &Path) -> Option<Vec<PlantedPair>> {
    let folder = if corpus.is_dir() { corpus } else { corpus.parent()? };
    let lines = fs::read_to_string(folder.join("planted.tsv")).ok()?;
    let pair = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        let pair = (columns.next()?, columns.next()?, columns.next()?.parse().ok()?);
        Some(pair)
    };
    Some(lines.lines().map(|line| pair(line).expect("two documents and a number")).collect())
}

/// Prints how far our similarities are from the given ones, where both documents are there.
fn print_comparison(planted: &[PlantedPair], documents: &[(String, String)]) {
    let texts: HashMap<&str, &str> =
        documents.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
    let set = |text: &str| {
        let mut set = Vec::new();
        shingles(text, FIVE_WORDS, &mut set);
        set
    };
    let mut differences: Vec<(f64, &PlantedPair)> = planted
        .iter()
        .filter_map(|pair| {
            let (left, right) = (set(texts.get(&*pair.0)?), set(texts.get(&*pair.1)?));
            let any = Threshold::from_hundredths(1);
            let ours = jaccard_above(&left, &right, any).map_or(0.0, |jaccard| jaccard.value());
            Some(((ours - pair.2).abs(), pair))
        })
        .collect();
    differences.sort_by(|a, b| b.0.total_cmp(&a.0));
    // The given ones have six decimals.
    let equal = differences.iter().filter(|(difference, _)| *difference < 1e-6).count();
    println!("planted.tsv: {equal} of {} similarities are the same", differences.len());
    for (difference, (left, right, given)) in differences.iter().take(3) {
        println!("  off by {difference:.6}: {left} and {right}, given as {given}");
    }
}
