//! The prefix of a shingle set: its rarest members, of which a near-duplicate must have one.
//!
//! Let all sets be put in one order. Where two sets have at least `c` members in common, the first
//! of those has `c - 1` others behind it in either set: it is among the first `n - c + 1` of a set
//! of `n`. A pair above a threshold `t` has more than `t · n` in common with a set of `n`, so the
//! first `n - floor(t · n)` of each set are enough to find every such pair (Bayardo, Ma and
//! Srikant, *Scaling up all pairs similarity search*, 2007).
//!
//! Any order finds all pairs; one from the rare to the frequent proposes few others. It is made
//! from counts in a table of limited size, where different shingles may share a count. A shingle
//! that is counted once is in one document only, and so left out of its prefix.

use std::sync::atomic::{AtomicU32, Ordering};

use corpus::Observer;
use rayon::prelude::*;

use super::jaccard::Threshold;
use super::signed::SignedCorpus;
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents of one unit of parallel work.
const BLOCK_DOCUMENTS: usize = 256;

/// Least number of counts.
const MIN_COUNTS: u64 = 1 << 10;

/// How the prefixes of all documents are taken.
pub(super) struct Prefixes {
    threshold: Threshold,
    /// In how many documents shingles are; a power of two of counts, by the lower bits of the
    /// shingle.
    counts: Vec<AtomicU32>,
}

impl Prefixes {
    /// Counts the shingles of all documents, in a table of about `table_bytes` bytes or less.
    pub(super) fn new(
        threshold: Threshold,
        corpus: &dyn SignedCorpus,
        table_bytes: u64,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let num_shingles: u64 =
            (0..corpus.len()).map(|document| corpus.num_shingles(document) as u64).sum();
        let most = table_bytes / size_of::<AtomicU32>() as u64;
        let num_counts = (2 * num_shingles).min(most).max(MIN_COUNTS);
        let mut prefixes = Self { threshold, counts: Vec::new() };
        prefixes.counts.resize_with(1 << num_counts.ilog2(), AtomicU32::default);
        (0..corpus.len()).into_par_iter().with_min_len(BLOCK_DOCUMENTS).try_for_each(
            |document| {
                stop_if_asked(observer)?;
                for &shingle in corpus.shingles(document) {
                    prefixes.count(shingle).fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), CurationError>(())
            },
        )?;
        Ok(prefixes)
    }

    /// Number of shingles in the prefix of a set of `num_shingles`, those in one document included.
    pub(super) fn longest_prefix(&self, num_shingles: usize) -> usize {
        num_shingles - self.threshold.of(num_shingles)
    }

    /// The shingles of a set's prefix, except those that are in one document.
    pub(super) fn prefix(&self, shingles: &[u64]) -> Vec<u64> {
        let length = self.longest_prefix(shingles.len());
        if length == 0 {
            return Vec::new();
        }
        let in_order = |&shingle: &u64| (self.count(shingle).load(Ordering::Relaxed), shingle);
        let mut ordered: Vec<(u32, u64)> = shingles.iter().map(in_order).collect();
        ordered.select_nth_unstable(length - 1);
        let prefix = ordered[..length].iter();
        prefix.filter(|(count, _)| *count > 1).map(|&(_, shingle)| shingle).collect()
    }

    fn count(&self, shingle: u64) -> &AtomicU32 {
        &self.counts[shingle as usize & (self.counts.len() - 1)]
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }
}
