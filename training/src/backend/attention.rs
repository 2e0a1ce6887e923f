//! What attention is told beside its queries, keys and values.

use std::sync::Arc;

use crate::parallel::random::DropoutMask;

/// How the heads of a layer look at their keys.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSettings {
    /// Heads side by side in queries, keys and values: those that this rank holds.
    pub heads: usize,
    /// What scores are multiplied by, `1 / √head_size`.
    pub scale: f64,
    /// Which keys a query sees.
    pub visible: VisibleKeys,
    /// Dropout of the attention probabilities; none is dropped without one.
    pub mask: Option<DropoutMask>,
}

/// Which keys a query sees; always the first so many of its sample.
#[derive(Debug, Clone, PartialEq)]
pub enum VisibleKeys {
    /// Those at its own position and before it.
    Causal,
    /// The first `lengths[sample]`, the same for every query of a sample: the rest pads it.
    ///
    /// Contexts of padded queries are numbers without a meaning; those of a sample of length 0 are
    /// 0. Gradients of padded keys and values are 0.
    Padded(Arc<[usize]>),
}

impl VisibleKeys {
    /// How many keys query `query` of sample `sample` sees.
    #[must_use]
    pub fn of_query(&self, sample: usize, query: usize) -> usize {
        match self {
            Self::Causal => query + 1,
            Self::Padded(lengths) => lengths[sample],
        }
    }

    /// # Panics
    ///
    /// When there is no length for each of `batch` samples, or one is longer than `seq`.
    pub(super) fn check(&self, batch: usize, seq: usize) {
        if let Self::Padded(lengths) = self {
            assert_eq!(lengths.len(), batch, "a length for each sample");
            assert!(lengths.iter().all(|&length| length <= seq), "{lengths:?} of {seq} keys");
        }
    }
}
