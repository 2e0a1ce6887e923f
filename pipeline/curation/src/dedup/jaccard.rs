//! The similarity of two shingle sets, decided in integers.
//!
//! The Jaccard similarity of sets `A` and `B` is `|A ∩ B| / |A ∪ B|`. Whether it is above a
//! threshold `n / d` is the question `d · |A ∩ B| > n · |A ∪ B|`, asked in whole numbers: a pair at
//! exactly 0.7 is not above 0.7.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A similarity that a pair must exceed: an exact fraction below one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    hundredths: u64,
}

impl Threshold {
    /// The paper's threshold, 0.7 (section 4.1).
    pub const PAPER: Self = Self::from_hundredths(70);

    /// `hundredths / 100`, for `hundredths` from 1 to 99.
    ///
    /// # Panics
    ///
    /// For any other number.
    #[must_use]
    pub const fn from_hundredths(hundredths: u64) -> Self {
        assert!(1 <= hundredths && hundredths <= 99, "a threshold is between 0 and 1");
        Self { hundredths }
    }

    /// The threshold as a number from 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        self.hundredths as f64 / 100.0
    }

    /// The largest whole number that is not above this part of `size`: what two sets have in common
    /// must be more, for each of their sizes, if they are above the threshold.
    pub(super) fn of(self, size: usize) -> usize {
        self.hundredths as usize * size / 100
    }

    /// Whether sets of these sizes can be above the threshold at all, which takes the smaller
    /// inside the larger.
    #[inline]
    pub(super) fn allows_sizes(self, left: usize, right: usize) -> bool {
        // `min(left, right) >= least_shared(left, right)` without its division.
        let hundredths = self.hundredths as usize;
        left.min(right) * (100 + hundredths) > hundredths * (left + right)
    }

    /// The least number of shared shingles with which sets of `left` and `right` shingles are above
    /// the threshold.
    ///
    /// With `c` shared of `a` and `b`, `100 · c > h · (a + b - c)` is `c > h · (a + b) / (100 +
    /// h)`.
    fn least_shared(self, left: usize, right: usize) -> usize {
        (self.hundredths as usize * (left + right)) / (100 + self.hundredths as usize) + 1
    }
}

/// An exact Jaccard similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jaccard {
    /// Shingles that both sets hold.
    pub shared: usize,
    /// Shingles that at least one of the sets holds.
    pub union: usize,
}

impl Jaccard {
    /// The similarity as a number from 0 to 1; 0 for two empty sets.
    #[must_use]
    pub fn value(self) -> f64 {
        if self.union == 0 { 0.0 } else { self.shared as f64 / self.union as f64 }
    }
}

impl fmt::Display for Jaccard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.shared, self.union)
    }
}

/// The similarity of two sorted sets without repeats, if it is strictly above the threshold.
#[must_use]
pub fn jaccard_above(left: &[u64], right: &[u64], threshold: Threshold) -> Option<Jaccard> {
    let least_shared = threshold.least_shared(left.len(), right.len());
    if !threshold.allows_sizes(left.len(), right.len()) {
        return None;
    }

    // The merge runs in short stretches without a branch on the data, and gives up between two of
    // them when the shingles still to come cannot make up for those already missed.
    const STRETCH: usize = 64;
    let (mut shared, mut in_left, mut in_right) = (0, 0, 0);
    while in_left < left.len() && in_right < right.len() {
        let steps = STRETCH.min(left.len() - in_left).min(right.len() - in_right);
        for _ in 0..steps {
            let (a, b) = (left[in_left], right[in_right]);
            shared += usize::from(a == b);
            in_left += usize::from(a <= b);
            in_right += usize::from(b <= a);
        }
        if shared + (left.len() - in_left).min(right.len() - in_right) < least_shared {
            return None;
        }
    }
    (shared >= least_shared).then(|| Jaccard { shared, union: left.len() + right.len() - shared })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Two sets of `shared + only_left` and `shared + only_right` members.
    fn sets(shared: u64, only_left: u64, only_right: u64) -> (Vec<u64>, Vec<u64>) {
        let mut left: Vec<u64> = (0..shared).map(|n| 3 * n).collect();
        let mut right = left.clone();
        left.extend((0..only_left).map(|n| 3 * n + 1));
        right.extend((0..only_right).map(|n| 3 * n + 2));
        left.sort_unstable();
        right.sort_unstable();
        (left, right)
    }

    #[test]
    fn exactly_seven_tenths_is_not_above() {
        let (left, right) = sets(70, 15, 15);
        assert_eq!(jaccard_above(&left, &right, Threshold::PAPER), None);
        let (left, right) = sets(71, 15, 14);
        assert_eq!(
            jaccard_above(&left, &right, Threshold::PAPER),
            Some(Jaccard { shared: 71, union: 100 })
        );
    }

    #[test]
    fn empty_sets_resemble_nothing() {
        assert_eq!(jaccard_above(&[], &[], Threshold::PAPER), None);
        assert_eq!(jaccard_above(&[1], &[], Threshold::PAPER), None);
        assert_eq!(
            jaccard_above(&[1], &[1], Threshold::PAPER),
            Some(Jaccard { shared: 1, union: 1 })
        );
    }

    proptest! {
        #[test]
        fn sizes_are_allowed_where_the_smaller_set_inside_the_larger_is_enough(
            left in 0_usize..3_000, right in 0_usize..3_000, hundredths in 1_u64..100,
        ) {
            let threshold = Threshold::from_hundredths(hundredths);
            prop_assert_eq!(
                threshold.allows_sizes(left, right),
                left.min(right) >= threshold.least_shared(left, right)
            );
        }

        #[test]
        fn equals_the_count_over_sets(
            left in prop::collection::btree_set(0_u64..300, 0..250),
            right in prop::collection::btree_set(0_u64..300, 0..250),
            hundredths in 1_u64..100,
        ) {
            let shared = left.intersection(&right).count();
            let union = left.union(&right).count();
            let above = 100 * shared as u64 > hundredths * union as u64;
            let flat = |set: &BTreeSet<u64>| set.iter().copied().collect::<Vec<_>>();
            prop_assert_eq!(
                jaccard_above(&flat(&left), &flat(&right), Threshold::from_hundredths(hundredths)),
                above.then_some(Jaccard { shared, union })
            );
        }
    }
}
