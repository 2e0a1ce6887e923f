//! GPT-2's byte-level BPE.
//!
//! The vocabulary in `assets/` is a list of byte strings in the order in which they were merged:
//! the rank of a byte string is its token. The list of merges that `tokenizers` wants is not
//! stored, for it follows from the ranks: the two parts of a token are what encoding its bytes with
//! only earlier tokens leaves.
//!
//! Source: Radford et al., *Language Models are Unsupervised Multitask Learners* (2019), section
//! 2.2.

use std::collections::BTreeMap;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::models::bpe::{BpeConfig, Merges, PipelineBPE};
use tokenizers::pipeline::{
    EncodeOptions, NormalizerChain, PipelineModel, PipelinePostProcessor, PipelinePreTokenizer,
    PipelineTokenizer,
};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::vocab::bucket_added_vocabulary::{AddedToken, AddedVocabulary};

use super::{Tokenizer, before_white_space, fingerprint_of, pieces, plain_encoding};

/// Name by which the tokenizer is opened.
pub(super) const NAME: &str = "gpt2";

/// One line per token, in order: its bytes in base64, a space, its rank.
const RANKS: &str = include_str!("../../assets/r50k_base.tiktoken");

/// The only special token. It ends documents, and has the rank after the last.
const END_OF_TEXT: &str = "<|endoftext|>";

/// The pattern that cuts text into the pieces within which bytes are merged.
const PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Text is encoded in pieces of about this many bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Longest piece without a place to cut, in bytes; half a second of work. A single word longer than
/// this is cut by force, and the tokens at the cut may then differ from the reference's.
const PIECE_LIMIT_BYTES: usize = 1 << 21;

/// GPT-2's tokenizer: 50,257 tokens.
///
/// ```
/// use corpus::tokenizer::{Gpt2Tokenizer, Tokenizer};
///
/// let tokenizer = Gpt2Tokenizer::new();
/// let mut tokens = Vec::new();
/// tokenizer.encode("Hello world", &mut tokens);
/// assert_eq!(tokens, [15496, 995]);
/// assert_eq!(tokenizer.decode(&tokens), "Hello world");
/// ```
pub struct Gpt2Tokenizer {
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    eod: u32,
}

impl Gpt2Tokenizer {
    /// Builds the tokenizer from the vocabulary in this crate, which takes about a tenth of a
    /// second: share one.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the vocabulary is part of the crate, and tested"
    )]
    pub fn new() -> Self {
        let ranks = ranked_tokens();
        let eod = ranks.len() as u32;
        let model = PipelineBPE::from_config(BpeConfig {
            vocab: ranks.iter().zip(0..).map(|(bytes, rank)| (spell(bytes), rank)).collect(),
            merges: merges(&ranks),
            byte_level: true,
            ..BpeConfig::default()
        })
        .expect("the ranks in the crate form a complete byte-level vocabulary");
        let split = Split::native(
            SplitPattern::Regex(PATTERN.to_owned()),
            SplitDelimiterBehavior::Isolated,
            false,
        )
        .expect("GPT-2's pattern is one that the crate has built in");
        let mut added = AddedVocabulary::new();
        added
            .add_tokens(
                [AddedToken::from(END_OF_TEXT, true)],
                ranks.len(),
                |_| None,
                None::<&NormalizerChain<'_>>,
            )
            .expect("a single token of plain letters can be added");
        let pipeline = PipelineTokenizer::from_parts(
            added,
            Vec::new(),
            PipelinePreTokenizer::Split(split),
            PipelineModel::BPE(model),
            PipelinePostProcessor::default(),
            None,
            BTreeMap::new(),
            None,
            None,
        );
        Self { pipeline, options: plain_encoding(), eod }
    }
}

impl Default for Gpt2Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokenizer for Gpt2Tokenizer {
    fn name(&self) -> &str {
        NAME
    }

    fn vocab_size(&self) -> usize {
        self.eod as usize + 1
    }

    fn eod(&self) -> u32 {
        self.eod
    }

    fn fingerprint(&self) -> String {
        fingerprint_of(RANKS.as_bytes())
    }

    fn parts<'t>(&self, text: &'t str) -> Box<dyn Iterator<Item = &'t str> + 't> {
        Box::new(pieces(text, PIECE_BYTES, PIECE_LIMIT_BYTES, begins_pre_token))
    }

    fn encode(&self, text: &str, out: &mut Vec<u32>) {
        super::encode_pieces(&self.pipeline, &self.options, self.parts(text), out);
    }

    fn decode(&self, ids: &[u32]) -> String {
        super::decode(&self.pipeline, self.vocab_size(), ids)
    }
}

/// Before white space, and after a letter where no letter follows: in [`PATTERN`] letters are
/// followed by letters only. Asked of ASCII alone, which finds a place in all but a single word of
/// another script.
fn begins_pre_token(last: char, next: char) -> bool {
    let ends_letters =
        last.is_ascii_alphabetic() && (next.is_ascii_digit() || next.is_ascii_punctuation());
    ends_letters || before_white_space(last, next)
}

/// The bytes of every token, by rank.
pub(super) fn ranked_tokens() -> Vec<Vec<u8>> {
    RANKS
        .lines()
        .map(|line| {
            let (bytes, _rank) = line.split_once(' ').expect("a line is bytes, a space, a rank");
            STANDARD.decode(bytes).expect("the bytes of a token are in base64")
        })
        .collect()
}

/// Pairs of tokens, spelled, in the order in which they are merged.
pub(super) fn merges(ranks: &[Vec<u8>]) -> Merges {
    let rank_of: HashMap<&[u8], usize> = ranks.iter().map(Vec::as_slice).zip(0..).collect();
    ranks
        .iter()
        .enumerate()
        .filter(|(_, bytes)| bytes.len() > 1)
        .map(|(rank, bytes)| {
            let (left, right) = parts(bytes, rank, &rank_of);
            (spell(left), spell(right))
        })
        .collect()
}

/// The two tokens that were merged into the one of this rank.
fn parts<'b>(
    bytes: &'b [u8],
    rank: usize,
    rank_of: &HashMap<&[u8], usize>,
) -> (&'b [u8], &'b [u8]) {
    // Boundaries of the symbols; merging removes the one between the pair of the lowest rank.
    let mut ends: Vec<usize> = (0..=bytes.len()).collect();
    while ends.len() > 3 {
        let lowest = ends
            .windows(3)
            .enumerate()
            .filter_map(|(index, pair)| Some((*rank_of.get(&bytes[pair[0]..pair[2]])?, index)))
            .filter(|&(merged, _)| merged < rank)
            .min()
            .expect("a token of three symbols holds a pair that was merged before it");
        ends.remove(lowest.1 + 1);
    }
    bytes.split_at(ends[1])
}

/// A token in the alphabet in which byte-level vocabularies are written: printable bytes stand for
/// themselves, the others, in order, for the characters from U+0100 on.
pub(super) fn spell(bytes: &[u8]) -> String {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    bytes
        .iter()
        .map(|&byte| {
            if is_printable(byte) {
                return char::from(byte);
            }
            let before = (0..byte).filter(|&other| !is_printable(other)).count() as u32;
            char::from_u32(0x100 + before).expect("U+0100 and its successors are characters")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rayon::prelude::*;

    use super::*;

    fn encoded(tokenizer: &Gpt2Tokenizer, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        tokenizer.encode(text, &mut tokens);
        tokens
    }

    #[test]
    fn known_texts_have_known_tokens() {
        let tokenizer = Gpt2Tokenizer::new();
        assert_eq!((tokenizer.vocab_size(), tokenizer.eod()), (50257, 50256));
        // Values of the original encoder, through tiktoken's r50k_base.
        for (text, tokens) in KNOWN {
            assert_eq!(encoded(&tokenizer, text), *tokens, "{text:?}");
            assert_eq!(tokenizer.decode(tokens), *text);
        }
    }

    const KNOWN: &[(&str, &[u32])] = &[
        ("", &[]),
        ("Hello world", &[15496, 995]),
        ("Hello, I'm a language model,", &[15496, 11, 314, 1101, 257, 3303, 2746, 11]),
        (" \n\n  a", &[220, 628, 220, 257]),
    ];

    #[test]
    fn names_of_special_tokens_in_text_are_text() {
        let tokenizer = Gpt2Tokenizer::new();
        let tokens = encoded(&tokenizer, "a<|endoftext|>b");
        assert!(!tokens.contains(&tokenizer.eod()), "{tokens:?}");
        assert_eq!(tokenizer.decode(&tokens), "a<|endoftext|>b");
        assert_eq!(tokenizer.decode(&[tokenizer.eod()]), "<|endoftext|>");
    }

    #[test]
    fn tokens_outside_the_vocabulary_decode_to_the_replacement_character() {
        assert_eq!(
            Gpt2Tokenizer::new().decode(&[15496, 50257, 995, u32::MAX]),
            "Hello\u{fffd} world\u{fffd}"
        );
    }

    #[test]
    fn any_pieces_have_the_tokens_of_the_whole() {
        let tokenizer = Gpt2Tokenizer::new();
        proptest!(|(
            text in "([a-zA-Z]{1,3}|[0-9]|[ \\n\\t]|'(s|re|ll|d|x)|[!-/]|\\PC){0,60}",
            bytes in 1..20_usize,
        )| {
            let mut tokens = Vec::new();
            for piece in pieces(&text, bytes, PIECE_LIMIT_BYTES, begins_pre_token) {
                tokenizer.encode(piece, &mut tokens);
            }
            prop_assert_eq!(tokens, encoded(&tokenizer, &text));
        });
    }

    #[test]
    fn long_text_without_spaces_is_cut_where_letters_end() {
        let text = "Zm9vYmFy+/".repeat(500_000);
        let parts: Vec<&str> = Gpt2Tokenizer::new().parts(&text).map(|part| &part[..1]).collect();
        assert_eq!(parts.len(), 5);
        assert!(parts[1..].iter().all(|first| "9+".contains(first)), "{parts:?}");
    }

    #[test]
    fn pieces_do_not_change_tokens() {
        let tokenizer = Gpt2Tokenizer::new();
        let text = "It's   a test,\n\n with 1234 numbers… and  spaces   \u{3000}ü ".repeat(9);
        let whole = encoded(&tokenizer, &text);
        for bytes in 1..200 {
            let mut tokens = Vec::new();
            for piece in pieces(&text, bytes, PIECE_LIMIT_BYTES, begins_pre_token) {
                tokenizer.encode(piece, &mut tokens);
            }
            assert_eq!(tokens, whole, "pieces of {bytes} bytes");
        }
    }

    #[test]
    fn threads_share_one_tokenizer() {
        let tokenizer = Gpt2Tokenizer::new();
        let texts: Vec<String> =
            (0..500).map(|n| format!("Text {n} about {} things.", n * n)).collect();
        let alone: Vec<_> = texts.iter().map(|text| encoded(&tokenizer, text)).collect();
        let shared: Vec<_> = texts.par_iter().map(|text| encoded(&tokenizer, text)).collect();
        assert_eq!(shared, alone);
    }

    #[test]
    fn any_text_decodes_to_itself() {
        let tokenizer = Gpt2Tokenizer::new();
        proptest!(|(text in any::<String>())| {
            let tokens = encoded(&tokenizer, &text);
            prop_assert!(tokens.iter().all(|&token| token < tokenizer.eod()));
            prop_assert_eq!(tokenizer.decode(&tokens), text);
        });
    }
}
