//! What an evaluation should do: as it was written, and as it is meant.
//!
//! How a checkpoint is evaluated stands in a file or in defaults; which checkpoint, and on which
//! test sets, is said where the evaluation is started. [`EvalConfig::validate`] joins the two.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use training::model::Gpt2Config;

use crate::error::EvalError;
use crate::lambada::Lambada;
use crate::protocol::Protocol;
use crate::wikitext103::WikiText103;

/// How to evaluate, as a user writes it in TOML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalConfig {
    /// Windows or examples per forward pass. Changes speed and memory, not the result.
    pub micro_batch_size: NonZeroUsize,
    /// Tokens between the starts of two windows of WikiText103, at most the model's `seq_length`;
    /// the paper's is 32. Examples of LAMBADA do not overlap.
    pub overlap: NonZeroUsize,
    /// Ranks that share the model. Changes speed and memory, not the result.
    pub tensor_parallel_size: NonZeroUsize,
    /// Score only this many windows or examples per task and mark its result as partial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroUsize>,
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
            limit: None,
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
}

/// An evaluation as it is meant: nothing reads an [`EvalConfig`] after this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalPlan {
    /// A run's folder, its folder of checkpoints, or one checkpoint.
    pub checkpoint: PathBuf,
    /// The tasks, in the order of the report.
    pub tasks: Vec<Task>,
    /// Windows or examples per forward pass.
    pub micro_batch_size: NonZeroUsize,
    /// Tokens between the starts of two windows of WikiText103.
    pub overlap: NonZeroUsize,
    /// Ranks that share the model.
    pub tensor_parallel_size: NonZeroUsize,
    /// Windows or examples to score per task; `None` for all.
    pub limit: Option<NonZeroUsize>,
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
        let Self { micro_batch_size, overlap, tensor_parallel_size, limit } = self;
        Ok(EvalPlan { checkpoint, tasks, micro_batch_size, overlap, tensor_parallel_size, limit })
    }
}

impl EvalPlan {
    /// Finds what of the plan does not fit a model of these sizes: before its weights are read, which
    /// takes a while.
    ///
    /// # Errors
    ///
    /// [`EvalError::Setting`] when windows would lie further apart than the model sees.
    pub fn check(&self, model: &Gpt2Config) -> Result<(), EvalError> {
        let has_overlap = |task: &Task| matches!(task, Task::WikiText103(task) if task.protocol == Protocol::Megatron);
        if self.tasks.iter().any(has_overlap) {
            self.check_overlap(model)?;
        }
        Ok(())
    }

    /// Whether windows lie close enough for a model of these sizes to score everything.
    pub(crate) fn check_overlap(&self, model: &Gpt2Config) -> Result<(), EvalError> {
        let window = model.seq_length;
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
