//! [`evaluate`]: the evaluation loop over tasks.

use corpus::Observer;
use tracing::info;

use crate::config::{EvalPlan, Task};
use crate::error::EvalError;
use crate::model::{EvaluatedModel, ModelIdentity};
use crate::report::{EvalReport, TaskResult};
use crate::summary::TaskSummary;

/// Evaluates a checkpoint on every task of `plan`.
///
/// # Errors
///
/// When the checkpoint or a test set cannot be read, a setting does not fit the model, the model
/// fails or gives a loss that is no number, or `observer` asks to stop. Nothing is reported then.
pub fn evaluate(plan: &EvalPlan, observer: &dyn Observer) -> Result<EvalReport, EvalError> {
    let mut model = EvaluatedModel::open(plan, observer)?;
    let ModelIdentity { checkpoint, step, .. } = &model.identity;
    info!(checkpoint = %checkpoint.display(), step, "evaluating");
    let mut results = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        results.push(task.run(&mut model, plan, observer)?);
    }
    Ok(EvalReport { results })
}

impl Task {
    /// Runs the task on `model`.
    ///
    /// # Errors
    ///
    /// When its test set cannot be used, a setting does not fit the model, the model fails, or
    /// `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        match self {
            Self::WikiText103(task) => task.run(model, plan, observer),
            Self::Lambada(task) => task.run(model, plan, observer),
        }
    }

    /// What [`run`](Self::run) would do on the model, without its weights.
    ///
    /// # Errors
    ///
    /// When its test set cannot be used, or a setting does not fit the model.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        match self {
            Self::WikiText103(task) => task.summary(model, plan),
            Self::Lambada(task) => task.summary(model, plan),
        }
    }
}
