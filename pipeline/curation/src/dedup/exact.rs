//! Exact duplicates: texts that are equal byte by byte.
//!
//! They are found by a 128-bit hash (xxh3) and confirmed by comparing the bytes, so that a
//! collision costs a comparison and never a document. The first copy in input order stays.

use xxhash_rust::xxh3::xxh3_128;

use crate::key_hash::HashKeyedMap;

/// The distinct texts seen so far.
#[derive(Debug, Default)]
pub struct ExactIndex<'a> {
    first_copies: HashKeyedMap<u128, (usize, &'a str)>,
}

impl<'a> ExactIndex<'a> {
    /// The number of the first document with exactly this text; `None` for a text not seen before,
    /// which is now.
    pub fn first_copy_or_insert(&mut self, document: usize, text: &'a str) -> Option<usize> {
        self.find_or_insert(xxh3_128(text.as_bytes()), document, text)
    }

    /// Another text under the same hash moves on to the next key.
    fn find_or_insert(&mut self, mut hash: u128, document: usize, text: &'a str) -> Option<usize> {
        loop {
            match self.first_copies.get(&hash) {
                Some(&(first, same)) if same == text => return Some(first),
                Some(_) => hash = hash.wrapping_add(1),
                None => {
                    self.first_copies.insert(hash, (document, text));
                    return None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_copy_is_the_witness() {
        let mut index = ExactIndex::default();
        let texts = ["cat", "dog", "cat", "", "cat ", "", "dog"];
        let found: Vec<_> =
            texts.iter().enumerate().map(|(n, text)| index.first_copy_or_insert(n, text)).collect();
        assert_eq!(found, [None, None, Some(0), None, None, Some(3), Some(1)]);
    }

    #[test]
    fn a_hash_collision_removes_nothing() {
        let mut index = ExactIndex::default();
        assert_eq!(index.find_or_insert(7, 0, "cat"), None);
        assert_eq!(index.find_or_insert(7, 1, "dog"), None);
        assert_eq!(index.find_or_insert(8, 2, "bird"), None);
        assert_eq!(index.find_or_insert(7, 3, "dog"), Some(1));
        assert_eq!(index.find_or_insert(8, 4, "bird"), Some(2));
        assert_eq!(index.find_or_insert(7, 5, "cat"), Some(0));
    }
}
