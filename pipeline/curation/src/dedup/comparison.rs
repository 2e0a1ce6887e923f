//! Comparing a document with its candidates.
//!
//! A pair passes three tests, cheapest first: the sizes of the two sets allow the threshold; the
//! signatures agree in at least half of their bins; the exact Jaccard similarity is above the
//! threshold. Only the last can accept. Where there are no signatures, the second is left out.
//!
//! **Screening.** The test by signatures saves merging two large sets, so only pairs with
//! [`SCREENED_SHINGLES_PER_BIN`] shingles per bin take it: for small sets the merge is as cheap,
//! and bins that were filled by copying repeat each other. A pair at exactly 0.7 agrees in each bin
//! with probability 0.7, and in fewer than half of 130 bins with 6 in 10 million (the binomial's
//! tail; one-permutation bins vary less than independent ones). That is nothing beside the 0.8% of
//! such pairs that share no band.

use super::jaccard::{Jaccard, jaccard_above};
use super::rule::NearDuplicateRule;
use super::signature::agreement;
use super::signed::SignedCorpus;
use super::stretch::Removal;

/// Two sets are screened by signature when they hold together this many shingles for each bin of a
/// signature.
const SCREENED_SHINGLES_PER_BIN: usize = 8;

/// Compares documents of one corpus by one rule.
pub(super) struct Comparison<'a> {
    pub(super) corpus: &'a dyn SignedCorpus,
    pub(super) rule: NearDuplicateRule,
}

impl Comparison<'_> {
    /// The removal of `document` for the first of `candidates` that it is a near-duplicate of.
    pub(super) fn first_witness(&self, document: u32, candidates: &[u32]) -> Option<Removal> {
        candidates.iter().find_map(|&witness| {
            let jaccard = self.compare(document, witness)?;
            Some(Removal { document, witness, jaccard })
        })
    }

    /// The exact similarity of two documents, if it is above the threshold.
    fn compare(&self, document: u32, candidate: u32) -> Option<Jaccard> {
        let (size, candidate_size) =
            (self.corpus.num_shingles(document), self.corpus.num_shingles(candidate));
        if !self.rule.threshold.allows_sizes(size, candidate_size) {
            return None;
        }
        let bins = self.rule.bins();
        if bins > 0 && size + candidate_size >= SCREENED_SHINGLES_PER_BIN * bins {
            let agreeing =
                agreement(self.corpus.signature(document), self.corpus.signature(candidate));
            if 2 * agreeing < bins {
                return None;
            }
        }
        let (left, right) = (self.corpus.shingles(document), self.corpus.shingles(candidate));
        jaccard_above(left, right, self.rule.threshold)
    }
}
