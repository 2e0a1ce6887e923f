//! What an evaluation should do: as it was written, and as it is meant.
//!
//! How a checkpoint is evaluated stands in a file or in defaults; which checkpoint, and on which
//! test sets, is said where the evaluation is started. [`EvalConfig::validate`] joins the two.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use corpus::machine;
use serde::{Deserialize, Serialize};
use training::architecture::Architecture;
use training::checkpoint::Checkpoint;
use training::data::SplitWeights;

use crate::error::EvalError;
use crate::lambada::Lambada;
use crate::protocol::Protocol;
use crate::race::Race;
use crate::validation::Validation;
use crate::wikitext103::WikiText103;

/// How to evaluate, as a user writes it in TOML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalConfig {
    /// Windows, examples, pairs of sentences or questions (of four rows each) per forward pass.
    /// Changes speed and memory, not the result.
    pub micro_batch_size: NonZeroUsize,
    /// Tokens between the starts of two windows of WikiText103, at most the model's `seq_length`;
    /// the paper's is 32. Examples of LAMBADA do not overlap.
    pub overlap: NonZeroUsize,
    /// Ranks that share each copy of the model. Changes speed and memory, not the result.
    pub tensor_parallel_size: NonZeroUsize,
    /// Copies of the model that score side by side, each on ranks of its own and each as large as
    /// the model. Changes speed and memory, not the result.
    pub data_parallel_size: NonZeroUsize,
    /// Score only this many windows or examples per task and mark its result as partial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroUsize>,
    /// Weights by which the documents of a data folder are divided into training, validation and
    /// test, for the task validation; left out, those that the run was trained with, and `969,30,1`
    /// for weights of another program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_weights: Option<SplitWeights>,
}

/// The paper's protocol: an overlap of 32.
impl Default for EvalConfig {
    fn default() -> Self {
        const fn positive(number: usize) -> NonZeroUsize {
            NonZeroUsize::new(number).expect("the defaults are positive")
        }
        Self {
            micro_batch_size: const { positive(8) },
            overlap: const { positive(32) },
            tensor_parallel_size: NonZeroUsize::MIN,
            data_parallel_size: NonZeroUsize::MIN,
            limit: None,
            split_weights: None,
        }
    }
}

/// One test set with its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Word perplexity of WikiText103's test text, or of another text in its form.
    WikiText103(WikiText103),
    /// Accuracy on the last words of LAMBADA's passages, or of others in their form.
    Lambada(Lambada),
    /// Losses on held-out documents of a data folder.
    Validation(Validation),
    /// Accuracy on the questions of RACE.
    Race(Race),
}

impl Task {
    /// Refuses a model of `checkpoint` that cannot be asked this.
    ///
    /// # Errors
    ///
    /// [`EvalError::OtherModel`], with the tasks that measure such a model.
    pub fn check_model(&self, model: &Architecture, checkpoint: &Path) -> Result<(), EvalError> {
        match (self, model) {
            (Self::WikiText103(_) | Self::Lambada(_), Architecture::Gpt2(_))
            | (Self::Validation(_), Architecture::Gpt2(_) | Architecture::Bert(_))
            | (Self::Race(_), Architecture::BertChoice(_)) => Ok(()),
            _ => Err(EvalError::other_model(self.name(), checkpoint, model)),
        }
    }

    /// Looks whether there is something to read, without reading it.
    fn check_present(&self) -> Result<(), EvalError> {
        let file = match self {
            Self::WikiText103(task) => &task.data,
            Self::Lambada(task) => &task.data,
            // A data folder, a shard, or the stem of one: opening it is as quick.
            Self::Validation(_) => return Ok(()),
            Self::Race(task) => return task.check_present(),
        };
        match file.metadata() {
            Ok(found) if found.is_file() && found.len() == 0 => {
                Err(EvalError::Empty { path: file.clone() })
            }
            Ok(_) => Ok(()),
            Err(source) => Err(EvalError::Read { path: file.clone(), source }),
        }
    }
}

/// An evaluation as it is meant: nothing reads an [`EvalConfig`] after this.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalPlan {
    /// A run's folder, its folder of checkpoints, one checkpoint, or a Hugging Face folder.
    pub checkpoint: PathBuf,
    /// The tasks, in the order of the report.
    pub tasks: Vec<Task>,
    /// Windows or examples per forward pass.
    pub micro_batch_size: NonZeroUsize,
    /// Tokens between the starts of two windows of WikiText103.
    pub overlap: NonZeroUsize,
    /// Ranks that share each copy of the model.
    pub tensor_parallel_size: NonZeroUsize,
    /// Copies of the model that score side by side.
    pub data_parallel_size: NonZeroUsize,
    /// Windows or examples to score per task; `None` for all.
    pub limit: Option<NonZeroUsize>,
    /// Weights by which a data folder is divided; `None` for those of the model's training.
    pub split_weights: Option<SplitWeights>,
    /// Where scores are kept until the evaluation has ended, for another process to go on from.
    pub partial_scores: PartialScores,
}

/// Where the scores of an evaluation are kept until it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PartialScores {
    /// Nowhere: one that is stopped begins again.
    #[default]
    Nowhere,
    /// In this file.
    File {
        /// The file.
        path: PathBuf,
        /// Whether scores of another evaluation, or damaged ones, may be replaced.
        replace: bool,
    },
    /// In a file of this folder that is named after the evaluation: `eval-TASK-HASH.partial`.
    Folder(PathBuf),
}

impl EvalConfig {
    /// Joins the settings with what they are applied to.
    ///
    /// What depends on the model's sizes is checked when the checkpoint is opened.
    ///
    /// # Errors
    ///
    /// [`EvalError::NoTask`] when there is no task.
    pub fn validate(self, checkpoint: PathBuf, tasks: Vec<Task>) -> Result<EvalPlan, EvalError> {
        if tasks.is_empty() {
            return Err(EvalError::NoTask);
        }
        let Self {
            micro_batch_size,
            overlap,
            tensor_parallel_size,
            data_parallel_size,
            limit,
            split_weights,
        } = self;
        Ok(EvalPlan {
            checkpoint,
            tasks,
            micro_batch_size,
            overlap,
            tensor_parallel_size,
            data_parallel_size,
            limit,
            split_weights,
            partial_scores: PartialScores::Nowhere,
        })
    }
}

impl EvalPlan {
    /// Finds what of the plan does not fit a model of this kind and these sizes.
    ///
    /// # Errors
    ///
    /// [`EvalError::OtherModel`] when a task asks for another kind of model;
    /// [`EvalError::Setting`] when windows would lie further apart than the model sees.
    pub fn check(&self, model: &Architecture) -> Result<(), EvalError> {
        for task in &self.tasks {
            task.check_model(model, &self.checkpoint)?;
        }
        let has_overlap = |task: &Task| match task {
            Task::WikiText103(task) => task.protocol == Protocol::Megatron,
            Task::Lambada(_) | Task::Validation(_) | Task::Race(_) => false,
        };
        if self.tasks.iter().any(has_overlap) {
            self.check_overlap(model)?;
        }
        Ok(())
    }

    /// [`check`](Self::check), and whether this machine has room for as many copies of the model.
    pub(crate) fn check_here(&self, model: &Architecture) -> Result<(), EvalError> {
        self.check(model)?;
        self.check_memory(model, machine::memory_bytes())
    }

    /// [`check`](Self::check) by what the checkpoint says of its model, before its weights are read,
    /// which takes a while. Whether it says so rightly, or at all, is found when it is opened.
    ///
    /// What the tasks read has to be there, too.
    pub(crate) fn check_beforehand(&self) -> Result<(), EvalError> {
        for task in &self.tasks {
            task.check_present()?;
        }
        match Checkpoint::peek(&self.checkpoint) {
            None => Ok(()),
            Some(manifest) => self.check_here(&manifest.model),
        }
    }

    /// Whether windows lie close enough for a model of these sizes to score everything.
    pub(crate) fn check_overlap(&self, model: &Architecture) -> Result<(), EvalError> {
        let window = model.seq_length();
        if self.overlap.get() > window {
            return Err(EvalError::Setting {
                field: "overlap",
                value: self.overlap.get(),
                problem: format!("exceeds the model's seq_length; allowed: 1 to {window}"),
            });
        }
        Ok(())
    }
}
