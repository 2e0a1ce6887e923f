//! Text to tokens and back.
//!
//! The [`Tokenizer`] trait is the one seam between this project and the crate that does the work
//! (`tokenizers`, pinned to a release candidate): nothing outside this folder names that crate.
//!
//! - [`Gpt2Tokenizer`]: GPT-2's byte-level BPE, whose vocabulary is part of this crate;
//! - [`BertTokenizer`]: BERT's uncased WordPiece, whose vocabulary is too;
//! - [`JsonTokenizer`]: whatever a `tokenizer.json` file describes.

mod bert;
mod definition;
mod gpt2;
mod hugging_face;
mod json;
mod masked;
mod pieces;
mod words;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

pub use bert::BertTokenizer;
pub use gpt2::Gpt2Tokenizer;
pub use hugging_face::{FoundTokenizer, TokenizerFiles, find_tokenizer};
pub use json::JsonTokenizer;
pub use masked::MaskedVocabulary;
use pieces::Piece;
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};
use xxhash_rust::xxh3::xxh3_128;

use crate::CorpusError;

/// Turns text into tokens of a fixed vocabulary, and back.
///
/// One tokenizer serves any number of threads at once.
pub trait Tokenizer: Send + Sync {
    /// Name by which [`open`] finds it.
    fn name(&self) -> &str;

    /// Size of the vocabulary: one more than the highest token.
    fn vocab_size(&self) -> usize;

    /// The token that ends a document. [`encode`](Self::encode) never adds it.
    fn eod(&self) -> u32;

    /// The xxh3-128 hash of the definition, in hexadecimal: equal definitions give equal tokens.
    fn fingerprint(&self) -> String;

    /// The text of the file that defines the tokenizer; `None` for one that is built in.
    fn definition(&self) -> Option<Arc<str>> {
        None
    }

    /// What a masked language model needs of the vocabulary.
    ///
    /// # Errors
    ///
    /// With the special tokens that it lacks; or where nothing tells which of its tokens go on with
    /// a word.
    fn masked_vocabulary(&self) -> Result<MaskedVocabulary, CorpusError> {
        let names = masked::ROLES.map(|(_, name)| name);
        let (name, problem) = (self.name().to_owned(), masked::lacks(&names));
        Err(CorpusError::Tokenizer { name, problem })
    }

    /// Encodes `text` and hands its tokens to `sink`, a piece at a time: of a long text the pieces
    /// are such that encoding one takes a fraction of a second. No more is encoded once `sink`
    /// breaks. A special token's name in the text is text like any other.
    ///
    /// # Errors
    ///
    /// Where the tokenizer has no tokens for a text, as one whose regular expression gives up on
    /// it. GPT-2's has tokens for every text.
    fn encode_to(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError>;

    /// Appends the tokens of `text` to `out`: [`encode_to`](Self::encode_to) for small uses.
    ///
    /// # Errors
    ///
    /// As [`encode_to`](Self::encode_to).
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), CorpusError> {
        let mut append = |tokens: &[u32]| {
            out.extend_from_slice(tokens);
            ControlFlow::Continue(())
        };
        self.encode_to(text, &mut EncodeScratch::default(), &mut append).map(drop)
    }

    /// Whether a quick look shows that `text` has `tokens` tokens or more. `false` says nothing:
    /// the text has to be encoded then.
    fn surely_has(&self, text: &str, tokens: usize) -> bool {
        let _ = text;
        tokens == 0
    }

    /// The text of `ids`; U+FFFD stands for what is no character and for tokens outside the
    /// vocabulary.
    fn decode(&self, ids: &[u32]) -> String;
}

/// What tokens are handed to as they are made; it breaks to have no more of them.
pub type Sink<'s> = &'s mut dyn FnMut(&[u32]) -> ControlFlow<()>;

/// Working memory of an encoder, to be used for one text after another.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    tokens: Vec<PipelineToken>,
}

/// What came of encoding a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Number of tokens that were handed to the sink.
    pub tokens: usize,
    /// How often a word of a megabyte and more was cut by force; the tokens at such a cut may
    /// differ from those that the whole word has.
    pub cut_words: usize,
    /// Place of the first such cut, in bytes from the start of the text.
    pub first_cut: Option<usize>,
}

/// Opens the tokenizer `gpt2` or `bert`, or the one in a `tokenizer.json` file.
///
/// # Errors
///
/// [`CorpusError::Tokenizer`] where the name is neither, or the file describes a tokenizer that
/// this build cannot run.
pub fn open(name_or_path: &str) -> Result<Arc<dyn Tokenizer>, CorpusError> {
    if name_or_path == gpt2::NAME {
        return Ok(Arc::new(Gpt2Tokenizer::new()));
    }
    if name_or_path == bert::NAME {
        return Ok(Arc::new(BertTokenizer::new()));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        return Err(CorpusError::Tokenizer {
            name: name_or_path.to_owned(),
            problem: "no such name or file. Use gpt2, bert, or the path of a tokenizer.json"
                .to_owned(),
        });
    }
    Ok(Arc::new(JsonTokenizer::open(path)?))
}

/// Hexadecimal xxh3-128 of a definition.
pub(crate) fn fingerprint_of(definition: &[u8]) -> String {
    format!("{:032x}", xxh3_128(definition))
}

/// Plain encoding: nothing added around the text, nothing cut off, no special token read out of it.
fn plain_encoding() -> EncodeOptions {
    EncodeOptions {
        add_special_tokens: false,
        encode_special_tokens: true,
        padding: Override::Off,
        truncation: Override::Off,
    }
}

/// A pipeline with what it takes to encode by it.
struct Encoder<'e> {
    name: &'e str,
    pipeline: &'e PipelineTokenizer,
    options: &'e EncodeOptions,
}

impl Encoder<'_> {
    /// Encodes `pieces` one by one and hands the tokens of each to `sink`.
    fn encode<'t>(
        &self,
        pieces: impl Iterator<Item = Piece<'t>>,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        let mut encoded = Encoded::default();
        let mut end = 0;
        for piece in pieces {
            scratch.tokens.clear();
            self.pipeline
                .encode_into(piece.text, self.options, &mut scratch.tokens)
                .map_err(|error| self.failure(piece.text, error.as_ref()))?;
            end += piece.text.len();
            encoded.tokens += scratch.tokens.len();
            if piece.is_forced {
                encoded.cut_words += 1;
                encoded.first_cut.get_or_insert(end);
            }
            if sink(PipelineToken::cast_slice(&scratch.tokens)).is_break() {
                break;
            }
        }
        Ok(encoded)
    }

    fn failure(&self, text: &str, error: &(dyn std::error::Error + 'static)) -> CorpusError {
        let start: String = text.chars().take(40).collect();
        let problem = format!("cannot encode the text that begins {start:?}: {error}");
        CorpusError::Tokenizer { name: self.name.to_owned(), problem }
    }
}

/// Text of `ids`, with U+FFFD for those outside a vocabulary of `vocab_size`.
fn decode(pipeline: &PipelineTokenizer, vocab_size: usize, ids: &[u32]) -> String {
    let is_known = |id: &u32| (*id as usize) < vocab_size;
    ids.chunk_by(|a, b| is_known(a) && is_known(b))
        .map(|run| match run {
            [id] if !is_known(id) => char::REPLACEMENT_CHARACTER.to_string(),
            known => pipeline
                .decode(known, false)
                .expect("decoders that turn tokens into text do not fail on known tokens"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused_with_what_would_be_right() {
        let error = open("gpt3").err().unwrap();
        assert_eq!(
            error.to_string(),
            "tokenizer gpt3: no such name or file. Use gpt2, bert, or the path of a tokenizer.json"
        );
    }
}
