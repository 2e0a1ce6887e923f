//! [`NGramDictionary`]: the n-grams of some texts, of several numbers of words at once, and the
//! search for them in other texts.
//!
//! # How it is fast
//!
//! A text is read once, whatever the numbers of words: its words are hashed as they stand, and the
//! hash of any run of them is a difference of two sums (`sums`). At each word only the shortest
//! n-gram is looked up, first by one bit that the processor's cache holds. A longer n-gram can only
//! be in the dictionary where the shorter one with which it begins is, so that the longer ones cost
//! no more than there are matches. Where a match goes on from the word before, words are compared
//! and nothing is looked up at all.
//!
//! # Why it is exact
//!
//! Hashes only say where to look. An n-gram is found when its words are, letter by letter, those of
//! the n-gram that the dictionary holds under that hash; n-grams of the dictionary with one hash are
//! kept apart and are all compared. So no two n-grams are ever mistaken for each other, whatever
//! their hashes; and equal n-grams have equal hashes, so that none is missed.

mod search;

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;
pub use search::{FoundNGram, NGramWindow};

use super::NormalizedText;
use super::sorted_hashes::SortedHashes;
use super::words::for_each_word;

/// Multiplier of the polynomial over the hashes of words.
const K: u64 = 0x9E37_79B9_7F4A_7C13;

/// Bits of the first test for each n-gram: one in 16 others passes it.
const BITS_PER_NGRAM: usize = 16;

/// Stands where no n-gram begins.
const NONE: u32 = u32::MAX;

/// The n-grams of some texts, numbered, for several numbers of words.
#[derive(Debug)]
pub struct NGramDictionary {
    /// The words of all texts, one behind the other.
    letters: String,
    /// Where each word ends in `letters`.
    ends: Vec<u32>,
    /// The words of each text, as places in `ends`.
    texts: Vec<Range<usize>>,
    /// For each number of words, ascending.
    tables: Vec<Table>,
    /// One bit for every hash of the first table, by its upper bits.
    bits: Vec<u64>,
    /// How far a hash is shifted to the number of its bit.
    shift: u32,
    /// The bits of a hash that are used: all, but in tests of equal hashes.
    mask: u64,
}

/// The n-grams of one number of words.
#[derive(Debug)]
struct Table {
    ngram_words: usize,
    /// What the sum before an n-gram is multiplied with: `K` to the power of its words.
    factor: u64,
    hashes: SortedHashes<u64>,
    /// The place of the first word of each n-gram, by its number; the numbers of `hashes` come
    /// first.
    places: Vec<u32>,
    /// Further n-grams whose hash another one has.
    same_hash: HashMap<u64, Vec<u32>>,
    /// The number of the n-gram that begins at each word.
    numbers: Vec<u32>,
}

impl NGramDictionary {
    /// Most bytes of all words together.
    pub const MAX_BYTES: usize = u32::MAX as usize - 1;

    /// The n-grams of `texts`, none of which crosses the border of two, for each of `sizes` words:
    /// ascending numbers above 0.
    ///
    /// # Panics
    ///
    /// Where `sizes` are not such numbers, or the words have more than
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    #[must_use]
    pub fn new<'t>(sizes: &[usize], texts: impl Iterator<Item = &'t str>) -> Self {
        Self::with_mask(sizes, texts, u64::MAX)
    }

    fn with_mask<'t>(sizes: &[usize], texts: impl Iterator<Item = &'t str>, mask: u64) -> Self {
        assert!(!sizes.is_empty() && sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b));
        let mut dictionary = Self {
            letters: String::new(),
            ends: Vec::new(),
            texts: Vec::new(),
            tables: Vec::new(),
            bits: Vec::new(),
            shift: 0,
            mask,
        };
        let mut sums = Vec::new();
        for text in texts {
            dictionary.add_words(text, &mut sums);
        }
        assert!(dictionary.letters.len() <= Self::MAX_BYTES, "more words than numbers for them");
        dictionary.letters.shrink_to_fit();
        dictionary.ends.shrink_to_fit();
        dictionary.tables = sizes.iter().map(|&size| dictionary.table(size, &sums)).collect();
        dictionary.set_bits();
        dictionary
    }

    /// Adds the words of one more text, and a sum before each word and one behind the last.
    fn add_words(&mut self, text: &str, sums: &mut Vec<u64>) {
        let first = self.ends.len();
        let mut sum = 0_u64;
        for_each_word(text, |hash, span| {
            sums.push(sum);
            sum = append(sum, hash);
            let word = &text[span];
            if word.is_ascii() {
                self.letters.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
            } else {
                self.letters.push_str(NormalizedText::new(word).joined());
            }
            self.ends.push(self.letters.len() as u32);
        });
        // What stands behind the last word of a text is in no n-gram's hash but as its end.
        sums.push(sum);
        self.texts.push(first..self.ends.len());
    }

    fn table(&self, ngram_words: usize, sums: &[u64]) -> Table {
        let factor = power(ngram_words);
        // The sums have one entry more for each text before.
        let places: Vec<(u64, u32)> = self
            .texts
            .iter()
            .enumerate()
            .flat_map(|(text, words)| {
                let count = (words.len() + 1).saturating_sub(ngram_words);
                (words.start..words.start + count).map(move |place| {
                    let sum = place + text;
                    let hash = sums[sum + ngram_words].wrapping_sub(sums[sum].wrapping_mul(factor));
                    (hash & self.mask, place as u32)
                })
            })
            .collect();
        let hashes = SortedHashes::new(places.par_iter().map(|&(hash, _)| hash).collect());
        let mut table = Table {
            ngram_words,
            factor,
            places: vec![NONE; hashes.len()],
            hashes,
            same_hash: HashMap::new(),
            numbers: vec![NONE; self.ends.len()],
        };
        for (hash, place) in places {
            let number = self.number_of(&mut table, hash, place);
            table.numbers[place as usize] = number;
        }
        table
    }

    /// The number of the n-gram at a place of the dictionary, a new one where its words are new.
    fn number_of(&self, table: &mut Table, hash: u64, place: u32) -> u32 {
        let number = table.hashes.number(hash).expect("the hashes of all n-grams are there");
        let first = &mut table.places[number as usize];
        if *first == NONE {
            *first = place;
            return number;
        }
        let is_same = |other: u32| {
            (0..table.ngram_words as u32)
                .all(|word| self.word(other + word) == self.word(place + word))
        };
        if is_same(*first) {
            return number;
        }
        let others = table.same_hash.entry(hash).or_default();
        if let Some(&number) = others.iter().find(|&&number| is_same(table.places[number as usize]))
        {
            return number;
        }
        let number = table.places.len() as u32;
        others.push(number);
        table.places.push(place);
        number
    }

    fn set_bits(&mut self) {
        let hashes = self.tables[0].hashes.as_slice();
        let num_bits = (hashes.len() * BITS_PER_NGRAM).next_power_of_two().max(64);
        self.shift = 64 - num_bits.ilog2();
        self.bits = vec![0; num_bits / 64];
        for &hash in hashes {
            let (word, bit) = place_of_bit(hash, self.shift);
            self.bits[word] |= bit;
        }
    }

    /// A word by its place.
    fn word(&self, place: u32) -> &str {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.letters[start as usize..self.ends[place] as usize]
    }

    /// The numbers of words, ascending.
    pub fn sizes(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.tables.iter().map(|table| table.ngram_words)
    }

    /// Number of distinct n-grams of a size, by its place among [`sizes`](Self::sizes).
    #[must_use]
    pub fn num_distinct(&self, size: usize) -> usize {
        self.tables[size].places.len()
    }

    /// Number of words of all texts.
    #[must_use]
    pub fn num_words(&self) -> usize {
        self.ends.len()
    }

    /// The words of each text, as places of the dictionary.
    #[must_use]
    pub fn texts(&self) -> &[Range<usize>] {
        &self.texts
    }

    /// The numbers of the n-grams of a size that begin at the words at `places`; `None` where a text
    /// ends before the n-gram would.
    pub fn numbers(
        &self,
        size: usize,
        places: Range<usize>,
    ) -> impl Iterator<Item = Option<u32>> + '_ {
        self.tables[size].numbers[places].iter().map(|&number| (number != NONE).then_some(number))
    }
}

/// Adds a word's hash to a polynomial.
#[inline]
fn append(sum: u64, word: u64) -> u64 {
    sum.wrapping_mul(K).wrapping_add(word)
}

/// `K` to the power of `exponent`.
fn power(exponent: usize) -> u64 {
    (0..exponent).fold(1, |power: u64, _| power.wrapping_mul(K))
}

/// The bit of a hash: a word of the bits and the bit in it.
#[inline]
fn place_of_bit(hash: u64, shift: u32) -> (usize, u64) {
    let bit = hash >> shift;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests;
