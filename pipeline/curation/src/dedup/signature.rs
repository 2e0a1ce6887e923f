//! One-permutation MinHash with optimal densification: a short sketch of a shingle set.
//!
//! Every shingle falls by its hash into one of the signature's bins, and the bin keeps the least
//! value that it is given. Two sets agree in a bin with a probability equal to their Jaccard
//! similarity, and one pass over the set fills all bins, where classic MinHash makes a pass for
//! each (Li, Owen and Zhang, [arXiv 1208.1259](https://arxiv.org/abs/1208.1259)).
//!
//! A set with few shingles leaves bins empty. An empty bin copies the first filled bin of a hashed
//! probe sequence of its own (Shrivastava, [arXiv 1703.04664](https://arxiv.org/abs/1703.04664));
//! copying a neighbor's instead makes bins depend on each other. A document near the limit of 128
//! tokens has fewer shingles than the signature has bins, so without this step most near-duplicates
//! among the shortest documents would be missed.

use crate::word_hash::{K, mix};

/// The largest number of bins of a signature.
const MAX_BINS: usize = 256;

/// Value of a bin that no shingle fell into.
const EMPTY: u32 = u32::MAX;

/// Fills `out`, one number per bin, with the signature of a set of shingles.
///
/// The result depends on the set, `seed` and the number of bins only. The set must not be empty: a
/// text without words resembles nothing and has no signature.
///
/// # Panics
///
/// When `shingles` is empty, and unless there are 1 to 256 bins.
pub fn signature(shingles: &[u64], seed: u64, out: &mut [u32]) {
    assert!(!shingles.is_empty(), "a set without shingles has no signature");
    assert!((1..=MAX_BINS).contains(&out.len()), "a signature of {} bins", out.len());
    let bins = out.len() as u64;
    out.fill(EMPTY);
    // A shingle is a hash already, so its upper half picks the bin, and the upper half of its
    // product with a random odd number, which the lower bits decide, is the value.
    let factor = mix(seed) | 1;
    for &shingle in shingles {
        let bin = (((shingle >> 32) * bins) >> 32) as usize;
        let value = ((shingle.wrapping_mul(factor) >> 32) as u32).min(EMPTY - 1);
        out[bin] = out[bin].min(value);
    }
    densify(seed, out);
}

/// Gives each empty bin the value of the first filled bin of its probe sequence.
fn densify(seed: u64, values: &mut [u32]) {
    // One bit per bin: a copied value must not be copied on.
    let mut filled = [0_u64; MAX_BINS / 64];
    for (bin, &value) in values.iter().enumerate() {
        filled[bin / 64] |= u64::from(value != EMPTY) << (bin % 64);
    }
    let bins = values.len() as u64;
    for (word, filled_here) in filled.into_iter().enumerate() {
        let mut empty = !filled_here;
        while empty != 0 {
            let bin = 64 * word + empty.trailing_zeros() as usize;
            if bin >= values.len() {
                return;
            }
            values[bin] = values[first_filled(&filled, mix(seed ^ bin as u64), bins)];
            empty &= empty - 1;
        }
    }
}

/// The first filled bin of a probe sequence, the upper parts of a linear congruential generator.
///
/// Four probes are made at once: which of them is the first to hit cannot be foreseen, but that one
/// does nearly always.
fn first_filled(filled: &[u64; MAX_BINS / 64], mut probe: u64, bins: u64) -> usize {
    loop {
        let mut sources = [0; 4];
        let mut hits = 0_u32;
        for (number, source) in sources.iter_mut().enumerate() {
            *source = (((probe >> 32) * bins) >> 32) as usize;
            hits |= ((filled[*source / 64] >> (*source % 64) & 1) as u32) << number;
            probe = probe.wrapping_mul(K).wrapping_add(1);
        }
        if hits != 0 {
            return sources[hits.trailing_zeros() as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINS: usize = 130;

    fn signed(shingles: impl IntoIterator<Item = u64>) -> [u32; BINS] {
        let shingles: Vec<u64> = shingles.into_iter().map(mix).collect();
        let mut out = [0; BINS];
        signature(&shingles, 7, &mut out);
        out
    }

    fn agreement(left: &[u32], right: &[u32]) -> usize {
        left.iter().zip(right).filter(|(a, b)| a == b).count()
    }

    #[test]
    fn every_bin_is_filled_even_by_one_shingle() {
        for size in [1, 2, 10, 76, 124, 1000] {
            assert!(!signed(0..size).contains(&EMPTY), "{size} shingles");
        }
    }

    #[test]
    fn order_of_the_shingles_does_not_matter() {
        assert_eq!(signed(0..80), signed((0..80).rev()));
    }

    #[test]
    fn agreement_estimates_the_similarity_of_small_and_large_sets() {
        // The mean over 400 pairs of 130 bins: its standard error is below .006 even where bins
        // repeat each other in sets of 20; five of them are allowed.
        for (size, shared) in [(20, 16), (100, 82), (2000, 1647)] {
            let mean = (0..400)
                .map(|pair| {
                    let start = pair * 10_000;
                    let left = signed(start..start + size);
                    let right = signed(start + size - shared..start + 2 * size - shared);
                    agreement(&left, &right) as f64 / BINS as f64
                })
                .sum::<f64>()
                / 400.0;
            let jaccard = shared as f64 / (2 * size - shared) as f64;
            assert!((mean - jaccard).abs() < 0.03, "size {size}: {mean} for {jaccard}");
        }
    }
}
