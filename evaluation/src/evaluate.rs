//! [`evaluate`]: the evaluation loop over tasks.

use std::path::Path;
use std::sync::Arc;

use corpus::{Observer, Tokenizer};
use tracing::info;
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
