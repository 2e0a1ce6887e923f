//! RACE: questions on English articles, each with four answers, by the protocol of the original
//! implementation.
//!
//! A model sees every question four times, once with each answer ([`corpus::race`]), gives each a
//! number, and chooses the answer with the largest; of equal ones the first. All questions of middle
//! and of high school are asked, none twice and none left out, and `accuracy` counts each once,
//! whichever examinations it is from: it is no mean of the two levels' accuracies.
//!
//! How a question was answered is a [`ChoiceScore`](crate::ChoiceScore); of those of several models an [`Ensemble`] is
//! made, also of models that were asked at another time ([`Predictions::read`]).
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 5.3
//! and table 5, and `tasks/race` of Megatron-LM v1.0. Lai et al., *RACE: Large-scale ReAding
//! Comprehension Dataset From Examinations*, [arXiv 1704.04683](https://arxiv.org/abs/1704.04683).

mod accuracy;
mod ensemble;
mod metrics;
mod predictions;
mod questions;
mod scoring;

use std::path::PathBuf;
use std::time::Instant;

pub use accuracy::LevelAccuracy;
use corpus::race::{OPTIONS, RaceLevel, RaceSet, RaceSplit};
use corpus::{Observer, Silent, Unit};
pub use ensemble::{Ensemble, EnsembleMetrics, EnsembleSettings, Member, MemberMetrics};
pub use metrics::{Counts, Measured, Metrics, Settings};
pub use predictions::{ENSEMBLE, Prediction, Predictions};
use questions::QuestionSet;
pub(crate) use scoring::ChoiceLogits;
use scoring::Questions;
use tracing::{info, warn};

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::Items;
use crate::model::EvaluatedModel;
use crate::report::{self, TaskResult};
use crate::summary::TaskSummary;

/// What reports call the task.
pub const NAME: &str = "race";

/// What reports call the vote of several models.
pub const ENSEMBLE_NAME: &str = "race-ensemble";

/// Share of the questions that a guess among four answers gets right.
pub const CHANCE: f64 = 1.0 / OPTIONS as f64;

/// Letters of the answers, in the order of the options.
const LETTERS: [char; OPTIONS] = ['A', 'B', 'C', 'D'];

/// The questions of a split of RACE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Race {
    /// What the report calls the task.
    pub name: String,
    /// The folder of RACE, which holds `train`, `dev` and `test`.
    pub data: PathBuf,
    /// Which of them.
    pub split: RaceSplit,
}

impl Race {
    /// Has `model` choose an answer to every question of the split.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, the tokenizer has no `[CLS]` and `[SEP]`, the model fails or
    /// gives what is no number, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let set = QuestionSet::read(self, &model.identity, plan, observer)?;
        let counts = Counts::new(&set);
        if self.name == NAME && !set.is_published() {
            warn!(
                data = %self.data.display(),
                split = self.split.name(),
                questions = set.num_in_split(),
                "not RACE's published split: its numbers compare with no paper's"
            );
        }
        info!(
            task = self.name,
            split = self.split.name(),
            middle = counts.middle,
            high = counts.high,
            "answering"
        );
        observer.begin(&self.name, Some(counts.questions as u64), Unit::Examples);
        let asked = Questions { stage: &self.name, set: &set };
        let logits = model.score_samples(&self.name, 0, &asked, plan.micro_batch_size, observer)?;
        observer.finish();
        let items = set.items(&logits, &model.identity.checkpoint);
        let metrics = Metrics::new(&items);
        self.warn_if_guessing(&metrics, &counts, &model.identity);
        let settings = Settings::new(self, &set, &model.identity, plan);
        let measured = Measured { protocol: "megatron", metrics, counts, settings };
        Ok(TaskResult {
            task: self.name.clone(),
            measured: report::Measured::Race(Box::new(measured)),
            partial: counts.questions < counts.questions_in_split,
            seconds: start.elapsed().as_secs_f64(),
            items: Some(Items::Choices(items)),
        })
    }

    /// What [`run`](Self::run) would do.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        let set = QuestionSet::read(self, model, plan, &Silent)?;
        let batches = set.batches((0..set.len()).collect(), plan.micro_batch_size);
        let positions = |batch: &Vec<usize>| OPTIONS * batch.len() * set.longest_row(batch[0]);
        Ok(TaskSummary {
            task: self.name.clone(),
            data: self.data.clone(),
            tokens: set.num_tokens(),
            windows: None,
            examples: Some(set.len()),
            targets: set.len(),
            forward_passes: batches.len(),
            token_positions: batches.iter().map(positions).sum(),
            partial: set.len() < set.num_in_split(),
        })
    }

    /// Whether the folder holds the split: its articles are read.
    ///
    /// # Errors
    ///
    /// When a folder is lacking or a file is not in RACE's form, with file and line.
    pub(crate) fn check_present(&self) -> Result<(), EvalError> {
        self.read(&Silent).map(drop)
    }

    /// The hash of all that the split asks.
    ///
    /// # Errors
    ///
    /// As [`check_present`](Self::check_present).
    pub(crate) fn fingerprint(&self) -> Result<String, EvalError> {
        Ok(self.read(&Silent)?.fingerprint())
    }

    fn read(&self, observer: &dyn Observer) -> Result<RaceSet, EvalError> {
        Ok(RaceSet::read(&self.data, self.split, &RaceLevel::ALL, observer)?)
    }

    /// Warns of a model that has learned nothing that shows in so many questions.
    fn warn_if_guessing(&self, metrics: &Metrics, counts: &Counts, model: &ModelIdentity) {
        if metrics.better_than_chance {
            return;
        }
        let steps = model.step.map_or("an unknown number of".to_owned(), |step| step.to_string());
        warn!(
            task = self.name,
            accuracy = metrics.accuracy,
            questions = counts.questions,
            "not better than chance ({CHANCE}) after {steps} steps: within two standard errors of a \
             guess among four answers"
        );
    }
}

/// The probabilities of the answers with these logits.
fn softmax(logits: [f32; OPTIONS]) -> [f64; OPTIONS] {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shares = logits.map(|logit| (f64::from(logit) - f64::from(largest)).exp());
    let total: f64 = shares.iter().sum();
    shares.map(|share| share / total)
}

/// The negative natural logarithm of the probability of `answer`, which is a number also where that
/// of a very unlikely answer is 0.
fn nll(logits: [f32; OPTIONS], answer: usize) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit) - f64::from(largest);
    let total: f64 = logits.iter().map(|&logit| above(logit).exp()).sum();
    total.ln() - above(logits[answer])
}

/// The place of the largest number; of equal ones the first.
fn largest(numbers: &[f64; OPTIONS]) -> usize {
    (1..OPTIONS).fold(0, |best, at| if numbers[at] > numbers[best] { at } else { best })
}
