//! Fine-tuning: a pre-trained BERT goes on being trained, for a task of its own.
//!
//! Everything is as in pre-training, through the same loop, but for three things: the samples are
//! the task's, the model has the task's head in place of those of pre-training, and the run begins
//! with the weights of a pre-trained model, whose tokenizer the texts are encoded by.
//!
//! Source: Shoeybi et al., section 5.3 and table 6.

use std::num::NonZeroU64;

use corpus::TokenizerIdentity;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::checkpoint::{Checkpoint, CheckpointError, InitialWeights};
use crate::config::{ModelConfig, TrainConfig};
use crate::data::SampleForm;
use crate::data::input::named_tokenizer;
use crate::optim::ScheduleConfig;
use crate::plan::{Resume, RunOptions};

/// What a pre-trained model is trained for, chosen by the name of its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FineTuneConfig {
    /// `[finetune.race]`
    Race(RaceConfig),
}

/// `[finetune.race]`: a BERT learns to choose among the four answers to a question on an article.
///
/// `[batch]` then counts questions, each of which is four sequences.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaceConfig {
    /// How often the run sees each question of the split `train`, from which its steps follow; in
    /// place of `schedule.train_steps`. The paper: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Share of the run's steps over which the learning rate rises, 0 to 1; in place of
    /// `schedule.warmup_steps`. The original implementation: 0.06.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_share: Option<f64>,
}

/// How long a run is, whichever way it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunLength {
    /// Optimizer steps.
    pub(crate) train_steps: u64,
    /// Those of the warm-up.
    pub(crate) warmup_steps: u64,
}

impl FineTuneConfig {
    fn race(&self) -> &RaceConfig {
        let Self::Race(race) = self;
        race
    }
}

impl TrainConfig {
    /// What the samples of the model look like; refuses what only those of another one have.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] with what does not belong to them.
    pub(crate) fn sample_form(&self) -> Result<SampleForm, TrainError> {
        match (&self.model, &self.finetune) {
            (ModelConfig::Gpt2(_), None) => self.data.windows(),
            (ModelConfig::Bert(_), None) => self.data.sentence_pairs(),
            (ModelConfig::Gpt2(_), Some(_)) => Err(TrainError::InvalidField {
                field: "finetune.race",
                value: "given".to_owned(),
                expected: "belongs to [model.bert]; leave it out, or give that model".to_owned(),
            }),
            (ModelConfig::Bert(_), Some(_)) => self.data.questions(),
        }
    }

    /// The steps of the run, where it is trained on `num_questions` questions; `None` where that is
    /// not known.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] when a value is impossible or lacking;
    /// [`TrainError::TwoLengths`] when the length is written in two ways;
    /// [`TrainError::UnknownLength`] when it follows from a number of questions that is not known.
    pub(crate) fn length(&self, num_questions: Option<u64>) -> Result<RunLength, TrainError> {
        let race = self.finetune.as_ref().map(FineTuneConfig::race).cloned();
        let instead = |field| race.is_some().then_some(field);
        let RaceConfig { epochs, warmup_share } = race.clone().unwrap_or_default();
        let [epochs_field, share_field] = ["finetune.race.epochs", "finetune.race.warmup_share"];
        check_range(epochs_field, epochs, |it| it > 0.0, "must be a number above 0")?;
        let is_share = |it: f64| (0.0..=1.0).contains(&it);
        check_range(share_field, warmup_share, is_share, "must lie between 0 and 1")?;

        let ScheduleConfig { train_steps, warmup_steps, .. } = self.schedule;
        let steps = ("schedule.train_steps", train_steps.map(NonZeroU64::get));
        let train_steps = match Written::of(steps, (instead(epochs_field), epochs))? {
            Written::Steps(steps) => steps,
            Written::Derived(epochs) => {
                let questions = num_questions.ok_or(TrainError::UnknownLength { epochs })?;
                let steps = epochs * questions as f64 / self.batch.global_batch_size.get() as f64;
                (steps.ceil() as u64).max(1)
            }
        };
        let steps = ("schedule.warmup_steps", warmup_steps);
        let warmup_steps = match Written::of(steps, (instead(share_field), warmup_share))? {
            Written::Steps(steps) => steps,
            Written::Derived(share) => (share * train_steps as f64).round() as u64,
        };
        Ok(RunLength { train_steps, warmup_steps })
    }
}

/// A number of steps as it was written.
enum Written {
    /// As such.
    Steps(u64),
    /// As what it follows from.
    Derived(f64),
}

impl Written {
    /// Steps that are written in the field `steps`, or follow from `other`, which a run that is
    /// not fine-tuned has not.
    fn of(
        (field, steps): (&'static str, Option<u64>),
        (other, derived): (Option<&'static str>, Option<f64>),
    ) -> Result<Self, TrainError> {
        match (steps, derived) {
            (Some(steps), None) => Ok(Self::Steps(steps)),
            (None, Some(derived)) => Ok(Self::Derived(derived)),
            (Some(value), Some(derived_value)) => {
                let derived = other.unwrap_or_default();
                Err(TrainError::TwoLengths { field, value, derived, derived_value })
            }
            (None, None) => Err(TrainError::InvalidField {
                field,
                value: "not given".to_owned(),
                expected: match other {
                    Some(other) => format!("give it, or {other}"),
                    None => "a number of steps is needed".to_owned(),
                },
            }),
        }
    }
}

fn check_range(
    field: &'static str,
    value: Option<f64>,
    holds: impl Fn(f64) -> bool,
    expected: &str,
) -> Result<(), TrainError> {
    match value.filter(|&value| !(value.is_finite() && holds(value))) {
        None => Ok(()),
        Some(value) => Err(TrainError::InvalidField {
            field,
            value: value.to_string(),
            expected: expected.to_owned(),
        }),
    }
}

/// The tokenizer that the texts of a fine-tuning are encoded by: that of the weights it begins with,
/// or of the run that goes on; the one called `given` where these do not tell theirs.
///
/// # Errors
///
/// [`CheckpointError::NoPretrained`] when there are no weights to begin with;
/// [`CheckpointError::NoPretrainedTokenizer`] when nothing tells the tokenizer.
pub(crate) fn tokenizer(
    options: &RunOptions,
    init_from: Option<&InitialWeights>,
    given: Option<&str>,
) -> Result<TokenizerIdentity, TrainError> {
    if let Some(name) = given {
        // Held against the weights' own with everything else of them.
        return named_tokenizer(name);
    }
    if let Some(weights) = init_from {
        let found = weights.tokenizer()?;
        return found.ok_or_else(|| {
            let path = weights.folder().to_owned();
            CheckpointError::NoPretrainedTokenizer { path }.into()
        });
    }
    let earlier = match &options.resume {
        Resume::Auto => Some(&options.out),
        Resume::From(path) => Some(path),
        Resume::Never | Resume::Overwrite => None,
    };
    let earlier = earlier.and_then(|path| Checkpoint::peek_tokenizer(path));
    earlier.ok_or_else(|| CheckpointError::NoPretrained.into())
}
