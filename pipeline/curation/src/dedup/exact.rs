//! Exact duplicates: texts that are equal byte by byte.
//!
//! They are found by a 128-bit hash (xxh3) and confirmed by comparing the bytes, so that a
//! collision costs a comparison and never a document. The first copy in input order stays.
//!
//! Copies have one hash, so the hashes can be divided into ranges that are gone through one after
//! another, or side by side: as many as memory and threads ask for.

use xxhash_rust::xxh3::xxh3_128;

use crate::key_hash::HashKeyedMap;

/// What the index holds of a text, in bytes: a hash and a number, while its map doubles.
pub const BYTES_PER_TEXT: usize = 120;

/// A document with the text of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Its number.
    pub document: u32,
    /// Number of the first document with the text.
    pub first: u32,
}

/// A range of hashes: the `number`-th of `count`, a power of two.
#[derive(Debug, Clone, Copy)]
pub struct HashRange {
    /// Which range.
    pub number: u32,
    /// Number of ranges.
    pub count: u32,
}

impl HashRange {
    /// All ranges of a division into `count`, a power of two.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        debug_assert!(count.is_power_of_two());
        (0..count).map(move |number| Self { number, count })
    }

    /// Whether a hash is in this range.
    #[must_use]
    pub fn holds(self, hash: u128) -> bool {
        ((hash >> 96) as u32).checked_shr(32 - self.count.trailing_zeros()).unwrap_or(0)
            == self.number
    }
}

/// The hash of a text, by which it is looked up.
#[must_use]
pub fn text_hash(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// The distinct texts seen so far.
#[derive(Debug, Default)]
pub struct ExactIndex {
    first_copies: HashKeyedMap<u128, u32>,
}

impl ExactIndex {
    /// The number of the first document with the text of `document`; `None` for a text not seen
    /// before, which is now. `is_equal` compares the document's text with that of an earlier one.
    ///
    /// # Errors
    ///
    /// Those of `is_equal`.
    pub fn first_copy_or_insert<E>(
        &mut self,
        document: u32,
        mut hash: u128,
        mut is_equal: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        // Another text under the same hash moves on to the next key.
        loop {
            match self.first_copies.get(&hash) {
                Some(&first) if is_equal(first)? => return Ok(Some(first)),
                Some(_) => hash = hash.wrapping_add(1),
                None => {
                    self.first_copies.insert(hash, document);
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// The first copy of each text, where `hash` gives the hashes.
    fn first_copies(texts: &[&str], hash: impl Fn(&str) -> u128) -> Vec<Option<u32>> {
        let mut index = ExactIndex::default();
        (0..texts.len())
            .map(|number| {
                let is_equal = |first: u32| Ok(texts[first as usize] == texts[number]);
                let found: Result<_, Infallible> =
                    index.first_copy_or_insert(number as u32, hash(texts[number]), is_equal);
                found.unwrap()
            })
            .collect()
    }

    #[test]
    fn the_first_copy_is_the_witness() {
        let texts = ["cat", "dog", "cat", "", "cat ", "", "dog"];
        let expected = [None, None, Some(0), None, None, Some(3), Some(1)];
        assert_eq!(first_copies(&texts, text_hash), expected);
    }

    #[test]
    fn a_hash_collision_removes_nothing() {
        let texts = ["cat", "dog", "bird", "dog", "bird", "cat"];
        let collide = |text: &str| if text == "bird" { 8 } else { 7 };
        assert_eq!(first_copies(&texts, collide), [None, None, None, Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn every_hash_is_in_one_range() {
        for count in [1, 2, 64] {
            for hash in (0..1000).map(|n: u32| text_hash(&n.to_string())) {
                assert_eq!(HashRange::all(count).filter(|range| range.holds(hash)).count(), 1);
            }
        }
    }
}
