//! N-grams of words, by which two texts are found to share a passage.
//!
//! Words are maximal runs of `a` to `z` and `0` to `9` in the lower-cased text, so case,
//! punctuation and spacing do not matter. An n-gram is n words in a row; its hash is the 128-bit
//! xxh3 of the words joined by single spaces. Hashes stand for the n-grams themselves, without a
//! look at the text: among 10^12 different n-grams of a corpus and 10^6 of a test set the chance of
//! a single false match is 10^18 / 2^128, or 3 in 10^21.
//!
//! Source: Radford et al., *Language Models are Unsupervised Multitask Learners* (2019), section 4,
//! whose measure of overlap Megatron-LM repeats.
//!
//! - [`NormalizedText`]: the words of a text, and its n-grams one by one;
//! - [`for_each_word`]: the same words as hashes, many times as fast;
//! - [`NGramDictionary`]: the n-grams of some texts, and the search for them in others, without even
//!   the chance of a false match;
//! - [`SortedHashes`]: a set of hashes that numbers them.

mod dictionary;
mod sorted_hashes;
mod words;

use std::ops::Range;

pub use dictionary::{FoundNGram, NGramDictionary, NGramWindow};
pub use sorted_hashes::{Hash, SortedHashes};
pub use words::for_each_word;
use xxhash_rust::xxh3::xxh3_128;

/// A text reduced to its words.
///
/// ```
/// use corpus::NormalizedText;
///
/// let text = NormalizedText::new("The U.S. won, 3 @-@ 1.");
/// assert_eq!(text.joined(), "the u s won 3 1");
/// assert_eq!(text.ngrams(5).count(), 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NormalizedText {
    /// The words, joined by single spaces.
    joined: String,
    words: Vec<Word>,
}

/// Where a word stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// Bytes of the joined words.
    joined: Range<usize>,
    /// Bytes of the original text.
    original: Range<usize>,
}

/// N words in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NGram {
    /// Hash of the words: equal for equal words, and only for them (see the module's text).
    pub hash: u128,
    /// Index of the first word.
    pub position: usize,
    /// Bytes of the original text from the first word's first to the last word's last.
    pub span: Range<usize>,
}

impl NormalizedText {
    /// The words of `text`.
    pub fn new(text: &str) -> Self {
        let mut normalized = Self::default();
        let mut in_word = false;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let offset = text.len() - rest.len();
            let run = ascii_run(rest);
            if run > 0 {
                normalized.add_letters(&rest[..run], in_word, offset..offset + run);
                in_word = true;
                rest = &rest[run..];
                continue;
            }
            let end = offset + first.len_utf8();
            // Some letters become several, such as İ: i and a dot that is no letter of a word.
            for lower in first.to_lowercase() {
                let belongs = lower.is_ascii_alphanumeric();
                if belongs {
                    normalized.add_letters(lower.encode_utf8(&mut [0; 4]), in_word, offset..end);
                }
                in_word = belongs;
            }
            rest = &text[end..];
        }
        normalized
    }

    /// Adds letters to the last word, or to a new one; `original` is where they stand in the text.
    fn add_letters(&mut self, letters: &str, continues_word: bool, original: Range<usize>) {
        if !continues_word && !self.joined.is_empty() {
            self.joined.push(' ');
        }
        let start = self.joined.len();
        self.joined.push_str(letters);
        self.joined[start..].make_ascii_lowercase();
        let end = self.joined.len();
        match self.words.last_mut().filter(|_| continues_word) {
            Some(word) => {
                word.joined.end = end;
                word.original.end = original.end;
            }
            None => self.words.push(Word { joined: start..end, original }),
        }
    }

    /// The words, joined by single spaces.
    pub fn joined(&self) -> &str {
        &self.joined
    }

    /// Number of words.
    pub fn num_words(&self) -> usize {
        self.words.len()
    }

    /// The n-grams, one per position: equal ones are counted as often as they occur. A text of
    /// fewer words has none.
    ///
    /// # Panics
    ///
    /// Where `n` is 0.
    pub fn ngrams(&self, n: usize) -> impl ExactSizeIterator<Item = NGram> + '_ {
        self.words.windows(n).enumerate().map(|(position, words)| {
            let (first, last) = (&words[0], &words[words.len() - 1]);
            NGram {
                hash: xxh3_128(&self.joined.as_bytes()[first.joined.start..last.joined.end]),
                position,
                span: first.original.start..last.original.end,
            }
        })
    }
}

/// Length of the run of ASCII letters and digits that `text` begins with.
fn ascii_run(text: &str) -> usize {
    text.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn case_punctuation_and_spacing_do_not_matter() {
        for text in ["It 's 5 @-@ 6 , or SO", "it's 5-6, or so", "\nIT.S\t5 ... 6 or—so!"] {
            assert_eq!(NormalizedText::new(text).joined(), "it s 5 6 or so", "{text}");
        }
        assert_eq!(NormalizedText::new("").num_words(), 0);
        assert_eq!(NormalizedText::new(" …日本語 ").num_words(), 0);
    }

    #[test]
    fn letters_beyond_ascii_end_a_word() {
        // The Kelvin sign is a k in lower case, İ an i and a combining dot.
        assert_eq!(
            NormalizedText::new("naïve \u{212a}elvin \u{130}x a_b").joined(),
            "na ve kelvin i x a b"
        );
    }

    #[test]
    fn spans_hold_the_original_words() {
        let text = "One, TWO; “three” four";
        let normalized = NormalizedText::new(text);
        let spans: Vec<&str> = normalized.ngrams(2).map(|ngram| &text[ngram.span]).collect();
        assert_eq!(spans, ["One, TWO", "TWO; “three", "three” four"]);
        let positions: Vec<usize> = normalized.ngrams(2).map(|ngram| ngram.position).collect();
        assert_eq!(positions, [0, 1, 2]);
    }

    #[test]
    fn texts_shorter_than_n_have_no_ngrams() {
        let text = NormalizedText::new("one two three");
        assert_eq!([2, 3, 4, 8].map(|n| text.ngrams(n).len()), [2, 1, 0, 0]);
    }

    #[test]
    fn hashes_are_equal_exactly_for_equal_words() {
        let hashes = |text| NormalizedText::new(text).ngrams(2).map(|n| n.hash).collect::<Vec<_>>();
        assert_eq!(hashes("a b"), hashes("A, B"));
        assert_ne!(hashes("ab c"), hashes("a bc"));
        let repeated = hashes("x y x y");
        assert_eq!(repeated[0], repeated[2]);
        assert_ne!(repeated[0], repeated[1]);
    }

    #[test]
    fn words_are_the_runs_of_the_lower_cased_text() {
        proptest!(|(text in any::<String>())| {
            let normalized = NormalizedText::new(&text);
            let lower: String = text.chars().flat_map(char::to_lowercase).collect();
            let words: Vec<&str> = lower
                .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit())
                .filter(|word| !word.is_empty())
                .collect();
            prop_assert_eq!(normalized.joined(), words.join(" "));
            for word in &normalized.words {
                prop_assert!(text.is_char_boundary(word.original.start));
                prop_assert!(text.is_char_boundary(word.original.end));
            }
        });
    }

    /// Reference: Python's `re.findall("[a-z0-9]+", text.lower())` over the whole files, 8 words at
    /// a time.
    #[test]
    fn overlap_of_wikitext_test_and_validation_is_the_known_one() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let (Ok(test), Ok(valid)) = (read("wiki.test.tokens"), read("wiki.valid.tokens")) else {
            println!("skipped: no WikiText-103 in {}", folder.display());
            return;
        };
        let test: Vec<u128> = NormalizedText::new(&test).ngrams(8).map(|n| n.hash).collect();
        let valid: HashSet<u128> = NormalizedText::new(&valid).ngrams(8).map(|n| n.hash).collect();
        let distinct: HashSet<u128> = test.iter().copied().collect();
        assert_eq!((test.len(), distinct.len()), (206_591, 205_719));
        assert_eq!(test.iter().filter(|hash| valid.contains(hash)).count(), 11);
        assert_eq!(distinct.intersection(&valid).count(), 9);
    }
}
