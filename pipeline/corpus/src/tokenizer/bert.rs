//! BERT's uncased WordPiece.
//!
//! The vocabulary in `assets/` has one token per line, whose number is its line. How a text is
//! brought into its form and cut is that of the original: control characters go, white space
//! becomes a space, Chinese characters stand alone, letters are lower-cased and lose their accents;
//! words are cut at white space and punctuation, and each becomes the longest pieces that the
//! vocabulary has, from its beginning on, or `[UNK]` where it has none, or more than 100 characters.
//!
//! Source: Devlin et al., *BERT: Pre-training of Deep Bidirectional Transformers for Language
//! Understanding* (2018), [arXiv 1810.04805](https://arxiv.org/abs/1810.04805), and its
//! `tokenization.py`.

use serde_json::{Map, Value, json};

use super::masked::ROLES;
use super::{
    EncodeScratch, Encoded, JsonTokenizer, MaskedVocabulary, Sink, Tokenizer, fingerprint_of,
};
use crate::CorpusError;

/// Name by which the tokenizer is opened.
pub(super) const NAME: &str = "bert";

/// One token per line, in order.
pub(super) const VOCABULARY: &str = include_str!("../../assets/bert_uncased.txt");

/// Characters of the longest word that is spelled; a longer one is unknown.
const MAX_WORD_CHARACTERS: usize = 100;

/// BERT's uncased tokenizer: 30,522 tokens.
///
/// Its end of a document is `[SEP]`, for whoever makes running text of it; where sentences are
/// sequences of their own ([`Sequences`](crate::Sequences)) nothing ends a document but the index.
///
/// ```
/// # fn main() -> Result<(), corpus::CorpusError> {
/// use corpus::tokenizer::{BertTokenizer, Tokenizer};
///
/// let tokenizer = BertTokenizer::new();
/// let mut tokens = Vec::new();
/// tokenizer.encode("Unaffable words", &mut tokens)?;
/// assert_eq!(tokens, [14477, 20961, 3468, 2616]);
/// assert_eq!(tokenizer.decode(&tokens), "unaffable words");
/// # Ok(())
/// # }
/// ```
pub struct BertTokenizer(JsonTokenizer);

impl BertTokenizer {
    /// Builds the tokenizer from the vocabulary in this crate, which takes some hundredths of a
    /// second: share one.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the vocabulary is part of the crate, and tested"
    )]
    pub fn new() -> Self {
        let definition = definition(VOCABULARY, true).to_string();
        let tokenizer = JsonTokenizer::named(NAME.to_owned(), definition);
        Self(tokenizer.expect("the vocabulary in the crate makes a WordPiece tokenizer"))
    }
}

impl Default for BertTokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokenizer for BertTokenizer {
    fn name(&self) -> &str {
        NAME
    }

    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn eod(&self) -> u32 {
        self.0.eod()
    }

    fn fingerprint(&self) -> String {
        fingerprint_of(VOCABULARY.as_bytes())
    }

    fn masked_vocabulary(&self) -> Result<MaskedVocabulary, CorpusError> {
        self.0.masked_vocabulary()
    }

    fn encode_to(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        self.0.encode_to(text, scratch, sink)
    }

    /// Every word that begins with an ASCII letter or digit has a token of its own.
    fn surely_has(&self, text: &str, tokens: usize) -> bool {
        let Some(last) = tokens.checked_sub(1) else { return true };
        let mut words =
            text.split_ascii_whitespace().filter(|word| word.as_bytes()[0].is_ascii_alphanumeric());
        words.nth(last).is_some()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }
}

/// The `tokenizer.json` of a WordPiece tokenizer with this vocabulary, one token per line, which
/// lower-cases a text or not.
pub(super) fn definition(vocabulary: &str, lower_case: bool) -> Value {
    let tokens: Map<String, Value> =
        vocabulary.lines().zip(0..).map(|(token, id)| (token.to_owned(), json!(id))).collect();
    let special = |name: &str| {
        tokens.get(name).map(|id| {
            json!({
                "id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
    };
    let mut added: Vec<Value> = ROLES.iter().filter_map(|(_, name)| special(name)).collect();
    added.sort_by_key(|token| token["id"].as_u64());
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": lower_case,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": post_processor(&tokens),
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": MAX_WORD_CHARACTERS, "vocab": tokens,
        },
    })
}

/// `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, for other programs; none where a token is missing.
fn post_processor(tokens: &Map<String, Value>) -> Value {
    let (Some(cls), Some(sep)) = (tokens.get("[CLS]"), tokens.get("[SEP]")) else {
        return Value::Null;
    };
    let special =
        |name: &str, segment: u8| json!({ "SpecialToken": { "id": name, "type_id": segment } });
    let text = |name: &str, segment: u8| json!({ "Sequence": { "id": name, "type_id": segment } });
    let token = |name: &str, id: &Value| json!({ "id": name, "ids": [id], "tokens": [name] });
    json!({
        "type": "TemplateProcessing",
        "single": [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)],
        "pair": [
            special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1), special("[SEP]", 1),
        ],
        "special_tokens": { "[CLS]": token("[CLS]", cls), "[SEP]": token("[SEP]", sep) },
    })
}

#[cfg(test)]
mod tests;
