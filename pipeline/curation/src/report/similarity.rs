//! How similar the near-duplicates that went are to their witnesses.

use serde::{Deserialize, Serialize};

/// The lowest threshold that there is, in hundredths: no removed pair is below it.
const LOWEST: u64 = 70;

/// The near-duplicates by their Jaccard similarity, from 0.70 to 1 in hundredths.
///
/// The last bin holds the texts that differ from their witness in nothing that shingles see, but in
/// case, punctuation, spacing or repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SimilarityHistogram(Vec<SimilarityBin>);

/// Near-duplicates of one hundredth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SimilarityBin {
    /// Their similarity, rounded down to a hundredth.
    pub jaccard: f64,
    /// Their number.
    pub documents: u64,
}

impl Default for SimilarityHistogram {
    fn default() -> Self {
        let bin = |hundredths| SimilarityBin { jaccard: hundredths as f64 / 100.0, documents: 0 };
        Self((LOWEST..=100).map(bin).collect())
    }
}

impl SimilarityHistogram {
    /// Counts a near-duplicate that shares `shared` of `union` shingles with its witness.
    ///
    /// # Panics
    ///
    /// Where these are no similarity from 0.70 to 1.
    pub fn add(&mut self, shared: u64, union: u64) {
        let hundredths = 100 * shared / union;
        self.0[(hundredths - LOWEST) as usize].documents += 1;
    }

    /// Each hundredth from 0.70 to 1, ascending.
    #[must_use]
    pub fn bins(&self) -> &[SimilarityBin] {
        &self.0
    }

    /// Number of all near-duplicates.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|bin| bin.documents).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_counts_for_the_hundredth_at_or_below_it() {
        let mut histogram = SimilarityHistogram::default();
        for (shared, union) in [(701, 1000), (71, 100), (709, 1000), (29, 40), (99, 100), (7, 7)] {
            histogram.add(shared, union);
        }
        let filled: Vec<_> = histogram.bins().iter().filter(|bin| bin.documents > 0).collect();
        let seen: Vec<_> = filled.iter().map(|bin| (bin.jaccard, bin.documents)).collect();
        assert_eq!(seen, [(0.70, 2), (0.71, 1), (0.72, 1), (0.99, 1), (1.0, 1)]);
        assert_eq!((histogram.bins().len(), histogram.total()), (31, 6));
    }
}
