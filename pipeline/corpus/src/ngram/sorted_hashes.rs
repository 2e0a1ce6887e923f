//! Distinct hashes in ascending order: a set of them, and a number for each.
//!
//! Hashes are spread evenly, so that the upper bits of one tell where it stands: a table of the
//! places at which each run of upper bits begins leaves a few neighbors to look at. That takes a
//! third of the memory of a hash map, which counts where a hundred test sets have tens of millions
//! of n-grams.

use rayon::prelude::*;

/// A hash of evenly spread bits.
pub trait Hash: Copy + Ord + Send {
    /// Its upper 32 bits.
    fn upper(self) -> u32;
}

impl Hash for u64 {
    fn upper(self) -> u32 {
        (self >> 32) as u32
    }
}

impl Hash for u128 {
    fn upper(self) -> u32 {
        (self >> 96) as u32
    }
}

/// Distinct hashes, each with a number: its place in ascending order.
#[derive(Debug)]
pub struct SortedHashes<H> {
    hashes: Vec<H>,
    /// For each value of the upper bits, and for one more, the number of hashes below it.
    starts: Vec<u32>,
    /// How far the upper 32 bits are shifted to such a value.
    shift: u32,
}

impl<H: Hash> SortedHashes<H> {
    /// The distinct ones of some hashes, fewer than 2^32.
    #[must_use]
    pub fn new(mut hashes: Vec<H>) -> Self {
        hashes.par_sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        // One or two hashes for each value of the upper bits.
        let bits = hashes.len().max(2).ilog2();
        let shift = 32 - bits;
        let mut starts = vec![0; (1 << bits) + 1];
        for hash in &hashes {
            starts[(hash.upper() >> shift) as usize + 1] += 1;
        }
        let mut below = 0;
        for start in &mut starts {
            below += *start;
            *start = below;
        }
        Self { hashes, starts, shift }
    }

    /// Number of hashes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The hashes, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[H] {
        &self.hashes
    }

    /// The number of a hash, where it is one of these.
    #[must_use]
    pub fn number(&self, hash: H) -> Option<u32> {
        let bits = (hash.upper() >> self.shift) as usize;
        let (start, end) = (self.starts[bits], self.starts[bits + 1]);
        let place = self.hashes[start as usize..end as usize].binary_search(&hash).ok()?;
        Some(start + place as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hash_has_the_number_of_its_place(
            seeds in prop::collection::vec(0_u64..500, 0..400),
            few in any::<bool>(),
        ) {
            // Evenly spread ones, and ones of which all the upper bits are equal.
            let hash = |seed: u64| if few { seed } else { seed.wrapping_mul(0x9E37_79B9_7F4A_7C13) };
            let sorted = SortedHashes::new(seeds.iter().map(|&seed| hash(seed)).collect());
            let distinct: BTreeSet<u64> = seeds.iter().map(|&seed| hash(seed)).collect();
            prop_assert!(sorted.as_slice().iter().eq(&distinct));
            for seed in 0..500 {
                let place = distinct.iter().position(|&other| other == hash(seed));
                prop_assert_eq!(sorted.number(hash(seed)), place.map(|place| place as u32));
            }
        }
    }
}
