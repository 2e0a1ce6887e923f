//! Cutting a text into the set of its word 5-grams.
//!
//! A *word* is a maximal run of Unicode letters, digits and underscores ([`char::is_alphanumeric`]
//! or `_`), lower-cased as [`str::to_lowercase`] does it. A *shingle* is a run of consecutive
//! words, five by default, held as a 64-bit hash; a text is compared by the sorted set of its
//! distinct shingles. A text of fewer words than a shingle has is one shingle as a whole, and a
//! text without words has none and so resembles nothing. Scripts that write no spaces make one long
//! word of a sentence, so near-duplicates in them are not found.
//!
//! The paper says only "Jaccard similarity greater than 0.7" and not of what; the tool that was
//! published with it used character 5-grams. Words are the usual reading since then, and five of
//! them make a chance match rare.
//!
//! Splitting text into words is the cost of the whole near-duplicate stage, so it happens once per
//! document, byte by byte through a table, without an allocation per word; only words with a
//! character beyond ASCII take a slower path.

use std::num::NonZeroUsize;

use crate::word_hash::{WordState, hash_short_text, hash_word, words_to_runs};

/// Entry of [`FOLD`] for an ASCII character that is no part of a word.
const SEPARATOR: u8 = 0;

/// Entry of [`FOLD`] for a byte of a character beyond ASCII.
const NOT_ASCII: u8 = 0xFF;

/// For each byte: itself in lower case where it is part of a word, else what it is instead.
const FOLD: [u8; 256] = {
    let mut fold = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        fold[byte] = match byte as u8 {
            b'A'..=b'Z' => byte as u8 | 0x20,
            b'a'..=b'z' | b'0'..=b'9' | b'_' => byte as u8,
            0x80.. => NOT_ASCII,
            _ => SEPARATOR,
        };
        byte += 1;
    }
    fold
};

/// Puts the sorted, distinct shingle hashes of `text` into `out`, whose former content is lost.
///
/// `shingle_words` is the number of words of one shingle. The result depends on nothing but the two
/// arguments.
pub fn shingles(text: &str, shingle_words: NonZeroUsize, out: &mut Vec<u64>) {
    out.clear();
    push_word_hashes(text, out);
    if (1..shingle_words.get()).contains(&out.len()) {
        let whole = hash_short_text(out);
        out.clear();
        out.push(whole);
    } else {
        words_to_runs(out, shingle_words.get());
    }
    out.sort_unstable();
    out.dedup();
}

/// Pushes the hash of each word of `text`, in order.
fn push_word_hashes(text: &str, out: &mut Vec<u64>) {
    let bytes = text.as_bytes();
    let mut state = WordState::EMPTY;
    let mut at = 0;
    while at < bytes.len() {
        match FOLD[usize::from(bytes[at])] {
            SEPARATOR => {
                out.extend(state.end_word());
                at += 1;
            }
            NOT_ASCII => {
                let character = text[at..].chars().next().expect("a text position before its end");
                if is_word_character(character) {
                    // All of this word before `at` is ASCII: else it would have come here earlier.
                    let before =
                        bytes[..at].iter().rev().take_while(|&&byte| is_ascii_word(byte)).count();
                    let word = leading_word(&text[at - before..]);
                    out.push(hash_of_lower_case(word));
                    state = WordState::EMPTY;
                    at += word.len() - before;
                } else {
                    out.extend(state.end_word());
                    at += character.len_utf8();
                }
            }
            folded => {
                state = state.absorb(folded);
                at += 1;
            }
        }
    }
    out.extend(state.end_word());
}

/// The hash of one word in any script: that of the bytes of `word.to_lowercase()`.
fn hash_of_lower_case(word: &str) -> u64 {
    // The one character whose lower case depends on its neighbors is the capital sigma.
    if word.contains('Σ') {
        return hash_word(word.to_lowercase().bytes());
    }
    let lower = word.chars().flat_map(char::to_lowercase);
    hash_word(lower.flat_map(|character| {
        let mut utf8 = [0; 4];
        let length = character.encode_utf8(&mut utf8).len();
        utf8.into_iter().take(length)
    }))
}

/// The word that `text` begins with.
fn leading_word(text: &str) -> &str {
    let end = text.find(|character| !is_word_character(character)).unwrap_or(text.len());
    &text[..end]
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn is_ascii_word(byte: u8) -> bool {
    !matches!(FOLD[usize::from(byte)], SEPARATOR | NOT_ASCII)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const FIVE: NonZeroUsize = NonZeroUsize::new(5).unwrap();

    fn shingle_set(text: &str) -> Vec<u64> {
        let mut out = vec![99];
        shingles(text, FIVE, &mut out);
        out
    }

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

    #[test]
    fn case_spacing_and_punctuation_do_not_matter() {
        let plain = shingle_set("the quick brown fox jumps over the lazy dog_7");
        assert_eq!(plain.len(), 5);
        assert_eq!(shingle_set("The QUICK, brown\nfox -- jumps “over” the (lazy) dog_7!"), plain);
    }

    #[test]
    fn short_texts_are_one_shingle_and_empty_ones_none() {
        assert_eq!(shingle_set("cat").len(), 1);
        assert_eq!(shingle_set("a b c d").len(), 1);
        assert_ne!(shingle_set("cat"), shingle_set("dog"));
        assert_ne!(shingle_set("a b c d"), shingle_set("a b c"));
        assert!(shingle_set("").is_empty());
        assert!(shingle_set(" \n — … !").is_empty());
    }

    #[test]
    fn repeated_shingles_count_once_and_order_is_ascending() {
        let set = shingle_set(&"a b c d e ".repeat(20));
        assert_eq!(set.len(), 5);
        assert!(set.is_sorted());
    }

    #[test]
    fn words_in_every_script_are_lower_cased_as_std_does() {
        // Sharp s, dotted capital I, the kelvin sign, final and inner sigma, a digit beyond ASCII,
        // a title-case digraph.
        let text = "STRASSE Straße İstanbul 300\u{212A} ΟΔΥΣΣΕΥΣ ΣΑΣ x٣ ǅ naïveté ÉTÉ_été";
        let expected: Vec<u64> =
            plain_words(text).iter().map(|word| hash_word(word.bytes())).collect();
        assert_eq!(word_hashes(text), expected);
        assert_eq!(word_hashes("ΟΔΥΣΣΕΥΣ"), word_hashes("οδυσσευς"));
        assert_eq!(word_hashes("\u{212A}"), word_hashes("k"));
    }

    proptest! {
        #[test]
        fn any_text_gives_the_distinct_windows_of_its_words(
            text in "([a-cA-C]{1,2}|[ -~]|[Σßé“À-ſ]|\\PC){0,60}",
        ) {
            let words = plain_words(&text);
            let expected: HashSet<Vec<String>> = if words.is_empty() {
                HashSet::new()
            } else if words.len() < 5 {
                HashSet::from([words.clone()])
            } else {
                words.windows(5).map(<[String]>::to_vec).collect()
            };
            prop_assert_eq!(shingle_set(&text).len(), expected.len());
            let expected_words: Vec<u64> =
                words.iter().map(|word| hash_word(word.bytes())).collect();
            prop_assert_eq!(word_hashes(&text), expected_words);
        }
    }
}
