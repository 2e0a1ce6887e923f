//! The words of [`NormalizedText`](super::NormalizedText) as hashes, fast: where they stand, without
//! a copy of them.
//!
//! The text is looked at 64 bytes at a time ([`ByteClasses`]): the bits of letters and digits give
//! the first and last bytes of words without a branch for each byte. That is all where no character
//! beyond ASCII has a letter of ASCII in lower case; two have, and a text with one of them is read
//! byte by byte.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::byte_classes::ByteClasses;
use crate::word_hash::hash_ascii_word;

/// İ, whose lower case is an i and a combining dot, and the Kelvin sign, whose lower case is k: the
/// only characters beyond ASCII that have an ASCII letter in lower case.
const WITH_ASCII_LETTER: [&str; 2] = ["\u{130}", "\u{212A}"];

/// Hands the hash of each word of `text`, and where it stands in bytes of the text, to `take`: the
/// runs of `a` to `z` and `0` to `9` in the lower-cased text, in order.
pub fn for_each_word(text: &str, take: impl FnMut(u64, Range<usize>)) {
    static FINDERS: LazyLock<[Finder<'static>; 2]> =
        LazyLock::new(|| WITH_ASCII_LETTER.map(Finder::new));
    if FINDERS.iter().any(|finder| finder.find(text.as_bytes()).is_some()) {
        for_each_word_by_bytes(text, take);
    } else {
        for_each_word_by_blocks(text.as_bytes(), take);
    }
}

/// The words of a text in which they are the runs of ASCII letters and digits.
#[inline]
fn for_each_word_by_blocks(text: &[u8], mut take: impl FnMut(u64, Range<usize>)) {
    let mut take_word = |start, end| take(hash_ascii_word(text, start, end), start..end);
    let mut open = None;
    let (blocks, tail) = text.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        open = take_ending_in(64 * number, block, open, &mut take_word);
    }
    // The last block is filled up with zeros, which end a word.
    let mut last = [0; 64];
    last[..tail.len()].copy_from_slice(tail);
    take_ending_in(64 * blocks.len(), &last, open, &mut take_word);
}

/// Takes the words that end in the block at `base`, of which the first may begin before it at
/// `open`; returns where one begins that reaches its end.
#[inline]
fn take_ending_in(
    base: usize,
    block: &[u8; 64],
    open: Option<usize>,
    take: &mut impl FnMut(usize, usize),
) -> Option<usize> {
    let runs = ByteClasses::of(block).alphanumeric;
    let after_run = runs << 1 | u64::from(open.is_some());
    let (mut starts, mut ends) = (runs & !after_run, !runs & after_run);
    let mut start = open.unwrap_or_else(|| take_first(&mut starts, base));
    while ends != 0 {
        take(start, take_first(&mut ends, base));
        start = take_first(&mut starts, base);
    }
    (runs >> 63 == 1).then_some(start)
}

/// Takes the lowest bit out and returns its place; anything where there is none.
#[inline]
fn take_first(bits: &mut u64, base: usize) -> usize {
    let place = base + bits.trailing_zeros() as usize;
    *bits &= bits.wrapping_sub(1);
    place
}

/// The words of any text.
#[cold]
fn for_each_word_by_bytes(text: &str, mut take: impl FnMut(u64, Range<usize>)) {
    let (mut word, mut start) = (Vec::new(), 0);
    let mut end_at = |word: &mut Vec<u8>, span: Range<usize>| {
        if !word.is_empty() {
            take(hash_ascii_word(word, 0, word.len()), span);
            word.clear();
        }
    };
    for (at, character) in text.char_indices() {
        let letter = match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Some(character.to_ascii_lowercase() as u8),
            '\u{212A}' => Some(b'k'),
            '\u{130}' => Some(b'i'),
            _ => None,
        };
        let Some(letter) = letter else {
            end_at(&mut word, start..at);
            continue;
        };
        if word.is_empty() {
            start = at;
        }
        word.push(letter);
        if character == '\u{130}' {
            end_at(&mut word, start..at + character.len_utf8());
        }
    }
    end_at(&mut word, start..text.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::NormalizedText;

    fn has_the_words_of_normalized_text(text: &str) -> bool {
        let mut found = Vec::new();
        for_each_word(text, |hash, span| found.push((hash, span)));
        let normalized = NormalizedText::new(text);
        let words = normalized.joined().split(' ').filter(|word| !word.is_empty());
        let spans = normalized.ngrams(1).map(|word| word.span);
        let hash = |word: &str| hash_ascii_word(word.as_bytes(), 0, word.len());
        found == words.map(hash).zip(spans).collect::<Vec<_>>()
    }

    #[test]
    fn only_two_characters_beyond_ascii_have_ascii_letters_in_lower_case() {
        for character in '\u{80}'..=char::MAX {
            assert!(has_the_words_of_normalized_text(&format!("a{character}b")), "{character:?}");
        }
    }

    #[test]
    fn words_are_found_at_and_across_the_ends_of_blocks() {
        for before in 0..70 {
            for length in [1, 2, 8, 15, 16, 17, 63, 64, 65, 200] {
                let text =
                    format!("{}{}!", " ".repeat(before), "aB3".repeat(70)[..length].to_owned());
                assert!(has_the_words_of_normalized_text(&text), "{before} {length}");
            }
        }
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_comparison_proper(
            text in "([a-cA-C0-2]{1,3}|[ -~]|[İKßé“Ā-ſ]|\\PC){0,60}",
        ) {
            prop_assert!(has_the_words_of_normalized_text(&text));
        }
    }
}
