//! Text to tokens and back.
//!
//! The [`Tokenizer`] trait is the one seam between this project and the crate that does the work
//! (`tokenizers`, pinned to a release candidate): nothing outside this folder names that crate.
//!
//! - [`Gpt2Tokenizer`]: GPT-2's byte-level BPE, whose vocabulary is part of this crate;
//! - [`JsonTokenizer`]: any BPE that a `tokenizer.json` file describes.

mod gpt2;
mod json;

use std::path::Path;
use std::sync::Arc;

pub use gpt2::Gpt2Tokenizer;
pub use json::JsonTokenizer;
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

    /// Cuts `text` into parts whose tokens, one after another, are those of the text: what encodes
    /// a long text part by part can stop in between.
    fn parts<'t>(&self, text: &'t str) -> Box<dyn Iterator<Item = &'t str> + 't> {
        Box::new(std::iter::once(text))
    }

    /// Appends the tokens of `text` to `out`. A special token's name in the text is text like any
    /// other.
    fn encode(&self, text: &str, out: &mut Vec<u32>);

    /// The text of `ids`; U+FFFD stands for what is no character and for tokens outside the
    /// vocabulary.
    fn decode(&self, ids: &[u32]) -> String;
}

/// Opens the tokenizer `gpt2`, or the one in a `tokenizer.json` file.
///
/// # Errors
///
/// [`CorpusError::Tokenizer`] where the name is neither, or the file describes a tokenizer that
/// this build cannot run.
pub fn open(name_or_path: &str) -> Result<Arc<dyn Tokenizer>, CorpusError> {
    if name_or_path == gpt2::NAME {
        return Ok(Arc::new(Gpt2Tokenizer::new()));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        return Err(CorpusError::Tokenizer {
            name: name_or_path.to_owned(),
            problem: "no such name or file. Use gpt2, or the path of a tokenizer.json".to_owned(),
        });
    }
    Ok(Arc::new(JsonTokenizer::open(path)?))
}

/// Hexadecimal xxh3-128 of a definition.
fn fingerprint_of(definition: &[u8]) -> String {
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

/// Appends the tokens of `pieces` to `out`.
fn encode_pieces<'t>(
    pipeline: &PipelineTokenizer,
    options: &EncodeOptions,
    pieces: impl Iterator<Item = &'t str>,
    out: &mut Vec<u32>,
) {
    let mut tokens: Vec<PipelineToken> = Vec::new();
    for piece in pieces {
        tokens.clear();
        pipeline
            .encode_into(piece, options, &mut tokens)
            .expect("a pipeline that has encoded once fails only on texts of 4 GiB and more");
        out.extend_from_slice(PipelineToken::cast_slice(&tokens));
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

/// `text` in pieces of roughly `piece_bytes`, cut between two characters for which `may_cut`
/// answers that a new pre-token begins with the second, so that the tokens are those of the whole.
///
/// Encoding needs working memory of about ten times its input, so a text of a gigabyte is better
/// given in pieces. A text without a place to cut is cut at `limit` bytes, wherever that is.
fn pieces(
    text: &str,
    piece_bytes: usize,
    limit: usize,
    may_cut: fn(char, char) -> bool,
) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, tail) = rest.split_at(piece_end(rest, piece_bytes, limit, may_cut));
        rest = tail;
        Some(piece)
    })
}

/// Before white space that follows a character that is none: every pattern in use begins a new
/// pre-token there.
fn before_white_space(last: char, next: char) -> bool {
    !last.is_whitespace() && next.is_whitespace()
}

fn piece_end(
    text: &str,
    piece_bytes: usize,
    limit: usize,
    may_cut: fn(char, char) -> bool,
) -> usize {
    if text.len() <= piece_bytes {
        return text.len();
    }
    let limit = text.floor_char_boundary(limit);
    let from = text.floor_char_boundary(piece_bytes);
    let mut last = None;
    for (offset, next) in text[from..].char_indices() {
        if from + offset >= limit {
            return limit;
        }
        if last.is_some_and(|last| may_cut(last, next)) {
            return from + offset;
        }
        last = Some(next);
    }
    text.len().min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_refused_with_what_would_be_right() {
        let error = open("gpt3").err().unwrap();
        assert_eq!(
            error.to_string(),
            "tokenizer gpt3: no such name or file. Use gpt2, or the path of a tokenizer.json"
        );
    }

    #[test]
    fn pieces_begin_with_white_space_after_a_word() {
        let cut = |text, bytes| pieces(text, bytes, 12, before_white_space).collect::<Vec<_>>();
        assert_eq!(cut("one two  three", 4), ["one two", "  three"]);
        assert_eq!(cut("one two  three", 100), ["one two  three"]);
        assert_eq!(cut("ééééééééé", 4), ["éééééé", "ééé"]);
        assert_eq!(cut("", 4), [""; 0]);
        assert_eq!(cut("a      b", 2), ["a      b"]);
    }
}
