//! What an evaluation would do, found without running the model.

use std::path::PathBuf;

use corpus::Observer;
use serde::Serialize;
use training::architecture::Architecture;

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::found_model::FoundModel;
use crate::identity::CheckpointKind;

/// What a plan amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalSummary {
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// What the checkpoint is.
    pub checkpoint_kind: CheckpointKind,
    /// Optimizer steps that the checkpoint has behind it; `None` where that is not known.
    pub step: Option<u64>,
    /// What the model is, and its sizes.
    pub model: Architecture,
    /// Parameters of the whole model, its vocabulary padded for the ranks that would share it.
    pub parameters: u64,
    /// Name of the tokenizer.
    pub tokenizer: String,
    /// Ranks that would share each copy of the model.
    pub tensor_parallel_size: usize,
    /// Copies of the model that would score side by side, each as large as the model.
    pub data_parallel_size: usize,
    /// Windows or examples per forward pass.
    pub micro_batch_size: usize,
    /// About how many floating-point operations all tasks would take together: twice the parameters
    /// for each position.
    pub floating_point_operations: f64,
    /// What each task would do, in the order of the report.
    pub tasks: Vec<TaskSummary>,
}

/// What one task would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskSummary {
    /// Name of the task.
    pub task: String,
    /// The test set.
    pub data: PathBuf,
    /// Tokens of the test set.
    pub tokens: usize,
    /// Windows that would be scored; `None` for a task of examples.
    pub windows: Option<usize>,
    /// Examples that would be scored; `None` for a task of windows.
    pub examples: Option<usize>,
    /// Tokens that would be predicted.
    pub targets: usize,
    /// Forward passes.
    pub forward_passes: usize,
    /// Positions that these compute, padding included: the cost is about twice the parameters for
    /// each, in floating-point operations.
    pub token_positions: usize,
    /// Whether a limit would leave some of the test set unscored.
    pub partial: bool,
}

impl EvalPlan {
    /// What the plan amounts to. Reads the checkpoint and the test sets, and runs nothing.
    ///
    /// # Errors
    ///
    /// What [`evaluate`](crate::evaluate()) would find wrong before it runs the model, or that
    /// `observer` asks to stop.
    pub fn summary(&self, observer: &dyn Observer) -> Result<EvalSummary, EvalError> {
        self.summary_of(FoundModel::open(self, observer)?)
    }

    /// What the plan amounts to on its model.
    fn summary_of(&self, model: FoundModel) -> Result<EvalSummary, EvalError> {
        let model = model.identity;
        let ranks = self.tensor_parallel_size.get();
        let tasks = self.tasks.iter().map(|task| task.summary(&model, self));
        let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
        let positions: usize = tasks.iter().map(|task| task.token_positions).sum();
        let parameters = model.architecture.num_parameters(ranks) as u64;
        Ok(EvalSummary {
            tasks,
            parameters,
            floating_point_operations: 2.0 * parameters as f64 * positions as f64,
            tokenizer: model.tokenizer.name().to_owned(),
            checkpoint: model.checkpoint,
            checkpoint_kind: model.kind,
            step: model.step,
            model: model.architecture,
            tensor_parallel_size: ranks,
            data_parallel_size: self.data_parallel_size.get(),
            micro_batch_size: self.micro_batch_size.get(),
        })
    }
}

/// What the plans amount to whose models vote, each in turn.
///
/// # Errors
///
/// What [`evaluate_ensemble_keeping_scores`](crate::evaluate_ensemble_keeping_scores) would find
/// wrong before it runs a model, or that `observer` asks to stop.
pub fn summary_of_ensemble(
    plans: &[EvalPlan],
    observer: &dyn Observer,
) -> Result<Vec<EvalSummary>, EvalError> {
    let models = FoundModel::voters(plans, observer)?;
    plans.iter().zip(models).map(|(plan, model)| plan.summary_of(model)).collect()
}
