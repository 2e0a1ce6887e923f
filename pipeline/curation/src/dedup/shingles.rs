//! Cutting a text into the set of its word 5-grams.
//!
//! A *word* is a maximal run of Unicode letters, digits and underscores ([`char::is_alphanumeric`] or `_`), lower-cased as
//! [`str::to_lowercase`] does it. A *shingle* is a run of consecutive words, five by default, held as a 64-bit hash; a
//! text is compared by the sorted set of its distinct shingles. A text of fewer words than a shingle has is one shingle
//! as a whole, and a text without words has none and so resembles nothing. Scripts that write no spaces make one long
//! word of a sentence, so near-duplicates in them are not found.
//!
//! The paper says only "Jaccard similarity greater than 0.7" and not of what; the tool that was published with it used
//! character 5-grams. Words are the usual reading since then, and five of them make a chance match rare.
//!
//! Splitting text into words is the cost of the whole near-duplicate stage, so it happens once per document, byte by byte
//! through a table, without an allocation per word; only words with a character beyond ASCII take a slower path.

use std::num::NonZeroUsize;

/// Multiplier of the word hash and of the polynomial over word hashes; `K ≡ 3 mod 8`, so that exchanging two words of a
/// shingle loses at most four of the 64 bits that tell the two apart.
const K: u64 = 0x9E37_79B9_7F4A_7C13;

/// Hash state of a word without letters, which no word has.
const NO_WORD: u64 = 0x27D4_EB2F_1656_67C5;

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
/// `shingle_words` is the number of words of one shingle. The result depends on nothing but the two arguments.
pub fn shingles(text: &str, shingle_words: NonZeroUsize, out: &mut Vec<u64>) {
    out.clear();
    push_word_hashes(text, out);
    words_to_shingles(out, shingle_words.get());
    out.sort_unstable();
    out.dedup();
}

/// Replaces word hashes, in text order, by the hashes of the shingles that start at each of them.
fn words_to_shingles(hashes: &mut Vec<u64>, shingle_words: usize) {
    if hashes.is_empty() {
        return;
    }
    if hashes.len() < shingle_words {
        // Begins with the number of words, where a full shingle begins with 0.
        let whole = hashes.iter().fold(hashes.len() as u64, |sum, &word| append(sum, word));
        hashes.clear();
        hashes.push(mix(whole));
        return;
    }

    // A polynomial in K over the words, rolled from one shingle to the next: the word that leaves was multiplied by
    // K^(shingle_words - 1). Each hash is overwritten once the last shingle that needs it is made.
    let leaving_factor = (1..shingle_words).fold(1_u64, |power, _| power.wrapping_mul(K));
    let mut rolling = hashes[..shingle_words - 1].iter().fold(0, |sum, &word| append(sum, word));
    let num_shingles = hashes.len() - shingle_words + 1;
    for first in 0..num_shingles {
        let leaving = hashes[first];
        rolling = append(rolling, hashes[first + shingle_words - 1]);
        hashes[first] = mix(rolling);
        rolling = rolling.wrapping_sub(leaving.wrapping_mul(leaving_factor));
    }
    hashes.truncate(num_shingles);
}

/// Pushes the hash of each word of `text`, in order.
fn push_word_hashes(text: &str, out: &mut Vec<u64>) {
    let bytes = text.as_bytes();
    let mut state = NO_WORD;
    let mut at = 0;
    while at < bytes.len() {
        let folded = FOLD[usize::from(bytes[at])];
        if folded != SEPARATOR && folded != NOT_ASCII {
            state = absorb(state, folded);
            at += 1;
            continue;
        }
        if folded == NOT_ASCII {
            let character = text[at..].chars().next().expect("a text position before its end");
            if is_word_character(character) {
                // All of this word before `at` is ASCII: else it would have come here earlier.
                let before =
                    bytes[..at].iter().rev().take_while(|&&byte| is_ascii_word(byte)).count();
                let word = leading_word(&text[at - before..]);
                out.push(hash_word(word));
                state = NO_WORD;
                at += word.len() - before;
                continue;
            }
            at += character.len_utf8();
        } else {
            at += 1;
        }
        if state != NO_WORD {
            out.push(mix(state));
            state = NO_WORD;
        }
    }
    if state != NO_WORD {
        out.push(mix(state));
    }
}

/// The hash of one word in any script: that of the bytes of `word.to_lowercase()`.
fn hash_word(word: &str) -> u64 {
    // The one character whose lower case depends on its neighbors is the capital sigma.
    if word.contains('Σ') {
        return mix(word.to_lowercase().bytes().fold(NO_WORD, absorb));
    }
    let mut utf8 = [0; 4];
    let mut state = NO_WORD;
    for character in word.chars().flat_map(char::to_lowercase) {
        state = character.encode_utf8(&mut utf8).bytes().fold(state, absorb);
    }
    mix(state)
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

/// Adds a byte to a word's hash state.
fn absorb(state: u64, byte: u8) -> u64 {
    (state ^ u64::from(byte)).wrapping_mul(K)
}

/// Adds a word's hash to a shingle's polynomial.
fn append(sum: u64, word: u64) -> u64 {
    sum.wrapping_mul(K).wrapping_add(word)
}

/// Spreads every bit of `value` over all 64: the finalizer of MurmurHash3.
pub(super) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    value = (value ^ (value >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    value ^ (value >> 33)
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
        // Sharp s, dotted capital I, the kelvin sign, final and inner sigma, a digit beyond ASCII, a title-case digraph.
        let text = "STRASSE Straße İstanbul 300\u{212A} ΟΔΥΣΣΕΥΣ ΣΑΣ x٣ ǅ naïveté ÉTÉ_été";
        let expected: Vec<u64> =
            plain_words(text).iter().map(|word| mix(word.bytes().fold(NO_WORD, absorb))).collect();
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
                words.iter().map(|word| mix(word.bytes().fold(NO_WORD, absorb))).collect();
            prop_assert_eq!(word_hashes(&text), expected_words);
        }
    }
}
