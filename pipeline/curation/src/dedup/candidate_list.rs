//! Places of an index, collected from many buckets and brought into order.

/// Longer lists are ordered by a bit for each place instead of by sorting, if the places are at
/// most [`PLACES_PER_ENTRY`] times as many.
const LONG: usize = 256;

/// Bits of that many places are looked through in less time than one entry takes to be sorted.
const PLACES_PER_ENTRY: usize = 256;

/// A list of places with room to order it.
#[derive(Debug)]
pub(super) struct CandidateList {
    places: Vec<u32>,
    /// One bit for each place; all zero between two uses.
    seen: Vec<u64>,
    /// A bucket with more members is noted.
    many: usize,
    /// Features of the noted buckets.
    noted: Vec<u64>,
}

impl CandidateList {
    /// An empty list that notes the buckets with more than `many` members.
    pub(super) fn noting_above(many: u32) -> Self {
        Self { places: Vec::new(), seen: Vec::new(), many: many as usize, noted: Vec::new() }
    }

    /// Fills the list with the members of the buckets of `features`: ascending, each once.
    pub(super) fn collect<M: Iterator<Item = u32>>(
        &mut self,
        features: impl Iterator<Item = u64>,
        members: impl Fn(u64) -> M,
    ) {
        self.places.clear();
        self.noted.clear();
        for feature in features {
            let before = self.places.len();
            self.places.extend(members(feature));
            if self.places.len() - before > self.many {
                self.noted.push(feature);
            }
        }
        self.order();
    }

    /// Makes the places ascending, each once.
    fn order(&mut self) {
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

    /// The features of the buckets that were noted.
    pub(super) fn noted(&self) -> &[u64] {
        &self.noted
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
            let mut list = CandidateList::noting_above(1_000);
            for (start, width, length, seed) in lists {
                let places: Vec<u32> = (0..length as u32)
                    .map(|n| start + n.wrapping_mul(0x9E37_79B9).wrapping_add(seed) % width)
                    .collect();
                let halves = [&places[..length / 2], &places[length / 2..]];
                list.collect(0..2, |half| halves[half as usize].iter().copied());
                let is_long = |half: &u64| halves[*half as usize].len() > 1_000;
                let noted: Vec<u64> = (0..2).filter(is_long).collect();
                prop_assert_eq!(list.noted(), noted);
                let expected: BTreeSet<u32> = places.into_iter().collect();
                prop_assert_eq!(list.as_slice(), Vec::from_iter(expected));
            }
        }
    }
}
