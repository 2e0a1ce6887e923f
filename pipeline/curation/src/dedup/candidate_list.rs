//! Places of an index, collected from many buckets and brought into order.

/// Longer lists are ordered by a bit for each place instead of by sorting, if the places are at most
/// [`PLACES_PER_ENTRY`] times as many.
const LONG: usize = 256;

/// Bits of that many places are looked through in less time than one entry takes to be sorted.
const PLACES_PER_ENTRY: usize = 256;

/// A list of places with room to order it.
#[derive(Debug, Default)]
pub(super) struct CandidateList {
    places: Vec<u32>,
    /// One bit for each place; all zero between two uses.
    seen: Vec<u64>,
}

impl CandidateList {
    /// Empties the list and fills it with `places`; from then on they are ascending, each once.
    pub(super) fn collect(&mut self, collect: impl FnOnce(&mut Vec<u32>)) {
        self.places.clear();
        collect(&mut self.places);
        let (Some(&least), Some(&greatest)) = (self.places.iter().min(), self.places.iter().max())
        else {
            return;
        };
        let first_word = least as usize / 64;
        let words = greatest as usize / 64 - first_word + 1;
        if self.places.len() < LONG || words * 64 > self.places.len() * PLACES_PER_ENTRY {
            self.places.sort_unstable();
            self.places.dedup();
            return;
        }
        self.seen.resize(self.seen.len().max(words), 0);
        for &place in &self.places {
            self.seen[place as usize / 64 - first_word] |= 1 << (place % 64);
        }
        self.places.clear();
        for (word, bits) in self.seen[..words].iter_mut().enumerate() {
            let mut left = std::mem::take(bits);
            while left != 0 {
                self.places.push(((first_word + word) * 64) as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }

    /// Keeps the places for which `keep` is true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.places.retain(|&place| keep(place));
    }

    /// Replaces every place.
    pub(super) fn map(&mut self, number_of: impl Fn(u32) -> u32) {
        self.places.iter_mut().for_each(|place| *place = number_of(*place));
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_list_becomes_ascending_without_repeats(
            lists in prop::collection::vec(
                (0_u32..1_000_000, 1_u32..100_000, 0_usize..3_000, any::<u32>()), 1..6),
        ) {
            let mut list = CandidateList::default();
            for (start, width, length, seed) in lists {
                let places: Vec<u32> = (0..length as u32)
                    .map(|n| start + n.wrapping_mul(0x9E37_79B9).wrapping_add(seed) % width)
                    .collect();
                list.collect(|out| out.extend(&places));
                let expected: Vec<u32> = BTreeSet::from_iter(places).into_iter().collect();
                prop_assert_eq!(list.as_slice(), expected);
            }
        }
    }
}
