//! How fast test sets are searched for in a corpus, in millions of bytes of the corpus per second.
//!
//! `cargo bench --bench contamination -- [--corpus PATH] [--data TEST]`: without them, 96 MB of
//! made-up JSONL and a test set of 240,000 made-up words, as WikiText103's has. Words of both are
//! drawn from 20,000 with the frequencies of a language, so that many short n-grams of the test set
//! stand in the corpus too.
//!
//! *search* is the search alone, of texts in memory, on one thread; *measure* all that the task
//! does, reading and parsing included, out of the system's cache. The medians of five rounds, and the
//! slowest and fastest; beside them the median by the time that processors worked, of all threads
//! together, which tells the cost where others use the machine too. Nothing is asserted.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::Silent;
use corpus::ngram::{NGramDictionary, NGramWindow};
use corpus::reader::{Item, ReadPolicy, Sources};
use corpus::test_set::source_of;
use evaluation::contamination::{ContaminationPlan, measure};

/// Any error: a benchmark only tells it.
type Failure = Box<dyn std::error::Error>;

const ROUNDS: usize = 5;
const CORPUS_BYTES: usize = 96_000_000;
const TEST_WORDS: usize = 240_000;
const VOCABULARY: usize = 20_000;
/// Text of a corpus that is searched in memory.
const SEARCHED_BYTES: usize = 64 << 20;

fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let (mut corpus, mut test) = (None, None);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--corpus" => corpus = arguments.next().map(PathBuf::from),
            "--data" => test = arguments.next().map(PathBuf::from),
            _ => {} // cargo's own
        }
    }
    let test = match test {
        Some(path) => path,
        None => made_test(folder.path())?,
    };
    let corpus = match corpus {
        Some(path) => path,
        None => made_corpus(folder.path())?,
    };
    println!("corpus {}, test set {}", corpus.display(), test.display());
    println!("{:<34}{:>9}{:>20}{:>14}", "MB/s", "median", "slowest to fastest", "per core");

    let texts = texts(&corpus)?;
    let bytes: usize = texts.iter().map(String::len).sum();
    let test_text = fs::read_to_string(&test)?;
    for (name, sizes) in sizes() {
        let sizes: Vec<usize> = sizes.iter().map(|size| size.get()).collect();
        let dictionary = [NGramDictionary::new(&sizes, [test_text.as_str()].into_iter())];
        let mut window = NGramWindow::default();
        let mut found = 0_u64;
        row(&format!("search, n = {name}, 1 thread"), bytes as f64, || {
            for text in &texts {
                NGramDictionary::search(&dictionary, text, &mut window, |_, _| found += 1);
            }
            Ok(())
        })?;
    }
    for (name, ngram_words) in sizes() {
        let plan = ContaminationPlan {
            ngram_words,
            ..ContaminationPlan::new(vec![test.clone()], vec![corpus.clone()])
        };
        let bytes = plan.summary(&Silent)?.corpus_bytes as f64;
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            row(&format!("measure, n = {name}, threads: {threads}"), bytes, || {
                pool.install(|| measure(&plan, None, &Silent))?;
                Ok(())
            })?;
        }
    }
    if let Some(bytes) = corpus::machine::peak_rss_bytes() {
        println!("peak of resident memory: {} MB", bytes / 1_000_000);
    }
    Ok(())
}

/// The numbers of words that are measured, and what they are called.
fn sizes() -> [(&'static str, Vec<NonZeroUsize>); 2] {
    let sizes = |range: std::ops::RangeInclusive<usize>| {
        range.filter_map(NonZeroUsize::new).collect::<Vec<_>>()
    };
    [("8", sizes(8..=8)), ("5..13", sizes(5..=13))]
}

/// Prints the rate of `work`, which goes over so many bytes.
fn row(
    name: &str,
    bytes: f64,
    mut work: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut rates, mut by_core) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (start, worked) = (Instant::now(), processor_seconds());
        work()?;
        // The first round warms up.
        if round > 0 {
            rates.push(bytes / 1e6 / start.elapsed().as_secs_f64());
            by_core.push(bytes / 1e6 / (processor_seconds() - worked));
        }
    }
    rates.sort_by(f64::total_cmp);
    by_core.sort_by(f64::total_cmp);
    let spread = format!("{:.0} to {:.0}", rates[0], rates[ROUNDS - 1]);
    let (median, by_core) = (rates[ROUNDS / 2], by_core[ROUNDS / 2]);
    println!("{name:<34}{median:>9.0}{spread:>20}{by_core:>14.0}");
    Ok(())
}

/// Seconds that processors have worked for this process, as Linux tells it, in hundredths; elsewhere
/// no number.
fn processor_seconds() -> f64 {
    let fields = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything but ends in the last parenthesis.
    let fields: Vec<&str> = fields.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok());
    ticks(12).zip(ticks(13)).map_or(f64::NAN, |(own, system)| (own + system) / 100.0)
}

/// The first texts of a corpus.
fn texts(path: &Path) -> Result<Vec<String>, Failure> {
    let (mut texts, mut bytes) = (Vec::new(), 0);
    for item in Sources::open(&[source_of(path, "text")?], ReadPolicy::default())? {
        if let Item::Document(document) = item? {
            bytes += document.text.len();
            texts.push(document.text);
        }
        if bytes >= SEARCHED_BYTES {
            break;
        }
    }
    Ok(texts)
}

/// The words of a made-up language, drawn as often as a rank allows: the n-th about 1/n as often as
/// the first.
struct Words {
    words: Vec<String>,
    state: u64,
}

impl Words {
    fn new(seed: u64) -> Self {
        let word = |rank: usize| {
            let (mut rest, mut word) = (rank, String::new());
            loop {
                word.push_str(
                    ["ta", "re", "no", "si", "lu", "me", "ko", "da", "vi", "pa"][rest % 10],
                );
                rest /= 10;
                if rest == 0 {
                    return word;
                }
            }
        };
        Self { words: (0..VOCABULARY).map(word).collect(), state: seed }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.state >> 33
    }

    fn next(&mut self) -> &str {
        let uniform = self.random() as f64 / (1_u64 << 31) as f64;
        let rank = (VOCABULARY as f64).powf(uniform) as usize - 1;
        &self.words[rank.min(VOCABULARY - 1)]
    }
}

fn made_test(folder: &Path) -> Result<PathBuf, Failure> {
    let mut words = Words::new(1);
    let mut text = String::new();
    for word in 0..TEST_WORDS {
        if word % 4_000 == 0 {
            write!(text, "\n \n = Article {word} = \n \n")?;
        }
        text.push(' ');
        text.push_str(words.next());
        text.push_str(if word % 12 == 11 { " ." } else { "" });
    }
    let path = folder.join("made.tokens");
    fs::write(&path, text)?;
    Ok(path)
}

/// Records like those of a crawl: prose, line ends and quotation marks escaped, some characters
/// beyond ASCII, an identifier.
fn made_corpus(folder: &Path) -> Result<PathBuf, Failure> {
    let mut words = Words::new(2);
    let mut lines = String::with_capacity(CORPUS_BYTES + 10_000);
    let mut number = 0;
    while lines.len() < CORPUS_BYTES {
        write!(lines, "{{\"id\": {number}, \"text\": \"")?;
        for word in 0..500 {
            lines.push_str(words.next());
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
    let path = folder.join("made.jsonl");
    fs::write(&path, lines)?;
    Ok(path)
}
