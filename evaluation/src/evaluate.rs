//! [`evaluate`]: the evaluation loop over tasks.

use std::sync::Arc;

use corpus::tokenizer::Tokenizer;
use corpus::{Observer, TokenizerIdentity};
use tracing::info;
use training::checkpoint::Checkpoint;
use training::inference::Scorer;

use crate::config::{EvalPlan, Task};
use crate::error::EvalError;
use crate::report::{EvalReport, TaskResult};

/// Evaluates a checkpoint on every task of `plan`.
///
/// # Errors
///
/// When the checkpoint or a test set cannot be read, a setting does not fit the model, the model fails or gives a loss
/// that is no number, or `observer` asks to stop. Nothing is reported then.
pub fn evaluate(plan: &EvalPlan, observer: &dyn Observer) -> Result<EvalReport, EvalError> {
    let mut model = EvaluatedModel::open(plan)?;
    let mut results = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        results.push(task.run(&mut model, plan, observer)?);
    }
    Ok(EvalReport { results })
}

/// A model under evaluation, with the tokenizer it was trained with.
pub struct EvaluatedModel {
    /// Computes losses of tokens.
    pub scorer: Scorer,
    /// Makes tokens of text.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// What the report calls the model: its checkpoint's folder.
    pub checkpoint: String,
}

impl EvaluatedModel {
    /// Opens the plan's checkpoint on as many ranks as it says.
    ///
    /// # Errors
    ///
    /// When the checkpoint cannot be read or does not split over the ranks, or its tokenizer is not found or is not the
    /// one that the model was trained with.
    pub fn open(plan: &EvalPlan) -> Result<Self, EvalError> {
        let checkpoint = Checkpoint::open(&plan.checkpoint)?;
        let tokenizer = open_tokenizer(checkpoint.tokenizer())?;
        let folder = checkpoint.folder().display().to_string();
        info!(checkpoint = folder, step = checkpoint.step(), "evaluating");
        let config = checkpoint.model_config().clone();
        let scorer = Scorer::new(&config, checkpoint, plan.tensor_parallel_size)?;
        Ok(Self { scorer, tokenizer, checkpoint: folder })
    }
}

/// The tokenizer of that name, if it still is the same.
fn open_tokenizer(expected: &TokenizerIdentity) -> Result<Arc<dyn Tokenizer>, EvalError> {
    let tokenizer = corpus::tokenizer::open(&expected.name)?;
    let found = tokenizer.fingerprint();
    if found != expected.fingerprint {
        return Err(EvalError::OtherTokenizer {
            name: expected.name.clone(),
            expected: expected.fingerprint.clone(),
            found,
        });
    }
    Ok(tokenizer)
}

impl Task {
    /// Runs the task on `model`.
    ///
    /// # Errors
    ///
    /// When its test set cannot be used, a setting does not fit the model, the model fails, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        match self {
            Self::WikiText103(task) => task.run(model, plan, observer),
        }
    }
}
