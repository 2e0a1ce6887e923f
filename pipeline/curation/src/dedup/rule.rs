//! When two documents are near-duplicates, and how they are searched for.

use std::num::NonZeroUsize;

use super::candidates::Candidates;
use super::jaccard::Threshold;

/// When two documents are near-duplicates, and how they are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearDuplicateRule {
    /// Words of one shingle.
    pub shingle_words: NonZeroUsize,
    /// The Jaccard similarity that a pair must exceed.
    pub threshold: Threshold,
    /// How pairs are found that may be above the threshold.
    pub candidates: Candidates,
    /// Chooses the hash functions of the signatures: which true pairs are missed, never which pairs
    /// are true.
    pub seed: u64,
}

impl NearDuplicateRule {
    /// Numbers of one signature; 0 where the search needs none.
    #[must_use]
    pub const fn bins(&self) -> usize {
        match self.candidates.layout() {
            Some(layout) => layout.bins(),
            None => 0,
        }
    }
}
