//! A quick look whether a text shares any n-gram with the test sets at all; nearly all texts of a corpus do not.
//!
//! It scans a text once, byte by byte, where the comparison proper copies the text's words and hashes each n-gram by
//! itself, at a fraction of the speed. It errs on one side only: a text that shares an n-gram is always noticed.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use crate::key_hash::KeyIsHash;
use crate::word_hash::{WordState, words_to_runs};

/// The n-grams of all test sets, as 64-bit hashes.
pub(super) struct Screen {
    ngram_words: usize,
    hashes: HashSet<u64, BuildHasherDefault<KeyIsHash>>,
}

impl Screen {
    pub(super) fn new(ngram_words: usize) -> Self {
        Self { ngram_words, hashes: HashSet::default() }
    }

    /// Adds the n-grams of a text.
    pub(super) fn add(&mut self, text: &str) {
        let ngrams = self.ngrams(text);
        self.hashes.extend(ngrams);
    }

    /// Whether a text may share an n-gram with those that were added; surely not where the answer is no.
    pub(super) fn may_share(&self, text: &str) -> bool {
        self.ngrams(text).iter().any(|hash| self.hashes.contains(hash))
    }

    fn ngrams(&self, text: &str) -> Vec<u64> {
        let mut hashes = Vec::new();
        push_word_hashes(text, &mut hashes);
        words_to_runs(&mut hashes, self.ngram_words);
        hashes
    }
}

/// Pushes the hash of each run of `a` to `z` and `0` to `9` in the lower-cased text: the words of
/// [`NormalizedText`](corpus::NormalizedText).
fn push_word_hashes(text: &str, out: &mut Vec<u64>) {
    let bytes = text.as_bytes();
    let mut word = WordState::EMPTY;
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => word = word.absorb(byte),
            b'A'..=b'Z' => word = word.absorb(byte | 0x20),
            // The two characters beyond ASCII whose lower case has a letter of ASCII, by their first byte.
            0xC4 | 0xE2 => match text[at..].chars().next() {
                Some('\u{212A}') => word = word.absorb(b'k'),
                Some('\u{130}') => {
                    word = word.absorb(b'i');
                    word.end_word(out);
                }
                _ => word.end_word(out),
            },
            // A later byte of a character, the Kelvin sign among them, neither continues nor ends a word.
            0x80..0xC0 => {}
            _ => word.end_word(out),
        }
    }
    word.end_word(out);
}

#[cfg(test)]
mod tests {
    use corpus::NormalizedText;
    use proptest::prelude::*;

    use super::*;
    use crate::word_hash::hash_word;

    fn has_the_words_of_normalized_text(text: &str) -> bool {
        let mut found = Vec::new();
        push_word_hashes(text, &mut found);
        let normalized = NormalizedText::new(text);
        let words = normalized.joined().split(' ').filter(|word| !word.is_empty());
        found == words.map(|word| hash_word(word.bytes())).collect::<Vec<_>>()
    }

    #[test]
    fn only_two_characters_beyond_ascii_have_ascii_letters_in_lower_case() {
        for character in '\u{80}'..=char::MAX {
            assert!(has_the_words_of_normalized_text(&format!("a{character}b")), "{character:?}");
        }
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_comparison_proper(text in "([a-cA-C0-2]{1,3}|[ -~]|[İKßé“Ā-ſ]|\\PC){0,40}") {
            prop_assert!(has_the_words_of_normalized_text(&text));
        }
    }

    #[test]
    fn a_shared_n_gram_is_noticed() {
        let mut screen = Screen::new(3);
        screen.add("one two three four");
        assert!(screen.may_share("zero TWO, three\nfour five"));
        assert!(!screen.may_share("one two four three"));
        assert!(!screen.may_share("one two"));
        assert!(!screen.may_share(""));
    }
}
