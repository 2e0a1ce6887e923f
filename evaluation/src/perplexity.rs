//! Perplexities of mean losses: with the limit of the original implementation, and without.

/// Largest mean loss that a perplexity is computed from, as in the original: perplexities end at
/// `exp(20)`.
pub(crate) const MAX_MEAN_LOSS: f64 = 20.0;

/// The perplexity of a mean loss, `exp(20)` at most.
pub(crate) fn perplexity(mean_loss: f64) -> f64 {
    mean_loss.min(MAX_MEAN_LOSS).exp()
}

/// Whether [`perplexity`] of this mean loss is a limit, and says no more than that it is larger.
pub(crate) fn is_capped(mean_loss: f64) -> bool {
    mean_loss > MAX_MEAN_LOSS
}

/// Whether a number that [`perplexity`] gave is its limit.
pub(crate) fn is_cut(perplexity: f64) -> bool {
    perplexity == MAX_MEAN_LOSS.exp()
}

/// The perplexity of a mean loss where no protocol has a limit. No number of JSON is infinite: what
/// is larger than all `f64` is told as the largest.
pub(crate) fn unlimited_perplexity(mean_loss: f64) -> f64 {
    mean_loss.exp().min(f64::MAX)
}
