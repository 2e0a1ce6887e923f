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

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::NormalizedText;
use super::sorted_hashes::SortedHashes;
use super::words::for_each_word;

/// Multiplier of the polynomial over the hashes of words.
const K: u64 = 0x9E37_79B9_7F4A_7C13;

/// Bits of the first test for each n-gram: one in 16 others passes it.
const BITS_PER_NGRAM: usize = 16;

/// Words of a text that are searched together: they and their sums stay in the nearest cache.
const WINDOW_WORDS: usize = 2048;

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

/// An n-gram of the dictionary, found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNGram {
    /// Which number of words it has: a place among [`NGramDictionary::sizes`].
    pub size: usize,
    /// Its number among the n-grams of that size.
    pub number: u32,
    /// Bytes of the text from its first word's first to its last word's last.
    pub span: Range<usize>,
}

/// Words of a text that are searched together; to be used for one text after another.
#[derive(Debug, Default)]
pub struct NGramWindow {
    /// Before each word, the polynomial over the hashes of all words before it, and one more.
    sums: Vec<u64>,
    /// Where the words stand.
    spans: Vec<Range<usize>>,
}

/// What is known of the words from a place on: they are those of the dictionary `offset` further.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Place in the dictionary less place in the window.
    offset: usize,
    /// The first word of the window of which it is not known.
    until: usize,
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

    /// Hands every n-gram of `text` that one of `dictionaries`, all of the same sizes, holds to
    /// `found`, with the place of the dictionary among them. The n-grams of one dictionary and size
    /// come in text order. Returns the number of words of the text.
    pub fn search(
        dictionaries: &[Self],
        text: &str,
        window: &mut NGramWindow,
        mut found: impl FnMut(usize, FoundNGram),
    ) -> u64 {
        let longest = dictionaries.iter().filter_map(|it| it.sizes().last()).max().unwrap_or(1);
        let capacity = WINDOW_WORDS + longest;
        let mut num_words = 0;
        window.clear();
        let mut search = |window: &NGramWindow, end: usize| {
            for (place, dictionary) in dictionaries.iter().enumerate() {
                dictionary.find_in(window, end, text, &mut |it| found(place, it));
            }
        };
        for_each_word(text, |hash, span| {
            if window.spans.len() == capacity {
                // The last words are looked at again as the first of the next window's.
                let end = capacity - (longest - 1);
                search(window, end);
                num_words += end as u64;
                window.drop_first(end);
            }
            window.push(hash, span);
        });
        search(window, window.spans.len());
        num_words + window.spans.len() as u64
    }

    /// The n-grams that begin at the first `end` words of a window.
    fn find_in(
        &self,
        window: &NGramWindow,
        end: usize,
        text: &str,
        found: &mut impl FnMut(FoundNGram),
    ) {
        let shortest = &self.tables[0];
        let end = end.min((window.spans.len() + 1).saturating_sub(shortest.ngram_words));
        let mut known = Known { offset: 0, until: 0 };
        for first in 0..end {
            if known.until <= first {
                let hash = shortest.hash(window, first) & self.mask;
                let (word, bit) = place_of_bit(hash, self.shift);
                if self.bits[word] & bit == 0 {
                    continue;
                }
            }
            self.find_at(window, first, text, &mut known, found);
        }
    }

    /// The n-grams that begin at one word of a window.
    fn find_at(
        &self,
        window: &NGramWindow,
        first: usize,
        text: &str,
        known: &mut Known,
        found: &mut impl FnMut(FoundNGram),
    ) {
        for (size, table) in self.tables.iter().enumerate() {
            let last = first + table.ngram_words;
            if last > window.spans.len() {
                return;
            }
            let number = self
                .follow(table, window, first, text, known)
                .or_else(|| self.look_up(table, window, first, text, known));
            // A longer n-gram that begins with one that is not there is not there either.
            let Some(number) = number else { return };
            let span = window.spans[first].start..window.spans[last - 1].end;
            found(FoundNGram { size, number, span });
        }
    }

    /// The number of the n-gram at a word, where the match goes on that the word stands in.
    #[inline]
    fn follow(
        &self,
        table: &Table,
        window: &NGramWindow,
        first: usize,
        text: &str,
        known: &mut Known,
    ) -> Option<u32> {
        if known.until <= first {
            return None;
        }
        let (place, last) = (first.wrapping_add(known.offset), first + table.ngram_words);
        self.extend(known, last, window, text);
        let number = if known.until >= last { table.numbers[place] } else { NONE };
        (number != NONE).then_some(number)
    }

    /// Compares further words, up to `last` of the window.
    fn extend(&self, known: &mut Known, last: usize, window: &NGramWindow, text: &str) {
        while known.until < last {
            let place = known.until.wrapping_add(known.offset);
            if place >= self.ends.len()
                || !is_word(&text[window.spans[known.until].clone()], self.word(place as u32))
            {
                return;
            }
            known.until += 1;
        }
    }

    /// The number of the n-gram at a word, and what is then known of the words from it on.
    fn look_up(
        &self,
        table: &Table,
        window: &NGramWindow,
        first: usize,
        text: &str,
        known: &mut Known,
    ) -> Option<u32> {
        let hash = table.hash(window, first) & self.mask;
        let number = table.hashes.number(hash)?;
        let last = first + table.ngram_words;
        let further = table.same_hash.get(&hash).into_iter().flatten().copied();
        for number in std::iter::once(number).chain(further) {
            let offset = (table.places[number as usize] as usize).wrapping_sub(first);
            // Of the words that the n-gram shares with what is known, nothing is looked at again.
            let until = if offset == known.offset { known.until.max(first) } else { first };
            let mut compared = Known { offset, until };
            self.extend(&mut compared, last, window, text);
            if compared.until >= last {
                *known = compared;
                return Some(number);
            }
        }
        None
    }
}

impl Table {
    /// The hash of the n-gram that begins at a word of a window.
    #[inline]
    fn hash(&self, window: &NGramWindow, first: usize) -> u64 {
        let before = window.sums[first].wrapping_mul(self.factor);
        window.sums[first + self.ngram_words].wrapping_sub(before)
    }
}

impl NGramWindow {
    fn clear(&mut self) {
        self.spans.clear();
        self.sums.clear();
        self.sums.push(0);
    }

    #[inline]
    fn push(&mut self, hash: u64, span: Range<usize>) {
        let sum = self.sums[self.sums.len() - 1];
        self.sums.push(append(sum, hash));
        self.spans.push(span);
    }

    fn drop_first(&mut self, words: usize) {
        self.spans.drain(..words);
        self.sums.drain(..words);
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

/// Whether a word of a text is, in lower case, this word.
#[inline]
fn is_word(of_text: &str, word: &str) -> bool {
    of_text.eq_ignore_ascii_case(word)
        || !of_text.is_ascii() && NormalizedText::new(of_text).joined() == word
}

#[cfg(test)]
mod tests;
