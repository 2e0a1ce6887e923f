//! When two documents are near-duplicates, and how they are searched for.

use std::num::NonZeroUsize;

use super::bands::BandLayout;
use super::jaccard::Threshold;

/// When two documents are near-duplicates, and how they are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearDuplicateRule {
    /// Words of one shingle.
    pub shingle_words: NonZeroUsize,
    /// The Jaccard similarity that a pair must exceed.
    pub threshold: Threshold,
    /// How signatures are cut into bands.
    pub layout: BandLayout,
    /// Chooses the hash functions of the signatures: which true pairs are missed, never which pairs
    /// are true.
    pub seed: u64,
}

impl NearDuplicateRule {
    /// Numbers of one signature.
    #[must_use]
    pub const fn bins(&self) -> usize {
        self.layout.bins()
    }
}
