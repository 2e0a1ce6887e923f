//! The training crate: from configuration to checkpoint.

mod blend;
mod checkpoints;
mod configuration;
mod data;
mod data_parallel;
mod disk_full;
mod faults;
mod foreign_shards;
mod gradients;
mod hugging_face;
mod killed;
mod loss_scale;
mod megatron_order;
mod metrics;
mod mixed_precision;
mod optimizer;
mod planner;
mod program;
mod recompute;
mod reference_run;
mod resume;
mod runs;
mod schedule_resume;
mod sentence_pairs;
mod tensorboard;
mod threads;
mod trace;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corpus::tokenizer::{EncodeScratch, Encoded, Sink, Tokenizer};
use corpus::{CorpusError, DataFolder, DataManifest, Existing, Observer, Silent, Unit};
use tempfile::TempDir;
use training::config::{ModelConfig, TrainConfig};
use training::parallel::Rank;
use training::plan::{RunOptions, TrainPlan};
use training::timers::StepTimers;
use training::{TrainError, TrainReport, train};

/// A vocabulary without text: only its size matters here.
struct Numbers {
    vocab_size: usize,
}

impl Tokenizer for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn eod(&self) -> u32 {
        self.vocab_size as u32 - 1
    }

    fn fingerprint(&self) -> String {
        format!("numbers-{}", self.vocab_size)
    }

    fn encode_to(
        &self,
        text: &str,
        _: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        let tokens: Vec<u32> =
            text.split(' ').map(|number| number.parse::<u32>().unwrap()).collect();
        let _ = sink(&tokens);
        Ok(Encoded { tokens: tokens.len(), ..Encoded::default() })
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// A data folder of these documents, to each of which the end of a document is added.
fn data_folder(folder: &Path, vocab_size: usize, documents: &[Vec<u32>]) -> PathBuf {
    let tokenizer = Numbers { vocab_size };
    let writer = DataFolder::create(folder, Existing::Refuse).unwrap();
    let mut shard = writer.shard(vocab_size).unwrap();
    for document in documents {
        let mut tokens = document.clone();
        tokens.push(tokenizer.eod());
        shard.push_document(&tokens).unwrap();
    }
    let summary = shard.finish().unwrap();
    writer.finish(DataManifest::new(&tokenizer, &summary)).unwrap();
    folder.to_owned()
}

/// 60 documents that a model can learn: each counts up by a step of its own.
fn counting_documents(vocab_size: usize) -> Vec<Vec<u32>> {
    let modulus = vocab_size as u32 - 1;
    (0..60)
        .map(|document: u32| {
            let stride = 1 + document % 6;
            (0..40 + document % 17).map(|place| (document * 7 + stride * place) % modulus).collect()
        })
        .collect()
}

/// Two layers, 32 wide, on sequences of 16 tokens.
const MICRO: &str = r#"
seed = 7

[model.gpt2]
num_layers = 2
hidden_size = 32
num_attention_heads = 4
seq_length = 16
hidden_dropout = 0.0
attention_dropout = 0.0

[batch]
micro_batch_size = 4
global_batch_size = 4

[optimizer]
lr = 1e-3
min_lr = 1e-4

[schedule]
train_steps = 10
warmup_steps = 2

[data]
split = "90,10,0"
"#;

/// [`MICRO`], changed by `change`.
fn micro(change: impl FnOnce(&mut TrainConfig)) -> TrainConfig {
    let mut config = toml::from_str(MICRO).unwrap();
    change(&mut config);
    config
}

/// A folder with data in it, and room for runs.
struct Workbench {
    folder: TempDir,
    runs: AtomicU64,
}

impl Workbench {
    /// With the counting documents in a vocabulary of `vocab_size`.
    fn new(vocab_size: usize) -> Self {
        Self::with_documents(vocab_size, &counting_documents(vocab_size))
    }

    fn with_documents(vocab_size: usize, documents: &[Vec<u32>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        data_folder(&folder.path().join("data"), vocab_size, documents);
        Self { folder, runs: AtomicU64::new(0) }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A run folder that no other run of this workbench has.
    fn new_run(&self) -> PathBuf {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("run-{run}"))
    }

    fn options(&self, out: &Path) -> RunOptions {
        RunOptions { log_samples: true, ..RunOptions::new(self.data(), out.to_owned()) }
    }

    fn validate(&self, config: TrainConfig) -> Result<TrainPlan, TrainError> {
        config.validate(self.options(&self.new_run()))
    }

    /// Trains into a new run folder.
    fn train(&self, config: TrainConfig) -> (TrainReport, PathBuf) {
        let out = self.new_run();
        (self.train_into(&out, config), out)
    }

    fn train_into(&self, out: &Path, config: TrainConfig) -> TrainReport {
        train(&config.validate(self.options(out)).unwrap(), &Silent).unwrap()
    }

    /// The loss of every step of a new run.
    fn losses(&self, config: TrainConfig) -> Vec<f64> {
        logged(&self.train(config).1, "loss")
    }
}

/// The numbers under `key` in a run's metrics, in order.
pub(crate) fn logged(run: &Path, key: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter_map(|line| line[key].as_f64()).collect()
}

/// The samples of every step of a run, in order.
fn logged_samples(run: &Path) -> Vec<Vec<u64>> {
    let text = std::fs::read_to_string(run.join("samples.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines
        .zip(1_u64..)
        .map(|(line, step)| {
            assert_eq!(line["step"], step);
            serde_json::from_value(line["sample_ids"].clone()).unwrap()
        })
        .collect()
}

/// Timers that nobody reads.
pub(crate) fn timers(rank: &Rank) -> StepTimers {
    StepTimers::new(Arc::clone(&rank.calls))
}

/// Sets how many ranks share the model, and how many copies of it there are.
fn set_layout(config: &mut TrainConfig, (tensor, data): (usize, usize)) {
    config.parallel.tensor_parallel_size = number(tensor);
    config.parallel.data_parallel_size = number(data);
}

fn set_dropout(config: &mut TrainConfig, probability: f64) {
    let ModelConfig::Gpt2(section) = &mut config.model else { panic!("a GPT-2") };
    section.hidden_dropout = probability;
    section.attention_dropout = probability;
}

fn number(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn steps(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

/// The largest relative difference of two sequences of the same length.
fn relative_difference(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    let differences =
        left.iter().zip(right).map(|(left, right)| (left - right).abs() / right.abs());
    differences.fold(0.0, f64::max)
}

/// Asks to stop once a number of steps is done.
pub(crate) struct StopAfter {
    steps: u64,
    done: AtomicU64,
    /// Whether what is heard of are steps: not the bytes of a checkpoint that is read before.
    counts: AtomicBool,
}

impl StopAfter {
    pub(crate) fn new(steps: u64) -> Self {
        Self { steps, done: AtomicU64::new(0), counts: AtomicBool::new(false) }
    }
}

impl Observer for StopAfter {
    fn begin(&self, _stage: &str, _total: Option<u64>, unit: Unit) {
        self.counts.store(unit == Unit::Steps, Ordering::SeqCst);
    }

    fn advance(&self, amount: u64) {
        if self.counts.load(Ordering::SeqCst) {
            self.done.fetch_add(amount, Ordering::SeqCst);
        }
    }

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.done.load(Ordering::SeqCst) >= self.steps
    }
}
