//! The validation loss: the mean over the targets of held-out documents, without dropout and
//! without a graph. Each copy of the model takes its share of the samples, no sample twice.

use burn::tensor::backend::Backend;

use crate::TrainError;
use crate::objective::Scored;
use crate::parallel::Rank;
use crate::parallel::collective::sum_all_exactly;
use crate::plan::ValidationPlan;

/// What a validation measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Means over the targets by name: losses in nats, of which the first is the one that runs are
    /// compared by, and shares of what was right. 0 where there were no targets.
    pub means: Vec<(&'static str, f64)>,
    /// Targets of the first.
    pub targets: u64,
}

/// The validation's losses; `None` where `stop_requested` said so on any rank before the last batch.
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
) -> Result<Option<Validation>, TrainError> {
    let group = &rank.data_parallel;
    // Of each measure its total and its targets, side by side.
    let mut sums = vec![0.0; 2 * M::MEASURES.len()];
    let mut batches = plan.batches.batches(0, plan.num_samples, group.share(plan.num_samples));
    for _ in 0..plan.rounds(group.size()) {
        if rank.any("stop", stop_requested())? {
            return Ok(None);
        }
        let Some(batch) = batches.next() else { continue };
        for (sums, scored) in sums.chunks_exact_mut(2).zip(model.score(&batch?)) {
            sums[0] += scored.total;
            sums[1] += scored.targets as f64;
        }
    }
    let sums = sum_all_exactly(group.collective(), "validation", &sums)?;
    let mean = |sums: &[f64]| if sums[1] > 0.0 { sums[0] / sums[1] } else { 0.0 };
    let means = M::MEASURES.iter().copied().zip(sums.chunks_exact(2).map(mean)).collect();
    Ok(Some(Validation { means, targets: sums[1] as u64 }))
}
