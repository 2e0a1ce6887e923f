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

use super::pieces::{Piece, pieces};
use super::{
    EncodeScratch, Encoded, Encoder, Sink, Tokenizer, fingerprint_of, plain_encoding, words,
};
use crate::CorpusError;

/// Name by which the tokenizer is opened.
pub(super) const NAME: &str = "gpt2";

/// One line per token, in order: its bytes in base64, a space, its rank.
const RANKS: &str = include_str!("../../assets/r50k_base.tiktoken");

/// The only special token. It ends documents, and has the rank after the last.
pub(super) const END_OF_TEXT: &str = "<|endoftext|>";

/// The pattern that cuts text into the pieces within which bytes are merged.
const PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Text is encoded in pieces of about this many bytes.
const PIECE_BYTES: usize = 1 << 18;

/// Longest piece without a place to cut, in bytes; half a second of work at the worst, which is a
/// megabyte of digits. The working memory is some 60 bytes for each.
const PIECE_LIMIT_BYTES: usize = 1 << 20;

/// GPT-2's tokenizer: 50,257 tokens.
///
/// ```
/// # fn main() -> Result<(), corpus::CorpusError> {
/// use corpus::tokenizer::{Gpt2Tokenizer, Tokenizer};
///
/// let tokenizer = Gpt2Tokenizer::new();
/// let mut tokens = Vec::new();
/// tokenizer.encode("Hello world", &mut tokens)?;
/// assert_eq!(tokens, [15496, 995]);
/// assert_eq!(tokenizer.decode(&tokens), "Hello world");
/// # Ok(())
/// # }
/// ```
pub struct Gpt2Tokenizer {
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    eod: u32,
    neighbors: NeighborBytes,
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
        Self { pipeline, options: plain_encoding(), eod, neighbors: NeighborBytes::of(&ranks) }
    }

    /// `text` in pieces of about `bytes`, and of at most `limit`.
    fn pieces<'t>(
        &'t self,
        text: &'t str,
        bytes: usize,
        limit: usize,
    ) -> impl Iterator<Item = Piece<'t>> {
        pieces(text, bytes, limit, |last, next| self.may_cut(last, next))
    }

    /// Whether no token changes where text is cut between these two characters.
    ///
    /// Before white space, and after a letter where no letter follows, [`PATTERN`] begins a new
    /// pre-token. Elsewhere in a word, or between two, it reads what follows the cut as it would
    /// have read it, unless that begins with an apostrophe, or it would have looked past white
    /// space; and the word's parts have the word's tokens where none lies across the cut.
    fn may_cut(&self, last: char, next: char) -> bool {
        if last.is_whitespace() {
            return false;
        }
        let ends_letters =
            last.is_ascii_alphabetic() && (next.is_ascii_digit() || next.is_ascii_punctuation());
        next.is_whitespace() || ends_letters || (next != '\'' && !self.neighbors.meet(last, next))
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

    fn encode_to(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        let pieces = self.pieces(text, PIECE_BYTES, PIECE_LIMIT_BYTES);
        let encoder = Encoder { name: NAME, pipeline: &self.pipeline, options: &self.options };
        encoder.encode(pieces, scratch, sink)
    }

    fn surely_has(&self, text: &str, tokens: usize) -> bool {
        words::has_pre_tokens(text, tokens)
    }

    fn decode(&self, ids: &[u32]) -> String {
        super::decode(&self.pipeline, self.vocab_size(), ids)
    }
}

/// Every token in order, in the spelling of byte-level vocabularies, and the merges in order.
pub(super) fn spelled() -> (Vec<String>, Merges) {
    let ranks = ranked_tokens();
    let tokens = ranks.iter().map(|bytes| spell(bytes)).chain([END_OF_TEXT.to_owned()]);
    (tokens.collect(), merges(&ranks))
}

/// Pairs of bytes that stand side by side in some token. Between two bytes that do not, nothing is
/// ever merged.
struct NeighborBytes(Box<[[bool; 256]; 256]>);

impl NeighborBytes {
    fn of(tokens: &[Vec<u8>]) -> Self {
        let mut pairs = Box::new([[false; 256]; 256]);
        for pair in tokens.iter().flat_map(|token| token.windows(2)) {
            pairs[usize::from(pair[0])][usize::from(pair[1])] = true;
        }
        Self(pairs)
    }

    /// Whether a token can hold the end of `left` and the beginning of `right`.
    fn meet(&self, left: char, right: char) -> bool {
        let mut buffer = [0; 4];
        let last = *left.encode_utf8(&mut buffer).as_bytes().last().expect("a character has bytes");
        let first = right.encode_utf8(&mut buffer).as_bytes()[0];
        self.0[usize::from(last)][usize::from(first)]
    }
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
    use std::ops::ControlFlow;

    use proptest::prelude::*;
    use rayon::prelude::*;

    use super::*;

    fn encoded(tokenizer: &Gpt2Tokenizer, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        tokenizer.encode(text, &mut tokens).unwrap();
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

    /// The tokens of `text`, encoded in pieces of about `bytes` that are never cut by force.
    fn encoded_in_pieces(tokenizer: &Gpt2Tokenizer, text: &str, bytes: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        for piece in tokenizer.pieces(text, bytes, usize::MAX) {
            tokenizer.encode(piece.text, &mut tokens).unwrap();
        }
        tokens
    }

    #[test]
    fn any_pieces_have_the_tokens_of_the_whole() {
        let tokenizer = Gpt2Tokenizer::new();
        let config = ProptestConfig::with_cases(500);
        proptest!(config, |(
            text in "([a-zA-Z]{1,9}|[0-9]|[ \\n\\t]|'(s|re|ll|d|x)|[!-/]{1,3}|[一-鿿]{1,3}|\\PC|\\pC){0,40}",
            bytes in 1..20_usize,
        )| {
            prop_assert_eq!(
                encoded_in_pieces(&tokenizer, &text, bytes),
                encoded(&tokenizer, &text)
            );
        });
    }

    #[test]
    fn pieces_do_not_change_tokens() {
        let tokenizer = Gpt2Tokenizer::new();
        let text = "It's   a test,\n\n with 1234 numbers… and  spaces   \u{3000}ü ".repeat(9);
        let whole = encoded(&tokenizer, &text);
        for bytes in 1..200 {
            assert_eq!(encoded_in_pieces(&tokenizer, &text, bytes), whole, "{bytes} bytes");
        }
    }

    /// What comes of encoding `text`, whose pieces decode to it.
    fn outcome(tokenizer: &Gpt2Tokenizer, text: &str) -> Encoded {
        let mut tokens = Vec::new();
        let encoded = tokenizer
            .encode_to(text, &mut EncodeScratch::default(), &mut |piece| {
                assert!(piece.len() <= PIECE_LIMIT_BYTES);
                tokens.extend_from_slice(piece);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(encoded.tokens, tokens.len());
        assert!(tokenizer.decode(&tokens) == text);
        encoded
    }

    #[test]
    fn long_words_are_cut_where_no_token_can_lie() {
        let tokenizer = Gpt2Tokenizer::new();
        let mut state = 1_u64;
        let mut draw = |choices: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % choices
        };
        let letters: String = (0..3 << 20).map(|_| char::from(b'a' + draw(26) as u8)).collect();
        let ideographs: String =
            (0..1 << 20).map(|_| char::from_u32(0x4e00 + draw(0x5000) as u32).unwrap()).collect();
        let base64 = "Zm9vYmFy+/".repeat(300_000);
        for text in [letters, ideographs, base64] {
            assert_eq!(outcome(&tokenizer, &text).cut_words, 0, "{}", &text[..12]);
        }
    }

    #[test]
    fn words_without_a_place_to_cut_are_cut_by_force_and_told() {
        let tokenizer = Gpt2Tokenizer::new();
        let whole = outcome(&tokenizer, &format!("a {}", "x".repeat(PIECE_LIMIT_BYTES - 2)));
        assert_eq!((whole.cut_words, whole.first_cut), (0, None));
        let text = format!("some words {} and {}", "7".repeat(3 << 20), "7".repeat(2 << 20));
        let cut = outcome(&tokenizer, &text);
        assert_eq!((cut.cut_words, cut.first_cut), (5, Some(PIECE_LIMIT_BYTES)));
    }

    #[test]
    fn a_sink_that_breaks_has_no_more_encoded() {
        let tokenizer = Gpt2Tokenizer::new();
        let mut calls = 0;
        let text = "word ".repeat(1 << 20);
        let encoded = tokenizer
            .encode_to(&text, &mut EncodeScratch::default(), &mut |_| {
                calls += 1;
                ControlFlow::Break(())
            })
            .unwrap();
        assert_eq!(calls, 1);
        assert!(encoded.tokens < 1 << 17, "{encoded:?}");
    }

    #[test]
    fn texts_that_surely_have_tokens_have_them() {
        let tokenizer = Gpt2Tokenizer::new();
        assert!(tokenizer.surely_has(&"word ".repeat(128), 128));
        let config = ProptestConfig::with_cases(500);
        proptest!(config, |(
            text in "([a-z]{1,3}|[0-9]|[ \\n\\t]|'(s|re|ll|d|x)|[!-/]|\u{3000}|\\PC|\\pC){0,40}",
        )| {
            let tokens = encoded(&tokenizer, &text).len();
            prop_assert!(!tokenizer.surely_has(&text, tokens + 1), "{} tokens", tokens);
        });
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
