//! The whole data stage, stage by stage: `cargo bench -p curation --bench curate -- [PATH]
//! [--documents N] [--memory MIB]... [--runs N] [--no-length]`.
//!
//! PATH is a file, folder or glob of JSONL; without it N short documents are made up, of which
//! every tenth is an edited copy of an earlier one. Everything is curated as the paper has it, once
//! for each `--memory` (8192 where none is given). A row is a stage: seconds, and megabytes of input
//! per second, the median of the runs with the slowest and fastest. *Removal list* is everything
//! from the files to the decisions, without the tokens. The memory (MiB) is the most that the process
//! held for itself, looked at twenty times a second.
//!
//! Every result is compared with the first, byte by byte.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corpus::reader::SourceConfig;
use corpus::{Existing, Observer, Unit};
use curation::{CurationConfig, CurationReport, curate};

/// Files that must be the same bytes in every run.
const RESULTS: [&str; 4] = ["corpus.bin", "corpus.idx", "removed.jsonl", "provenance.jsonl"];

/// Stages that come after the decisions.
const AFTER_DECISIONS: [&str; 2] = ["tokenize", "write lists"];

/// What the command line asks for.
struct Options {
    path: Option<PathBuf>,
    documents: usize,
    memory: Vec<u64>,
    runs: usize,
    length: bool,
}

impl Options {
    fn of_command_line() -> Self {
        let mut options =
            Self { path: None, documents: 200_000, memory: Vec::new(), runs: 3, length: true };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || -> usize {
                arguments.next().and_then(|n| n.parse().ok()).expect("a number behind the option")
            };
            match argument.as_str() {
                "--bench" => {} // from cargo
                "--documents" => options.documents = number(),
                "--memory" => options.memory.push((number() as u64) << 20),
                "--runs" => options.runs = number().max(1),
                "--no-length" => options.length = false,
                option if option.starts_with("--") => panic!("unknown option {option}"),
                path => options.path = Some(path.into()),
            }
        }
        if options.memory.is_empty() {
            options.memory.push(8 << 30);
        }
        options
    }
}

/// Takes the time of every stage, and looks at the memory that it holds.
#[derive(Default)]
struct Stopwatch {
    stages: Mutex<Vec<Stage>>,
}

/// A stage that has begun.
struct Stage {
    name: String,
    began: Instant,
    took: Duration,
    peak_bytes: u64,
}

impl Stopwatch {
    fn look_at_memory(&self) {
        let held = corpus::machine::anonymous_bytes().unwrap_or(0);
        if let Some(stage) = self.stages.lock().expect("no thread panicked").last_mut() {
            stage.peak_bytes = stage.peak_bytes.max(held);
        }
    }
}

impl Observer for Stopwatch {
    fn begin(&self, stage: &str, _total: Option<u64>, _unit: Unit) {
        let stage = Stage {
            name: stage.to_owned(),
            began: Instant::now(),
            took: Duration::ZERO,
            peak_bytes: 0,
        };
        self.stages.lock().expect("no thread panicked").push(stage);
    }

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {
        self.look_at_memory();
        if let Some(stage) = self.stages.lock().expect("no thread panicked").last_mut() {
            stage.took = stage.began.elapsed();
        }
    }
}

/// One curation.
struct Run {
    stages: Vec<Stage>,
    seconds: f64,
    report: CurationReport,
}

fn main() {
    let options = Options::of_command_line();
    let folder = tempfile::tempdir_in(".").expect("a folder to work in");
    let input = options.path.clone().unwrap_or_else(|| {
        let path = folder.path().join("short.jsonl");
        write_short_documents(&path, options.documents);
        path
    });
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for &memory in &options.memory {
        let runs: Vec<Run> =
            (0..options.runs).map(|_| run(&options, &input, memory, folder.path())).collect();
        print_table(&runs, memory, threads);
    }
}

/// Curates the input under a limit, and compares the result with that of the first run.
fn run(options: &Options, input: &Path, memory: u64, folder: &Path) -> Run {
    let source = SourceConfig { name: "bench".to_owned(), ..SourceConfig::jsonl(input) };
    let mut config = CurationConfig::of_paper(vec![source]);
    if !options.length {
        config.length = None;
    }
    let mut plan = config.validate().expect("the paper's configuration");
    plan.max_memory = Some(memory);
    plan.existing = Existing::Replace;
    let (first, out) = (folder.join("first"), folder.join("out"));
    let stopwatch = Stopwatch::default();
    let is_over = AtomicBool::new(false);
    let (report, seconds) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                stopwatch.look_at_memory();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let began = Instant::now();
        let report = curate(&plan, &out, &stopwatch);
        is_over.store(true, Ordering::Relaxed);
        (report.expect("a corpus that can be curated"), began.elapsed().as_secs_f64())
    });
    if first.exists() {
        for name in RESULTS {
            assert!(is_same(&first.join(name), &out.join(name)), "{name} differs");
        }
        fs::remove_dir_all(&out).expect("a folder of our own");
    } else {
        fs::rename(&out, &first).expect("a folder of our own");
    }
    let stages = stopwatch.stages.into_inner().expect("no thread panicked");
    Run { stages, seconds, report }
}

fn print_table(runs: &[Run], memory: u64, threads: usize) {
    let report = &runs[0].report;
    println!(
        "{} documents, {:.1} MB, {threads} threads, {} runs, {} MiB allowed: {} kept",
        report.documents_in,
        report.bytes_in as f64 / 1e6,
        runs.len(),
        memory >> 20,
        report.documents_kept,
    );
    println!("{:<20}{:>9}{:>9}{:>18}{:>9}", "", "seconds", "MB/s", "slowest, fastest", "MiB");
    let mebibytes =
        |place: usize| runs.iter().map(|run| run.stages[place].peak_bytes).max().unwrap_or(0) >> 20;
    let row = |name: &str, seconds: &dyn Fn(&Run) -> f64, held: u64| {
        let mut all: Vec<f64> = runs.iter().map(seconds).collect();
        all.sort_by(f64::total_cmp);
        let speed = |seconds: f64| report.bytes_in as f64 / 1e6 / seconds;
        let median = all[all.len() / 2];
        let spread = format!("{:.0} to {:.0}", speed(all[all.len() - 1]), speed(all[0]));
        println!("{name:<20}{median:>9.2}{:>9.0}{spread:>18}{held:>9}", speed(median));
    };
    for (place, stage) in runs[0].stages.iter().enumerate() {
        row(&stage.name, &|run| run.stages[place].took.as_secs_f64(), mebibytes(place));
    }
    let is_decision = |stage: &&Stage| !AFTER_DECISIONS.contains(&&*stage.name);
    let decided = |run: &Run| {
        run.stages.iter().filter(is_decision).map(|stage| stage.took.as_secs_f64()).sum()
    };
    let peak = (0..runs[0].stages.len()).map(mebibytes).max().unwrap_or(0);
    row("removal list", &decided, peak);
    row("in all", &|run| run.seconds, peak);
    println!();
}

/// Writes documents of about 600 bytes.
fn write_short_documents(path: &Path, documents: usize) {
    const RECENT: usize = 10_000;
    let mut out = BufWriter::new(File::create(path).expect("room for the input"));
    let mut random = generate::Random::new(1);
    let mut recent: Vec<Vec<String>> = Vec::new();
    for number in 0..documents {
        let words = if number % 10 == 9 {
            let original = recent[random.below(recent.len())].clone();
            random.edited(&original, 2)
        } else {
            random.words(110)
        };
        let record = serde_json::json!({"id": number.to_string(), "text": words.join(" ")});
        writeln!(out, "{record}").expect("room for the input");
        if recent.len() < RECENT {
            recent.push(words);
        } else {
            let place = random.below(RECENT);
            recent[place] = words;
        }
    }
    out.flush().expect("room for the input");
}

fn is_same(one: &Path, other: &Path) -> bool {
    let summary = |path| corpus::FileSummary::of(path).expect("a result").xxh3_128;
    summary(one) == summary(other)
}
