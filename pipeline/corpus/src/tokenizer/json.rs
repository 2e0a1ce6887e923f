//! A tokenizer that a `tokenizer.json` file describes.

use std::path::Path;
use std::sync::Arc;

use tokenizers::pipeline::{EncodeOptions, PipelineToken, PipelineTokenizer};

use super::definition::{Definition, END_NAMES};
use super::pieces::pieces;
use super::{
    EncodeScratch, Encoded, Encoder, MaskedVocabulary, Sink, Tokenizer, fingerprint_of,
    plain_encoding,
};
use crate::CorpusError;

/// Text is encoded in pieces of about this many bytes, where the definition allows it.
const PIECE_BYTES: usize = 1 << 18;

/// Longest piece of a text without a place to cut, in bytes; half a second of work at the worst.
const PIECE_LIMIT_BYTES: usize = 1 << 20;

/// Longest text, in bytes, of a tokenizer that takes no text in pieces: one that cuts at no space,
/// or puts something before every text. It is larger than [`PIECE_LIMIT_BYTES`] because any text
/// meets it, not only a word of that length; one or two seconds of work.
const WHOLE_LIMIT_BYTES: usize = 1 << 22;

/// The tokenizer of a `tokenizer.json` file.
pub struct JsonTokenizer {
    name: String,
    text: Arc<str>,
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    vocab_size: usize,
    eod: u32,
    fingerprint: String,
    may_cut_before_spaces: bool,
    has_a_token_for_every_word: bool,
    masked: Result<MaskedVocabulary, String>,
}

impl JsonTokenizer {
    /// Reads the file. The end of a document is the token of the role `eos_token`, else the first
    /// of `<|endoftext|>`, `<|end_of_text|>`, `<|endofdocument|>`, `<eod>`, `</s>`, `<eos>` and
    /// `[SEP]` that the vocabulary has.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no tokenizer, asks for a part that this build does not
    /// have, or has no token that ends a document.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        let text = std::fs::read_to_string(path).map_err(CorpusError::io("read", path))?;
        Self::of_definition(path, text)
    }

    /// [`open`](Self::open) for the text that the file at `path` holds, or would hold.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn of_definition(path: &Path, text: String) -> Result<Self, CorpusError> {
        // Manifests keep the name, and are read from other folders than the one it is relative to.
        let absolute = std::path::absolute(path).map_err(CorpusError::io("resolve", path))?;
        Self::named(absolute.display().to_string(), text)
    }

    /// The tokenizer that `text` defines, under this name.
    pub(super) fn named(name: String, text: String) -> Result<Self, CorpusError> {
        let fail = |problem: String| CorpusError::Tokenizer { name: name.clone(), problem };

        let canonical =
            tokenizers::canonicalize_str(&text).map_err(|error| fail(error.to_string()))?;
        let pipeline =
            tokenizers::from_json(&canonical).map_err(|error| fail(error.to_string()))?;
        let options = plain_encoding();
        let definition = Definition::parse(&canonical)
            .map_err(|source| CorpusError::Json { path: name.clone().into(), source })?;
        try_out(&pipeline, &options).map_err(|error| {
            fail(match definition.unknown_pattern() {
                Some(pattern) => format!(
                    "cuts words by the pattern {pattern}, which is none of those of GPT-2, GPT-4, \
                     Llama 3 and their like that this program knows"
                ),
                None => error.to_string(),
            })
        })?;
        let eod = definition.end_of_document().ok_or_else(|| {
            fail(format!("has no token that ends a document: none of {}", END_NAMES.join(", ")))
        })?;
        Ok(Self {
            vocab_size: definition.vocab_size(),
            eod,
            fingerprint: fingerprint_of(text.as_bytes()),
            may_cut_before_spaces: definition.may_cut_before_spaces(),
            has_a_token_for_every_word: definition.has_a_token_for_every_word(),
            masked: definition.masked_vocabulary(),
            name,
            text: text.into(),
            pipeline,
            options,
        })
    }
}

/// Encodes and decodes once, a character that no vocabulary has among the rest: what a part of the
/// tokenizer cannot do shows only when it is used.
fn try_out(pipeline: &PipelineTokenizer, options: &EncodeOptions) -> tokenizers::Result<()> {
    let mut tokens = Vec::new();
    pipeline.encode_into("A few words, 1 number, \u{10fffd}.", options, &mut tokens)?;
    pipeline.decode(PipelineToken::cast_slice(&tokens), false)?;
    Ok(())
}

/// Between an ASCII letter or digit and a space.
fn before_space(last: char, next: char) -> bool {
    last.is_ascii_alphanumeric() && next == ' '
}

impl Tokenizer for JsonTokenizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn eod(&self) -> u32 {
        self.eod
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn definition(&self) -> Option<Arc<str>> {
        Some(self.text.clone())
    }

    fn masked_vocabulary(&self) -> Result<MaskedVocabulary, CorpusError> {
        self.masked.clone().map_err(|problem| {
            let name = self.name.clone();
            CorpusError::Tokenizer { name, problem }
        })
    }

    fn encode_to(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        let (bytes, limit, may_cut): (_, _, fn(char, char) -> bool) = if self.may_cut_before_spaces
        {
            (PIECE_BYTES, PIECE_LIMIT_BYTES, before_space)
        } else {
            (WHOLE_LIMIT_BYTES, WHOLE_LIMIT_BYTES, |_, _| false)
        };
        let pieces = pieces(text, bytes, limit, may_cut);
        let encoder =
            Encoder { name: &self.name, pipeline: &self.pipeline, options: &self.options };
        encoder.encode(pieces, scratch, sink)
    }

    fn surely_has(&self, text: &str, tokens: usize) -> bool {
        let Some(last) = tokens.checked_sub(1) else { return true };
        let mut words =
            text.split_ascii_whitespace().filter(|word| word.as_bytes()[0].is_ascii_graphic());
        self.has_a_token_for_every_word && words.nth(last).is_some()
    }

    fn decode(&self, ids: &[u32]) -> String {
        super::decode(&self.pipeline, self.vocab_size, ids)
    }
}

#[cfg(test)]
mod tests;
