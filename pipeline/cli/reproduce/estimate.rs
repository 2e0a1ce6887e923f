//! What a reproduction takes of this machine, found before any text is read, and whether the machine
//! has it.
//!
//! Memory is the planner's: of each rank, and of all of them, which are threads of one process. Time
//! is the model's floating-point operations at the speed at which this machine multiplies matrices,
//! which no training exceeds; a machine that others share swings, so it is refused only well beyond
//! the limit. What trainings have taken that are done tells more, and is told beside. Disk is
//! checkpoints, and the corpus with the stages of its curation.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use corpus::race::RaceSplit;
use corpus::{Observer, machine, tokenizer};
use evaluation::{CheckpointKind, ModelIdentity, Task};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use training::RunOptions;
use training::architecture::Architecture;

use super::config::{ReproduceConfig, SizeSection};
use super::eval_task;
use super::inputs::{Inputs, TestFile};
use super::journal::{Journal, State};
use super::parts::{DATA, Part, Parts, TEXT, name_of, run_of};
use super::report::numerals::{duration, scientific};
use super::speed::{Speed, gflops};

/// Bytes of a parameter in a checkpoint: weight and Adam's two moments.
const CHECKPOINT_BYTES_PER_PARAMETER: u64 = 12;
/// Bytes of text to a token of GPT-2's, roughly.
const TEXT_BYTES_PER_TOKEN: u64 = 4;
/// Bytes of a token in a shard.
const SHARD_BYTES_PER_TOKEN: u64 = 2;
/// Bytes of disk that the stages of a curation take for each byte of text.
const STAGE_BYTES_PER_TEXT_BYTE: u64 = 3;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// How many times the limit the time must be for a machine to be refused: what shares its cores may
/// have slowed the measurement down so much.
const TIME_MARGIN: f64 = 1.5;

/// What is still to be done takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Estimate {
    /// Floating-point operations a second of this machine's matrix products: of the fastest that
    /// was just measured, or of the fastest training that is done where that is more.
    pub(super) matrix_flops_per_second: f64,
    /// Those of the fastest product of the slowest moment of the measurement.
    pub(super) matrix_flops_per_second_slowest: f64,
    /// Floating-point operations a second of the fastest training that is done, with all that came
    /// between its steps; `None` where none is.
    pub(super) trained_flops_per_second: Option<f64>,
    /// Days of all sizes that are not done, at the speed of matrix products: about the least that
    /// they take.
    pub(super) days_at_least: f64,
    /// Days of these at the speed of the fastest training that is done.
    pub(super) days_as_trained: Option<f64>,
    /// Days that the configuration allows.
    pub(super) max_days: f64,
    /// Memory that this process may fill; `None` where the system does not tell.
    pub(super) memory_bytes: Option<u64>,
    /// Disk for the checkpoints of all sizes, ...
    pub(super) checkpoint_bytes: u64,
    /// ... and for the corpus with the stages of its curation.
    pub(super) corpus_bytes: u64,
    /// Bytes that the folder takes already.
    pub(super) present_bytes: u64,
    /// Disk that what is still to be done takes beyond what is there of it.
    pub(super) needed_bytes: u64,
    /// Disk that is free; `None` where the system does not tell.
    pub(super) free_bytes: Option<u64>,
    /// Each size.
    pub(super) sizes: Vec<SizeEstimate>,
    /// Why this machine is refused, in sentences; nothing where it is not.
    pub(super) refusals: Vec<String>,
}

/// What a size takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SizeEstimate {
    /// Its name.
    pub(super) name: String,
    /// Parameters with the vocabulary padded.
    pub(super) parameters: u64,
    /// Ranks that train it.
    pub(super) ranks: u64,
    /// Memory of one rank.
    pub(super) bytes_per_rank: u64,
    /// Memory of all ranks.
    pub(super) bytes: u64,
    /// Tokens that it sees in training.
    pub(super) tokens: u64,
    /// How often it sees each; `None` where the corpus is not known.
    pub(super) epochs: Option<f64>,
    /// Floating-point operations of its training.
    pub(super) training_flops: f64,
    /// Those of its scores on the test files that are given.
    pub(super) evaluation_flops: f64,
    /// Days of both at the speed of the machine's matrix products.
    pub(super) days_at_least: f64,
    /// Whether it is trained and scored already.
    pub(super) done: bool,
}

impl Estimate {
    /// What the reproduction takes, of which `journal` tells what is done. Reads the test files that
    /// are given, so that a mistake in one is found before the models are trained.
    ///
    /// # Errors
    ///
    /// Where a size or a test file cannot be used, or `observer` asks to stop.
    pub(super) fn of(
        config: &ReproduceConfig,
        inputs: &Inputs,
        out: &Path,
        journal: &Journal,
        observer: &dyn Observer,
    ) -> anyhow::Result<Self> {
        let parts = Parts { config, inputs, out };
        let measured = Speed::measure(observer)?;
        let trained_flops_per_second = trained_flops_per_second(&parts, journal)?;
        let matrix_flops_per_second = measured.fastest.max(trained_flops_per_second.unwrap_or(0.0));
        let epochs = epochs(&parts, journal, observer)?;
        let mut sizes = Vec::new();
        let mut needed_bytes = 0_u64;
        for (index, size) in config.sizes.iter().enumerate() {
            let done = is_done(&parts, index, journal)?;
            let mut size = SizeEstimate::of(config, size, inputs, matrix_flops_per_second, done)?;
            size.epochs = epochs.or(size.epochs);
            if !done {
                let present = bytes_below(&out.join(run_of(&size.name)));
                let needed = checkpoints_of(config, &size).saturating_sub(present);
                needed_bytes = needed_bytes.saturating_add(needed);
            }
            sizes.push(size);
        }
        if inputs.text.is_none() || !parts.is_done(Part::Corpus, journal)? {
            let mut present = 0;
            for (part, folder) in [(Part::Text, TEXT), (Part::Corpus, DATA)] {
                let entry = journal.entry(&parts.key(part));
                // What was done and is to be done again is set aside meanwhile.
                if entry.is_none_or(|entry| entry.state == State::Begun)
                    || parts.is_done(part, journal)?
                {
                    present += bytes_below(&out.join(folder));
                }
            }
            let needed = corpus_bytes(config).saturating_sub(present);
            needed_bytes = needed_bytes.saturating_add(needed);
        }
        let to_do = sizes.iter().filter(|it| !it.done);
        let days_at_least = to_do.fold(0.0, |days, it| days + it.days_at_least);
        let mut estimate = Self {
            matrix_flops_per_second,
            matrix_flops_per_second_slowest: measured.slowest,
            trained_flops_per_second,
            days_at_least,
            days_as_trained: trained_flops_per_second
                .map(|trained| days_at_least * matrix_flops_per_second / trained),
            max_days: config.limits.max_days,
            memory_bytes: machine::memory_bytes(),
            checkpoint_bytes: sizes.iter().map(|it| checkpoints_of(config, it)).sum(),
            corpus_bytes: corpus_bytes(config),
            present_bytes: bytes_below(out),
            needed_bytes,
            free_bytes: free_bytes(out),
            sizes,
            refusals: Vec::new(),
        };
        estimate.refusals = estimate.too_much(out);
        Ok(estimate)
    }

    /// The speed of this machine's matrix products, in words: from that of the slowest moment to
    /// that of the fastest, where it matters.
    pub(super) fn speed(&self) -> String {
        let [slowest, fastest] =
            [self.matrix_flops_per_second_slowest, self.matrix_flops_per_second].map(gflops);
        match self.matrix_flops_per_second_slowest < 0.95 * self.matrix_flops_per_second {
            true => format!("{slowest} to {fastest} GFLOP/s"),
            false => format!("{fastest} GFLOP/s"),
        }
    }

    /// What remains to be done at the speed of the trainings that are done, in words.
    pub(super) fn as_trained(&self) -> Option<String> {
        let (days, speed) = self.days_as_trained.zip(self.trained_flops_per_second)?;
        let (time, speed) = (time(days), gflops(speed));
        (days > 0.0)
            .then(|| format!("about {time} at the {speed} GFLOP/s of a training that is done"))
    }

    /// What of it is more than there is.
    fn too_much(&self, out: &Path) -> Vec<String> {
        let mut refusals = Vec::new();
        for size in self.sizes.iter().filter(|it| !it.done) {
            let Some(present) = self.memory_bytes.filter(|&present| present < size.bytes) else {
                continue;
            };
            let (each, all) = (HumanBytes(size.bytes_per_rank), HumanBytes(size.bytes));
            let present = HumanBytes(present);
            refusals.push(match size.ranks {
                1 => format!(
                    "memory: size {} needs {all} on its one rank, and this machine has {present}",
                    size.name
                ),
                ranks => format!(
                    "memory: size {} needs {each} on each of {ranks} ranks, {all} in all, and this \
                     machine has {present}",
                    size.name
                ),
            });
        }
        if let Some(free) = self.free_bytes.filter(|&free| free < self.needed_bytes) {
            refusals.push(format!(
                "disk: checkpoints take {} and the corpus with the stages of its curation {}, {} \
                 of it beyond what is there, and {} has {} free",
                HumanBytes(self.checkpoint_bytes),
                HumanBytes(self.corpus_bytes),
                HumanBytes(self.needed_bytes),
                out.display(),
                HumanBytes(free)
            ));
        }
        if self.days_at_least > TIME_MARGIN * self.max_days {
            let to_do = || self.sizes.iter().filter(|it| !it.done);
            let flops: f64 = to_do().map(|it| it.training_flops + it.evaluation_flops).sum();
            let tokens = to_do().map(|it| it.tokens).max().unwrap_or(0);
            refusals.push(format!(
                "time: {} tokens take {} floating-point operations, at least about {} at the {} of \
                 this machine's matrix products, and limits.max_days is {}",
                HumanCount(tokens),
                scientific(flops),
                time(self.days_at_least),
                self.speed(),
                self.max_days
            ));
        }
        refusals
    }
}

impl SizeEstimate {
    fn of(
        config: &ReproduceConfig,
        size: &SizeSection,
        inputs: &Inputs,
        flops_per_second: f64,
        done: bool,
    ) -> anyhow::Result<Self> {
        let train = config.train_config(size);
        let plan = train.summary().with_context(|| format!("size {}", size.name))?;
        let ranks = plan.tensor_parallel_size * plan.data_parallel_size;
        let training_flops = plan.model_flops_per_step * plan.train_steps as f64;
        let mut evaluation_flops = 0.0;
        for file in &inputs.test_files {
            evaluation_flops += evaluation_flops_of(config, size, file)?;
        }
        let race = RaceEstimate::of(config, size, inputs)?;
        let training_flops = training_flops + race.fine_tuning_flops;
        evaluation_flops += race.scoring_flops;
        let bytes_per_rank = plan.bytes_per_rank.total.max(race.bytes_per_rank);
        let seconds = (training_flops + evaluation_flops) / flops_per_second;
        Ok(Self {
            name: size.name.clone(),
            parameters: plan.parameters,
            ranks,
            bytes_per_rank,
            bytes: bytes_per_rank.saturating_mul(ranks),
            tokens: plan.tokens_total,
            epochs: plan.epochs,
            training_flops,
            evaluation_flops,
            days_at_least: seconds / SECONDS_PER_DAY,
            done,
        })
    }
}

/// What fine-tuning a size from every seed takes, and having each answer `dev` and `test`.
#[derive(Debug, Default)]
struct RaceEstimate {
    fine_tuning_flops: f64,
    scoring_flops: f64,
    /// Memory of one rank while it is fine-tuned.
    bytes_per_rank: u64,
}

impl RaceEstimate {
    /// Nothing where nothing is fine-tuned, or RACE is not given.
    fn of(config: &ReproduceConfig, size: &SizeSection, inputs: &Inputs) -> anyhow::Result<Self> {
        let Some(race) = &inputs.race else { return Ok(Self::default()) };
        let questions = |split| race.split(split).questions;
        let train = config.planned_fine_tune_config(size, questions(RaceSplit::Train));
        let Some(train) = train else { return Ok(Self::default()) };
        let plan = train.summary().with_context(|| format!("[finetune] of size {}", size.name))?;
        let seeds = config.seeds().len() as f64;
        let of_question = plan.model_flops_per_step / train.batch.global_batch_size.get() as f64;
        let scored = questions(RaceSplit::Dev) + questions(RaceSplit::Test);
        Ok(Self {
            fine_tuning_flops: seeds * plan.model_flops_per_step * plan.train_steps as f64,
            scoring_flops: seeds * scored as f64 * of_question / 3.0, // forward only
            bytes_per_rank: plan.bytes_per_rank.total,
        })
    }
}

/// Floating-point operations a second of the fastest training that is done, of just these settings.
fn trained_flops_per_second(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Option<f64>> {
    let mut fastest: Option<f64> = None;
    for (index, size) in parts.config.sizes.iter().enumerate() {
        let part = Part::Train(index);
        let Some(entry) = journal.entry(&parts.key(part)) else { continue };
        if parts.inputs.text.is_none() || !parts.is_done(part, journal)? || entry.seconds <= 0.0 {
            continue;
        }
        let train = parts.config.train_config(size);
        let plan = train.summary()?;
        let flops = plan.model_flops_per_step * plan.train_steps as f64;
        let speed = flops / entry.seconds;
        fastest = Some(fastest.map_or(speed, |it| it.max(speed)));
    }
    Ok(fastest)
}

/// How often each size sees each token, once the corpus is there: all of them as often.
fn epochs(
    parts: &Parts<'_>,
    journal: &Journal,
    observer: &dyn Observer,
) -> anyhow::Result<Option<f64>> {
    if parts.inputs.text.is_none() || !parts.is_done(Part::Corpus, journal)? {
        return Ok(None);
    }
    let size = &parts.config.sizes[0];
    if let Some(trained) = journal.result(&parts.key(Part::Train(0)))
        && parts.is_done(Part::Train(0), journal)?
    {
        return Ok(trained["epochs"].as_f64());
    }
    let options = RunOptions::new(parts.out.join(DATA), parts.out.join(run_of(&size.name)));
    let plan = parts.config.train_config(size).validate_observed(options, observer);
    Ok(plan.context("cannot train on the corpus")?.summary().epochs)
}

/// Whether a size needs neither training nor scoring.
fn is_done(parts: &Parts<'_>, size: usize, journal: &Journal) -> anyhow::Result<bool> {
    if parts.inputs.text.is_none() {
        return Ok(false);
    }
    for part in parts.all(journal) {
        if part.size() == Some(size) && !parts.is_done(part, journal)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Operations of a size's score on a test file.
fn evaluation_flops_of(
    config: &ReproduceConfig,
    size: &SizeSection,
    file: &TestFile,
) -> anyhow::Result<f64> {
    let tokenizer = tokenizer::open(&config.data.tokenizer)?;
    let model = size.gpt2().context("a test set is scored by a GPT-2")?;
    let architecture = Architecture::Gpt2(model.with_vocab_size(tokenizer.vocab_size()));
    let flops_per_token = architecture.flops_per_token() / 3.0; // forward only
    let identity = ModelIdentity {
        checkpoint: PathBuf::new(),
        kind: CheckpointKind::Trained,
        step: None,
        architecture,
        split_weights: None,
        masked_lm: None,
        tokenizer,
    };
    let task: Task = eval_task(file.task, name_of(file.task), file.path.clone());
    let plan = config.eval.clone().validate(PathBuf::new(), vec![task.clone()])?;
    let summary = task.summary(&identity, &plan).context("cannot use the test set")?;
    Ok(flops_per_token * summary.token_positions as f64)
}

/// Disk that the checkpoints of a size take at the most, the one that is being written among them.
fn checkpoints_of(config: &ReproduceConfig, size: &SizeEstimate) -> u64 {
    let checkpoint = &config.train.checkpoint;
    let steps = config.train.schedule.train_steps;
    let steps = steps.expect("the size was planned by them").get();
    let saved = checkpoint.interval_steps.map_or(1, |interval| steps.div_ceil(interval.get()));
    let kept = match checkpoint.keep_last {
        // How many minutes will make is not known.
        Some(kept) if checkpoint.interval_minutes.is_some() => kept.get() as u64,
        Some(kept) => saved.min(kept.get() as u64),
        None => saved,
    };
    let forever = checkpoint.keep_every.map_or(0, |every| steps / every.get());
    // A fine-tuning keeps its last one, and may be writing another.
    let finetuned = 2 * config.seeds().len() as u64;
    (kept + forever + 1 + finetuned)
        .saturating_mul(size.parameters.saturating_mul(CHECKPOINT_BYTES_PER_PARAMETER))
}

/// Disk that the corpus takes, with the stages of its curation.
fn corpus_bytes(config: &ReproduceConfig) -> u64 {
    let tokens = match &config.text {
        Some(text) => text.max_bytes.get() / TEXT_BYTES_PER_TOKEN,
        None => config.train.data.epoch_tokens.map_or(0, std::num::NonZero::get),
    };
    let text = tokens.saturating_mul(TEXT_BYTES_PER_TOKEN);
    let written = if config.text.is_some() { text } else { 0 }; // the text as documents
    tokens
        .saturating_mul(SHARD_BYTES_PER_TOKEN)
        .saturating_add(text.saturating_mul(STAGE_BYTES_PER_TEXT_BYTE))
        .saturating_add(written)
}

/// Bytes that can still be written where `out` is, or will be.
fn free_bytes(out: &Path) -> Option<u64> {
    let absolute = std::path::absolute(out).ok()?;
    absolute.ancestors().find(|folder| folder.exists()).and_then(machine::free_disk_bytes)
}

/// Bytes of the files below a folder; of what cannot be read, none.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let entries = entries.filter_map(|entry| entry.ok());
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_below(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// So many days in words: whole ones where they are many.
pub(super) fn time(days: f64) -> String {
    match days >= 10.0 {
        true => format!("{} days", HumanCount(days as u64)),
        false => duration(days * SECONDS_PER_DAY),
    }
}
