//! A byte-pair tokenizer that a `tokenizer.json` file describes.

use std::path::Path;

use serde_json::Value;
use tokenizers::pipeline::{EncodeOptions, PipelineToken, PipelineTokenizer};

use super::pieces::pieces;
use super::{EncodeScratch, Encoded, Sink, Tokenizer, fingerprint_of, plain_encoding};
use crate::CorpusError;

/// Text longer than this is encoded in pieces, cut before white space: 32-bit offsets hold no more.
const PIECE_BYTES: usize = 1 << 29;

/// Longest piece without a place to cut, in bytes.
const PIECE_LIMIT_BYTES: usize = 1 << 30;

/// Names under which tokenizers know the end of a document, in the order in which they are looked
/// for.
const END_NAMES: [&str; 6] =
    ["<|endoftext|>", "<|end_of_text|>", "<|endofdocument|>", "<eod>", "</s>", "<eos>"];

/// The tokenizer of a `tokenizer.json` file.
pub struct JsonTokenizer {
    name: String,
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
    vocab_size: usize,
    eod: u32,
    fingerprint: String,
}

impl JsonTokenizer {
    /// Reads the file. The end of a document is the token of the role `eos_token`, else the first
    /// of `<|endoftext|>`, `<|end_of_text|>`, `<|endofdocument|>`, `<eod>`, `</s>` and `<eos>` that
    /// the vocabulary has.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no tokenizer, asks for a part that this build does not
    /// have, or has no token that ends a document.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        // Manifests keep the name, and are read from other folders than the one it is relative to.
        let absolute = std::path::absolute(path).map_err(CorpusError::io("resolve", path))?;
        let name = absolute.display().to_string();
        let text = std::fs::read_to_string(path).map_err(CorpusError::io("read", path))?;
        let fail = |problem: String| CorpusError::Tokenizer { name: name.clone(), problem };

        let canonical =
            tokenizers::canonicalize_str(&text).map_err(|error| fail(error.to_string()))?;
        let pipeline =
            tokenizers::from_json(&canonical).map_err(|error| fail(error.to_string()))?;
        let options = plain_encoding();
        try_out(&pipeline, &options).map_err(|error| fail(error.to_string()))?;

        let definition: Value = serde_json::from_str(&canonical)
            .map_err(|source| CorpusError::Json { path: path.to_owned(), source })?;
        let tokens = tokens(&definition);
        let vocab_size = tokens.iter().map(|&(_, id)| id + 1).max().unwrap_or(0) as usize;
        let eod = end_of_document(&definition, &tokens).ok_or_else(|| {
            fail(format!("has no token that ends a document: none of {}", END_NAMES.join(", ")))
        })?;
        let fingerprint = fingerprint_of(text.as_bytes());
        Ok(Self { name, pipeline, options, vocab_size, eod, fingerprint })
    }
}

/// Encodes and decodes once: what a pattern cannot do without a regex engine shows only when it is
/// used.
fn try_out(pipeline: &PipelineTokenizer, options: &EncodeOptions) -> tokenizers::Result<()> {
    let mut tokens = Vec::new();
    pipeline.encode_into("A few words, 1 number.", options, &mut tokens)?;
    pipeline.decode(PipelineToken::cast_slice(&tokens), false)?;
    Ok(())
}

/// Every token's name and id: of the model's vocabulary and of those added to it.
fn tokens(definition: &Value) -> Vec<(&str, u64)> {
    let vocabulary = definition["model"]["vocab"].as_object().into_iter().flatten();
    let added = definition["added_tokens"].as_array().into_iter().flatten();
    vocabulary
        .filter_map(|(name, id)| Some((name.as_str(), id.as_u64()?)))
        .chain(added.filter_map(|token| Some((token["content"].as_str()?, token["id"].as_u64()?))))
        .collect()
}

/// Before white space that follows a character that is none: every pattern in use begins a new
/// pre-token there.
fn before_white_space(last: char, next: char) -> bool {
    !last.is_whitespace() && next.is_whitespace()
}

fn end_of_document(definition: &Value, tokens: &[(&str, u64)]) -> Option<u32> {
    let role = definition["role_to_token"]["eos_token"].as_str();
    role.into_iter()
        .chain(END_NAMES)
        .find_map(|wanted| tokens.iter().find(|(name, _)| *name == wanted))
        .and_then(|&(_, id)| u32::try_from(id).ok())
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

    fn encode_to(&self, text: &str, scratch: &mut EncodeScratch, sink: Sink<'_>) -> Encoded {
        let pieces = pieces(text, PIECE_BYTES, PIECE_LIMIT_BYTES, before_white_space);
        super::encode_pieces(&self.pipeline, &self.options, pieces, scratch, sink)
    }

    fn decode(&self, ids: &[u32]) -> String {
        super::decode(&self.pipeline, self.vocab_size, ids)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tokenizer::{Gpt2Tokenizer, gpt2};

    /// GPT-2's tokenizer as older versions of the `tokenizers` library write it.
    fn gpt2_definition() -> Value {
        let ranks = gpt2::ranked_tokens();
        let vocab: serde_json::Map<_, _> =
            (0_u32..).zip(&ranks).map(|(rank, bytes)| (gpt2::spell(bytes), rank.into())).collect();
        let merges: Vec<String> = gpt2::merges(&ranks)
            .into_iter()
            .map(|(left, right)| format!("{left} {right}"))
            .collect();
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [{
                "id": 50256, "content": "<|endoftext|>", "special": true, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            }],
            "normalizer": null,
            "pre_tokenizer": byte_level,
            "post_processor": byte_level,
            "decoder": byte_level,
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false,
                "vocab": vocab, "merges": merges,
            },
        })
    }

    fn open(definition: &str) -> Result<JsonTokenizer, CorpusError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, definition).unwrap();
        JsonTokenizer::open(&path)
    }

    #[test]
    fn gpt2_from_a_file_is_gpt2() {
        let (from_file, built_in) =
            (open(&gpt2_definition().to_string()).unwrap(), Gpt2Tokenizer::new());
        assert_eq!((from_file.vocab_size(), from_file.eod()), (50257, 50256));
        for text in ["", "Hello world", " It's  1234 tests…\n\n<|endoftext|>\u{1f600}\0"] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            built_in.encode(text, &mut ours);
            from_file.encode(text, &mut theirs);
            assert_eq!(ours, theirs, "{text:?}");
            assert_eq!(from_file.decode(&theirs), text);
        }
        assert_ne!(from_file.fingerprint(), built_in.fingerprint());
    }

    #[test]
    fn a_relative_path_is_kept_whole() {
        let here = std::env::current_dir().unwrap();
        let folder = tempfile::tempdir_in(&here).unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, gpt2_definition().to_string()).unwrap();
        let relative = path.strip_prefix(&here).unwrap();
        assert_eq!(JsonTokenizer::open(relative).unwrap().name(), path.display().to_string());
    }

    #[test]
    fn files_that_are_no_usable_tokenizer_are_refused() {
        let mut without_end = gpt2_definition();
        without_end["added_tokens"] = json!([]);
        let mut with_unknown_part = gpt2_definition();
        with_unknown_part["model"]["type"] = json!("WordSalad");
        for (definition, message) in [
            ("{".to_owned(), "the config is not JSON"),
            ("{}".to_owned(), "no `model`"),
            (without_end.to_string(), "has no token that ends a document: none of <|endoftext|>, "),
            (with_unknown_part.to_string(), "needs a BPE model, found WordSalad"),
        ] {
            let error = open(&definition).err().unwrap().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
