//! Screening: which candidates are worth an exact comparison.
//!
//! A pair passes two tests that look at the index alone: the sizes of its sets allow the threshold,
//! and their *sketches* differ in no more places than near-duplicates do. A sketch is the lowest
//! four bits of the first 128 bins of a signature: 64 bytes, one cache line, so that a hot bucket
//! is looked through at the speed of memory.
//!
//! Bins of a pair with the Jaccard similarity `J` agree with probability `J`, and their lowest four
//! bits with `J + (1 - J) / 16`. A pair is turned away if it agrees in fewer places than the mean
//! of that at the threshold less four standard deviations: at 0.7, in fewer than 72 of 128. Of
//! pairs just above the threshold, 3 in 100,000 do (the binomial's tail; one-permutation bins vary
//! less than independent ones), which is little beside the 0.8%, or with [`BandLayout::HIGH`] the
//! 0.02%, that share no band.
//!
//! Small sets leave bins empty, and bins that were filled by copying repeat each other, so only
//! pairs with [`SHINGLES_PER_BIN`] shingles per bin are screened by sketch; for smaller ones the
//! exact comparison is as cheap.

use super::bands::BandLayout;
use super::jaccard::Threshold;

/// Two sets are screened by sketch when they hold together this many shingles for each bin of a
/// signature. Each has then about two per bin, and six of seven bins are filled.
const SHINGLES_PER_BIN: usize = 4;

/// Largest number of bins in a sketch.
const SKETCH_BINS: usize = 128;

/// Standard deviations that a pair at the threshold may be off.
const DEVIATIONS: f64 = 4.0;

/// The lowest four bits of bins, 16 in each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Sketch([u64; SKETCH_BINS / 16]);

impl Sketch {
    /// The sketch of a signature; that of an empty one is the same as any other's.
    pub(super) fn of(signature: &[u32]) -> Self {
        let mut sketch = [0; SKETCH_BINS / 16];
        for (bins, bits) in signature.chunks(16).zip(&mut sketch) {
            *bits = bins.iter().rev().fold(0, |bits, &bin| bits << 4 | u64::from(bin & 0xF));
        }
        Self(sketch)
    }

    /// The number of bins that differ.
    #[inline]
    pub(super) fn differing(&self, other: &Self) -> u32 {
        // Every four bits of this sum count the differing bins at their place: at most eight.
        let counts: u64 = self
            .0
            .iter()
            .zip(&other.0)
            .map(|(left, right)| {
                let different = left ^ right;
                let different = different | different >> 1;
                (different | different >> 2) & 0x1111_1111_1111_1111
            })
            .sum();
        let pairs = (counts & 0x0F0F_0F0F_0F0F_0F0F) + (counts >> 4 & 0x0F0F_0F0F_0F0F_0F0F);
        (pairs.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
    }
}

/// The tests of one search.
pub(super) struct Screen {
    threshold: Threshold,
    /// Shingles of both sets together from which on their sketches are compared.
    least_sketched: usize,
    most_differing: u32,
}

impl Screen {
    pub(super) fn new(threshold: Threshold, layout: BandLayout) -> Self {
        let bins = layout.bins().min(SKETCH_BINS) as f64;
        let differing = (1.0 - threshold.value()) * 15.0 / 16.0;
        let deviation = (bins * differing * (1.0 - differing)).sqrt();
        Self {
            threshold,
            least_sketched: SHINGLES_PER_BIN * layout.bins(),
            most_differing: (bins * differing + DEVIATIONS * deviation) as u32,
        }
    }

    /// The threshold of the search.
    pub(super) fn threshold(&self) -> Threshold {
        self.threshold
    }

    /// Whether two documents, given by the sizes of their sets and their sketches, may be
    /// near-duplicates.
    #[inline]
    pub(super) fn passes(&self, left: (u32, &Sketch), right: (u32, &Sketch)) -> bool {
        let (left_size, right_size) = (left.0 as usize, right.0 as usize);
        self.threshold.allows_sizes(left_size, right_size)
            && (left_size + right_size < self.least_sketched
                || left.1.differing(right.1) <= self.most_differing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_bins_are_counted() {
        let signature: Vec<u32> =
            (0..130_u32).map(|bin| bin.wrapping_mul(0x9E37_79B9) >> 7).collect();
        for number in [0, 1, 15, 16, 17, 100, 128] {
            let mut other = signature.clone();
            for (place, bin) in other[..number].iter_mut().enumerate() {
                *bin ^= 1 << (place % 4) | 0xF0;
            }
            // Only the lowest four bits of the first 128 bins count.
            other[129] += 1;
            other[127] ^= 0xF00;
            assert_eq!(Sketch::of(&signature).differing(&Sketch::of(&other)), number as u32);
        }
        assert_eq!(Sketch::of(&[]).differing(&Sketch::of(&[])), 0);
    }

    #[test]
    fn limits_are_those_of_the_binomial() {
        let limit = |hundredths, layout| {
            Screen::new(Threshold::from_hundredths(hundredths), layout).most_differing
        };
        // 128 · 0.28125 = 36 and 4 · 5.09 = 20.3.
        assert_eq!(limit(70, BandLayout::STANDARD), 56);
        assert_eq!(limit(70, BandLayout::HIGH), 56);
        // 128 · 0.09375 = 12 and 4 · 3.30 = 13.2.
        assert_eq!(limit(90, BandLayout::STANDARD), 25);
    }
}
