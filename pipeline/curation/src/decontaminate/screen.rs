//! A quick look where a text shares n-grams with the test sets at all; nearly all texts of a corpus
//! share none.
//!
//! It scans a text once, where the comparison proper copies the text's words and hashes each n-gram
//! by itself, at a fraction of the speed. It errs on one side only: a shared n-gram is always
//! noticed.

use corpus::ngram::{SortedHashes, for_each_word};

use crate::word_hash::words_to_runs;

/// Bits of the first test for each n-gram of the test sets: one in 16 others passes it.
const BITS_PER_HASH: usize = 16;

/// The n-grams of all test sets, as 64-bit hashes.
pub(super) struct Screen {
    ngram_words: usize,
    /// One bit for every hash, by its upper bits: small enough to stay in the processor's cache.
    bits: Vec<u64>,
    /// How far a hash is shifted to the number of its bit.
    shift: u32,
    hashes: SortedHashes<u64>,
}

impl Screen {
    /// The n-grams of `texts`.
    pub(super) fn new<'t>(ngram_words: usize, texts: impl Iterator<Item = &'t str>) -> Self {
        let mut hashes = Vec::new();
        let mut runs = Vec::new();
        for text in texts {
            runs.clear();
            push_word_hashes(text, &mut runs);
            words_to_runs(&mut runs, ngram_words);
            hashes.extend_from_slice(&runs);
        }
        let hashes = SortedHashes::new(hashes);
        let num_bits = (hashes.len() * BITS_PER_HASH).next_power_of_two().max(64);
        let mut bits = vec![0; num_bits / 64];
        let shift = 64 - num_bits.ilog2();
        for &hash in hashes.as_slice() {
            let (word, bit) = place(hash, shift);
            bits[word] |= bit;
        }
        Self { ngram_words, bits, shift, hashes }
    }

    /// Replaces the hashes of a text's words ([`push_word_hashes`]) by those of its n-grams, and
    /// answers at which positions there may be one that the test sets hold; surely at no other.
    pub(super) fn hits(&self, hashes: &mut Vec<u64>) -> Vec<usize> {
        words_to_runs(hashes, self.ngram_words);
        let may_hold = |hash: u64| {
            let (word, bit) = place(hash, self.shift);
            self.bits[word] & bit != 0 && self.hashes.number(hash).is_some()
        };
        let positions = hashes.iter().zip(0..).filter(|(hash, _)| may_hold(**hash));
        positions.map(|(_, position)| position).collect()
    }
}

/// The bit of a hash: a word of [`Screen::bits`] and the bit in it.
#[inline]
fn place(hash: u64, shift: u32) -> (usize, u64) {
    let bit = hash >> shift;
    ((bit / 64) as usize, 1 << (bit % 64))
}

/// Pushes the hash of each run of `a` to `z` and `0` to `9` in the lower-cased text: the words of
/// [`NormalizedText`](corpus::NormalizedText).
pub(super) fn push_word_hashes(text: &str, out: &mut Vec<u64>) {
    for_each_word(text, |hash, _| out.push(hash));
}

/// Pushes where each of these words ends, in bytes of the text.
pub(super) fn push_word_ends(text: &str, out: &mut Vec<usize>) {
    for_each_word(text, |_, span| out.push(span.end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_n_gram_is_noticed_where_it_stands() {
        let screen = Screen::new(3, ["one two three four"].into_iter());
        let hits = |text| {
            let mut hashes = Vec::new();
            push_word_hashes(text, &mut hashes);
            let num_words = hashes.len();
            let hits = screen.hits(&mut hashes);
            assert_eq!(hashes.len(), num_words.saturating_sub(2));
            hits
        };
        assert_eq!(hits("zero TWO, three\nfour five; one two three"), [1, 5]);
        for text in ["one two four three", "one two", ""] {
            assert_eq!(hits(text), [0; 0]);
        }
    }
}
