//! The search for the n-grams of dictionaries in a text.

use std::ops::Range;

use super::super::NormalizedText;
use super::super::words::for_each_word;
use super::{NGramDictionary, NONE, Table, append, place_of_bit};

/// Words of a text that are searched together: they and their sums stay in the nearest cache.
pub(super) const WINDOW_WORDS: usize = 2048;

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

/// Whether a word of a text is, in lower case, this word.
#[inline]
fn is_word(of_text: &str, word: &str) -> bool {
    of_text.eq_ignore_ascii_case(word)
        || !of_text.is_ascii() && NormalizedText::new(of_text).joined() == word
}
