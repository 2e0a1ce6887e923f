//! A byte-pair tokenizer that a `tokenizer.json` file describes.

use std::path::Path;

use serde_json::Value;
use tokenizers::pipeline::{EncodeOptions, PipelineTokenizer};

use super::{Tokenizer, fingerprint_of, pieces, plain_encoding};
use crate::CorpusError;

/// Text longer than this is encoded in pieces, cut before white space: 32-bit offsets hold no more.
const PIECE_BYTES: usize = 1 << 29;

/// Longest piece without a place to cut, in bytes.
const PIECE_LIMIT_BYTES: usize = 1 << 30;

/// Names under which tokenizers know the end of a document, in the order in which they are looked for.
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
    /// Reads the file. The end of a document is the token of the role `eos_token`, else the first of `<|endoftext|>`,
    /// `<|end_of_text|>`, `<|endofdocument|>`, `<eod>`, `</s>` and `<eos>` that the vocabulary has.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no tokenizer, asks for a part that this build does not have, or has no token
    /// that ends a document.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(CorpusError::io("read", path))?;
        let fail = |problem: String| CorpusError::Tokenizer { name: name.clone(), problem };

        let canonical =
            tokenizers::canonicalize_str(&text).map_err(|error| fail(error.to_string()))?;
        let pipeline =
            tokenizers::from_json(&canonical).map_err(|error| fail(error.to_string()))?;
        // What a pattern cannot do without a regex engine shows only when it is used.
        let options = plain_encoding();
        pipeline
            .encode_into("A few words, 1 number.", &options, &mut Vec::new())
            .map_err(|error| fail(error.to_string()))?;

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

/// Every token's name and id: of the model's vocabulary and of those added to it.
fn tokens(definition: &Value) -> Vec<(&str, u64)> {
    let vocabulary = definition["model"]["vocab"].as_object().into_iter().flatten();
    let added = definition["added_tokens"].as_array().into_iter().flatten();
    vocabulary
        .filter_map(|(name, id)| Some((name.as_str(), id.as_u64()?)))
        .chain(added.filter_map(|token| Some((token["content"].as_str()?, token["id"].as_u64()?))))
        .collect()
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

    fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let pieces = pieces(text, PIECE_BYTES, PIECE_LIMIT_BYTES);
        super::encode_pieces(&self.pipeline, &self.options, pieces, out);
    }

    fn decode(&self, ids: &[u32]) -> String {
        super::decode(&self.pipeline, self.vocab_size, ids)
    }
}
