//! Banding: which documents are worth comparing.
//!
//! A signature of `b · r` bins is cut into `b` bands of `r` rows. Two documents become candidates
//! when they agree in all rows of at least one band, which happens with the probability `1 - (1 -
//! J^r)^b` for a Jaccard similarity `J`.
//!
//! | layout   | J = 0.4 | 0.5 | 0.6 | 0.7   | 0.75  | 0.8    |
//! |----------|---------|-----|-----|-------|-------|--------|
//! | 26 x 5   | 23%     | 56% | 88% | 99.2% | 99.92% | 99.997% |
//! | 32 x 4   | 56%     | 87% | 98.8% | 99.98% | 99.9995% | 99.99999% |
//!
//! Candidates are only a proposal: each is then compared exactly, so banding can miss a pair but
//! never join one wrongly.

use crate::word_hash::{K, mix};

/// How a signature is cut into bands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandLayout {
    /// Number of bands.
    pub bands: usize,
    /// Rows (bins of the signature) of each band.
    pub rows: usize,
}

impl BandLayout {
    /// 26 bands of 5 rows: a pair at exactly 0.7 meets with 99.2%.
    pub const STANDARD: Self = Self { bands: 26, rows: 5 };

    /// 32 bands of 4 rows: a pair at exactly 0.7 meets with 99.98%, for up to twice the
    /// comparisons.
    pub const HIGH: Self = Self { bands: 32, rows: 4 };

    /// Number of bins of the signature that is cut.
    #[must_use]
    pub const fn bins(self) -> usize {
        self.bands * self.rows
    }

    /// The chance that two documents of this similarity agree in a band: `1 - (1 - J^r)^b`.
    #[must_use]
    pub fn chance_to_meet(self, jaccard: f64) -> f64 {
        1.0 - (1.0 - jaccard.powi(self.rows as i32)).powi(self.bands as i32)
    }
}

/// The keys of a signature's bands, in order. Two documents meet where they have a key in common in
/// the same band.
///
/// A key has 32 bits, which is what makes an index of many documents small. Of `n` indexed
/// documents, about `n / 2^32` per band become candidates by chance: beside ten million, six
/// needless comparisons for a hundred documents.
pub fn bands(signature: &[u32], layout: BandLayout) -> impl ExactSizeIterator<Item = u32> + '_ {
    signature.chunks_exact(layout.rows).map(|rows| {
        let sum = rows
            .iter()
            .fold(0, |sum: u64, &row| (sum ^ u64::from(row)).wrapping_add(1).wrapping_mul(K));
        (mix(sum) >> 32) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layouts_meet_as_often_as_documented() {
        for (layout, jaccard, expected) in [
            (BandLayout::STANDARD, 0.4, 0.23),
            (BandLayout::STANDARD, 0.5, 0.56),
            (BandLayout::STANDARD, 0.6, 0.88),
            (BandLayout::STANDARD, 0.7, 0.992),
            (BandLayout::STANDARD, 0.75, 0.9992),
            (BandLayout::STANDARD, 0.8, 0.99997),
            (BandLayout::HIGH, 0.4, 0.56),
            (BandLayout::HIGH, 0.5, 0.87),
            (BandLayout::HIGH, 0.6, 0.988),
            (BandLayout::HIGH, 0.7, 0.9998),
            (BandLayout::HIGH, 0.75, 0.999995),
        ] {
            let chance = layout.chance_to_meet(jaccard);
            // What the table's rounding hides.
            let tolerance = ((1.0_f64 - expected) / 3.0).min(0.005);
            assert!((chance - expected).abs() <= tolerance, "{layout:?} at {jaccard}: {chance}");
        }
    }

    #[test]
    fn equal_rows_give_equal_keys_and_others_do_not() {
        let layout = BandLayout { bands: 4, rows: 2 };
        let keys: Vec<u32> = bands(&[1, 2, 1, 2, 2, 1, 0, 0], layout).collect();
        assert_eq!(keys.len(), 4);
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        assert_ne!(keys[0], keys[3]);
        assert_eq!(bands(&[9, 9, 9, 9, 2, 1, 9, 9], layout).nth(2), Some(keys[2]));
    }
}
