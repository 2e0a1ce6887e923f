//! The validation loss: the mean over the targets of held-out documents, without dropout and
//! without a graph. Each copy of the model takes its share of the samples, no sample twice.

use burn::tensor::backend::Backend;

use crate::TrainError;
use crate::objective::Scored;
use crate::parallel::Rank;
use crate::parallel::collective::sum_exactly;
use crate::plan::ValidationPlan;

/// Mean loss per target in nats, and the number of targets; `None` where `stop_requested` said so
/// on any rank before the last batch.
///
/// The samples are the same at each validation. Losses are `f32` per target and added in `f64` in a
/// fixed order, over the copies of the model too: every rank gets the same bits. Before each batch
/// all ranks ask together whether to stop, a copy that has no batch left in the last round too.
///
/// # Errors
///
/// When the data folder cannot be read, or the ranks have come apart.
pub fn validation_loss<B: Backend, M: Scored<B>>(
    model: &M,
    plan: &ValidationPlan,
    rank: &Rank,
    stop_requested: impl Fn() -> bool,
) -> Result<Option<(f64, u64)>, TrainError> {
    let group = &rank.data_parallel;
    let (mut total, mut targets) = (0.0, 0.0);
    let mut batches = plan.batches.batches(0, plan.num_samples, group.share(plan.num_samples));
    for _ in 0..plan.rounds(group.size()) {
        if rank.any("stop", stop_requested())? {
            return Ok(None);
        }
        let Some(batch) = batches.next() else { continue };
        let losses = model.token_losses(&batch?);
        total += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        targets += losses.len() as f64;
    }
    let sums = sum_exactly(group.collective(), "validation", [total, targets])?;
    let [total, targets] = sums;
    Ok(Some((total / targets, targets as u64)))
}
