//! Speed of reading JSONL, in millions of bytes per second, beside `serde_json`.
//!
//! `cargo bench -p corpus --bench read -- [FILE]`: a file of records whose text stands under
//! `text`, or without one 64 MB of made-up records. Every row reads the same bytes out of the
//! system's cache; `cut and parse` is the road that a run takes, with the blocks shared among
//! threads, `serde_json` a loop over the same lines that takes the text out with a derived
//! `Deserialize`.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use corpus::reader::{Item, ParsedBlock, ReadPolicy, RecordBlock, SourceConfig, Sources};

const ROUNDS: usize = 5;
const MADE_UP_BYTES: usize = 64_000_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Cargo adds a flag of its own.
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let file = named.map_or_else(|| made_up(folder.path()), PathBuf::from);
    let bytes = fs::read(&file).expect("a readable file").len();
    println!("{}: {:.0} MB", file.display(), bytes as f64 / 1e6);
    println!("{:<28}{:>9}{:>18}", "MB/s", "median", "lowest to highest");
    row("serde_json, 1 thread", bytes, || with_serde(&file));
    row("cut alone", bytes, || cut(&file));
    row("cut and parse, 1 thread", bytes, || read(&file));
    for threads in [1, 2] {
        let name = format!("cut and parse, {threads} + 1 threads");
        row(&name, bytes, || read_on(threads, &file));
    }
}

/// A file of records like those of a crawl: prose, line ends and quotation marks escaped, some
/// characters beyond ASCII, an identifier and a URL.
fn made_up(folder: &Path) -> PathBuf {
    let mut lines = String::with_capacity(MADE_UP_BYTES + 10_000);
    let mut state = 1_u64;
    let mut number = 0;
    while lines.len() < MADE_UP_BYTES {
        let _ = write!(
            lines,
            "{{\"id\": {number}, \"url\": \"https://a.example/{number}\", \"text\": \""
        );
        for word in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let letters = (state >> 33) as usize % 8 + 2;
            lines.push_str(&"etaoinshrdlu"[..letters]);
            lines.push_str(match word % 20 {
                19 => ".\\n",
                13 => ", \\\"",
                7 => "\u{2019}s ",
                _ => " ",
            });
        }
        lines.push_str("\"}\n");
        number += 1;
    }
    let path = folder.join("made-up.jsonl");
    fs::write(&path, lines).expect("room for a file");
    path
}

/// Prints how fast `read` goes through `bytes` bytes.
fn row(name: &str, bytes: usize, mut read: impl FnMut() -> usize) {
    let mut speeds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(read());
            bytes as f64 / 1e6 / start.elapsed().as_secs_f64()
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    let spread = format!("{:.0} to {:.0}", speeds[0], speeds[ROUNDS - 1]);
    println!("{name:<28}{:>9.0}{spread:>18}", speeds[ROUNDS / 2]);
}

fn sources(file: &Path) -> Sources {
    Sources::open(&[SourceConfig::jsonl(file)], ReadPolicy::default()).expect("a file of records")
}

/// Bytes of the texts of a file.
fn read(file: &Path) -> usize {
    sources(file).map(|item| text_bytes(&item.expect("a record"))).sum()
}

fn text_bytes(item: &Item) -> usize {
    match item {
        Item::Document(document) | Item::Repaired(document, _) => document.text.len(),
        Item::NullText(_) | Item::Rejected(_) => 0,
    }
}

fn cut(file: &Path) -> usize {
    let mut sources = sources(file);
    std::iter::from_fn(|| sources.next_block()).map(|block| block.file() as usize + 1).sum()
}

/// Bytes of the texts of a file whose blocks are parsed on `threads` threads beside the one that
/// cuts.
fn read_on(threads: usize, file: &Path) -> usize {
    let mut sources = sources(file);
    let (to_parse, blocks) = sync_channel::<RecordBlock>(2 * threads);
    let blocks = Arc::new(Mutex::new(blocks));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let blocks = Arc::clone(&blocks);
                scope.spawn(move || {
                    let mut bytes = 0;
                    loop {
                        let block = blocks.lock().expect("no thread panics").recv();
                        let Ok(block) = block else { return bytes };
                        let parsed: ParsedBlock = block.parse();
                        bytes += parsed.items().iter().map(text_bytes).sum::<usize>();
                    }
                })
            })
            .collect();
        while let Some(block) = sources.next_block() {
            to_parse.send(block).expect("the threads wait for blocks");
        }
        drop(to_parse);
        workers.into_iter().map(|worker| worker.join().expect("no thread panics")).sum()
    })
}

/// Bytes of the texts of a file, read line by line.
fn with_serde(file: &Path) -> usize {
    #[derive(serde::Deserialize)]
    struct Record<'l> {
        #[serde(borrow)]
        text: Cow<'l, str>,
    }
    let content = fs::read_to_string(file).expect("a readable file");
    content
        .lines()
        .map(|line| {
            let record: Record<'_> = serde_json::from_str(line).expect("a record");
            std::hint::black_box(record.text.into_owned()).len()
        })
        .sum()
}
