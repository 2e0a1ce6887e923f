//! The words of a text as hashes: the cost of the whole near-duplicate stage, and so made to be
//! fast.
//!
//! A *word* is a maximal run of Unicode letters, digits and underscores ([`char::is_alphanumeric`]
//! or `_`), lower-cased as [`str::to_lowercase`] does it.
//!
//! The text is looked at 64 bytes at a time ([`ByteClasses`]): the bits of words give their first
//! and last bytes without a branch for each byte. A word of up to 16 bytes is then hashed at once,
//! by one multiplication of its two halves. For the bytes of ASCII words, setting one bit is the
//! lower case: it makes `A` to `Z` small, is set in digits and small letters already, and gives `_`
//! a value that no other of them has. Only words with a character beyond ASCII take a slower path.

use corpus::{ByteClasses, hash_ascii_word, hash_lower_case_word};

/// Pushes the hash of each word of `text`, in order.
pub(super) fn push_word_hashes(text: &str, out: &mut Vec<u64>) {
    let mut words = Words { text, out, lower: Vec::new() };
    let (blocks, tail) = text.as_bytes().as_chunks::<64>();
    let mut open = OpenRun::default();
    for (number, block) in blocks.iter().enumerate() {
        words.push_ending_in(64 * number, ByteClasses::of(block), &mut open);
    }
    // The last block is filled up with zeros, which end a word.
    let mut last = [0; 64];
    last[..tail.len()].copy_from_slice(tail);
    words.push_ending_in(64 * blocks.len(), ByteClasses::of(&last), &mut open);
}

/// A run of word characters and characters beyond ASCII that reaches into the next block.
#[derive(Default)]
struct OpenRun {
    /// Whether there is one.
    is_open: bool,
    start: usize,
    /// Whether it may hold characters beyond ASCII.
    beyond_ascii: bool,
}

struct Words<'a> {
    text: &'a str,
    out: &'a mut Vec<u64>,
    /// Buffer for a word in lower case.
    lower: Vec<u8>,
}

impl Words<'_> {
    /// Pushes the words of all runs that end in the block at `base`.
    #[inline]
    fn push_ending_in(&mut self, base: usize, classes: ByteClasses, open: &mut OpenRun) {
        let runs = classes.alphanumeric | classes.underscore | classes.beyond_ascii;
        let after_run = runs << 1 | u64::from(open.is_open);
        let (mut starts, mut ends) = (runs & !after_run, !runs & after_run);
        let beyond_ascii = classes.beyond_ascii != 0 || open.is_open && open.beyond_ascii;
        let mut start = open.start;
        if !open.is_open {
            start = take_first(&mut starts, base);
        }
        while ends != 0 {
            let end = take_first(&mut ends, base);
            if beyond_ascii && !self.text.as_bytes()[start..end].is_ascii() {
                self.push_words_of_run(start, end);
            } else {
                self.out.push(hash_ascii_word(self.text.as_bytes(), start, end));
            }
            start = take_first(&mut starts, base);
        }
        *open = OpenRun { is_open: runs >> 63 == 1, start, beyond_ascii };
    }

    /// Pushes the words of a run that has characters beyond ASCII.
    #[cold]
    fn push_words_of_run(&mut self, start: usize, end: usize) {
        let words = self.text[start..end].split(|character| !is_word_character(character));
        for word in words.filter(|word| !word.is_empty()) {
            let hash = if word.is_ascii() {
                hash_ascii_word(word.as_bytes(), 0, word.len())
            } else {
                lower_case(word, &mut self.lower);
                hash_lower_case_word(&self.lower)
            };
            self.out.push(hash);
        }
    }
}

/// Takes the lowest bit out and returns its place; anything where there is none.
#[inline]
fn take_first(bits: &mut u64, base: usize) -> usize {
    let place = base + bits.trailing_zeros() as usize;
    *bits &= bits.wrapping_sub(1);
    place
}

/// Overwrites `out` with the lower case of a word.
fn lower_case(word: &str, out: &mut Vec<u8>) {
    out.clear();
    // The one character whose lower case depends on its neighbors is the capital sigma.
    if word.contains('Σ') {
        out.extend_from_slice(word.to_lowercase().as_bytes());
        return;
    }
    let mut push = |character: char| {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    for character in word.chars() {
        if is_common_lower_case(character) {
            push(character);
        } else {
            character.to_lowercase().for_each(&mut push);
        }
    }
}

fn is_word_character(character: char) -> bool {
    is_common_lower_case(character) || character.is_alphanumeric() || character == '_'
}

/// Whether this is one of the frequent letters beyond ASCII that are their own lower case; for the
/// others, `char`'s methods search their tables.
fn is_common_lower_case(character: char) -> bool {
    // Latin-1, Greek, Cyrillic, kana, Chinese characters, Hangul.
    matches!(character, 'ß'..='ö' | 'ø'..='ÿ' | 'ά'..='ώ' | 'а'..='џ')
        || matches!(character, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '一'..='鿿' | '가'..='힣')
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Words by the definition: split, then lower-case each.
    fn plain_words(text: &str) -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    }

    fn word_hashes(text: &str) -> Vec<u64> {
        let mut out = Vec::new();
        push_word_hashes(text, &mut out);
        out
    }

    fn hashes_of_plain_words(text: &str) -> Vec<u64> {
        plain_words(text).iter().map(|word| hash_lower_case_word(word.as_bytes())).collect()
    }

    #[test]
    fn words_in_every_script_are_lower_cased_as_std_does() {
        // Sharp s, dotted capital I, the kelvin sign, final and inner sigma, a digit beyond ASCII,
        // a title-case digraph.
        let text = "STRASSE Straße İstanbul 300\u{212A} ΟΔΥΣΣΕΥΣ ΣΑΣ x٣ ǅ naïveté ÉTÉ_été";
        assert_eq!(word_hashes(text), hashes_of_plain_words(text));
        assert_eq!(word_hashes("ΟΔΥΣΣΕΥΣ"), word_hashes("οδυσσευς"));
        assert_eq!(word_hashes("\u{212A}"), word_hashes("k"));
    }

    #[test]
    fn common_letters_are_letters_in_lower_case() {
        let common = ('\0'..=char::MAX).filter(|&character| is_common_lower_case(character));
        assert!(common.clone().count() > 32_000);
        for character in common {
            assert!(character.is_alphanumeric(), "{character}");
            assert!(character.to_lowercase().eq([character]), "{character}");
        }
    }

    #[test]
    fn words_of_any_length_are_found_at_any_place_of_a_block() {
        for length in (1..70).chain([127, 128, 129, 1_000]) {
            for before in 0..66 {
                let word = "Ab3_".repeat(length)[..length].to_owned();
                let text = format!("{}{word}, x {word}", " ".repeat(before));
                let expected = hashes_of_plain_words(&text);
                assert_eq!(expected.len(), 3);
                assert_eq!(word_hashes(&text), expected, "{length} at {before}");
            }
        }
    }

    #[test]
    fn different_words_have_different_hashes() {
        let mut seen: HashMap<u64, String> = HashMap::new();
        let letters = "ab_0é";
        let short = (0..5_usize.pow(6)).map(|mut number| {
            let mut word = String::new();
            while number > 0 {
                word.extend(letters.chars().nth(number % 5));
                number /= 5;
            }
            word
        });
        let long = (1..200).flat_map(|length| ["a", "b", "_", "\u{80}"].map(|c| c.repeat(length)));
        for word in short.chain(long) {
            let hash = hash_lower_case_word(word.as_bytes());
            if let Some(other) = seen.insert(hash, word.clone()) {
                assert_eq!(other, word);
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_the_hashes_of_its_words(
            text in "([a-cA-C]{1,2}|[a-z]{1,30}|[ -~]|[Σßé“À-ſ]|\\PC){0,60}",
        ) {
            prop_assert_eq!(word_hashes(&text), hashes_of_plain_words(&text));
        }
    }
}
