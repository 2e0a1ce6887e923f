//! The validation loss: the mean over the targets of held-out documents, without dropout and
//! without a graph.

use burn::tensor::backend::Backend;

use crate::TrainError;
use crate::objective::Scored;
use crate::plan::ValidationPlan;

/// Mean loss per target in nats, and the number of targets.
///
/// The samples are the same at each validation. Losses are `f32` per target and added in `f64` in a
/// fixed order.
///
/// # Errors
///
/// When the data folder cannot be read.
pub fn validation_loss<B: Backend, M: Scored<B>>(
    model: &M,
    plan: &ValidationPlan,
) -> Result<(f64, u64), TrainError> {
    let (mut total, mut targets) = (0.0, 0);
    for batch in plan.batches.batches(0, plan.num_samples) {
        let losses = model.token_losses(&batch?);
        total += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        targets += losses.len() as u64;
    }
    Ok((total / targets as f64, targets))
}
