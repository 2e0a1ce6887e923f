//! What a `tokenizer.json` file says of its tokenizer, beyond what it takes to encode.
//!
//! Read from the file's canonical form, in which the parts that act on a text are spelled out one
//! by one: normalizers, pre-tokenizers, a model.

use serde_json::Value;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use super::masked::{self, MaskedVocabulary, ROLES};

/// Names under which tokenizers know the end of a document, in the order in which they are looked
/// for.
pub(super) const END_NAMES: [&str; 7] =
    ["<|endoftext|>", "<|end_of_text|>", "<|endofdocument|>", "<eod>", "</s>", "<eos>", "[SEP]"];

/// Normalizers that change no character across a letter or digit and a space after it.
const LOCAL_NORMALIZERS: [&str; 8] =
    ["Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents", "BertNormalizer"];

/// Pre-tokenizers that look at single characters.
const LOCAL_PRE_TOKENIZERS: [&str; 6] = [
    "Whitespace",
    "WhitespaceSplit",
    "BertPreTokenizer",
    "Digits",
    "Punctuation",
    "CharDelimiterSplit",
];

/// A tokenizer's definition in canonical form.
pub(super) struct Definition(Value);

impl Definition {
    /// Reads the canonical form.
    pub(super) fn parse(canonical: &str) -> serde_json::Result<Self> {
        serde_json::from_str(canonical).map(Self)
    }

    /// Size of the vocabulary: one more than the highest token.
    pub(super) fn vocab_size(&self) -> usize {
        self.tokens().map(|(_, id)| id as usize + 1).max().unwrap_or(0)
    }

    /// The token that ends a document: that of the role `eos_token`, else the first of
    /// [`END_NAMES`] that the vocabulary has.
    pub(super) fn end_of_document(&self) -> Option<u32> {
        let role = self.0["role_to_token"]["eos_token"].as_str();
        role.into_iter()
            .chain(END_NAMES)
            .find_map(|wanted| self.tokens().find(|&(name, _)| name == wanted))
            .map(|(_, id)| id)
    }

    /// Whether a text has the tokens of its parts where it is cut between an ASCII letter or digit
    /// and a space.
    pub(super) fn may_cut_before_spaces(&self) -> bool {
        let normalizers = parts(&self.0["normalizer"], "normalizers");
        let pre_tokenizers = parts(&self.0["pre_tokenizer"], "pretokenizers");
        let is_pattern = |part: &Value| pattern(part).is_some_and(is_known);
        let is_local =
            |part: &&Value| LOCAL_PRE_TOKENIZERS.contains(&kind(part)) || is_pattern(part);
        let splits = |part: &&Value| match kind(part) {
            "Whitespace" | "WhitespaceSplit" | "BertPreTokenizer" => true,
            "CharDelimiterSplit" => part["delimiter"] == " ",
            _ => is_pattern(part),
        };
        normalizers.iter().all(|part| LOCAL_NORMALIZERS.contains(&kind(part)))
            && pre_tokenizers.iter().all(is_local)
            && pre_tokenizers.iter().any(splits)
            && self.added_tokens().all(|token| !reaches_beyond_a_word(token))
    }

    /// A regular expression that words are cut by and that the encoder does not know.
    pub(super) fn unknown_pattern(&self) -> Option<&str> {
        parts(&self.0["pre_tokenizer"], "pretokenizers")
            .into_iter()
            .filter_map(pattern)
            .find(|pattern| !is_known(pattern))
    }

    /// Whether every word that ASCII white space and a visible ASCII character begin takes a token
    /// of its own: the model knows every byte, nothing is rewritten, and no token holds two such
    /// beginnings.
    pub(super) fn has_a_token_for_every_word(&self) -> bool {
        self.0["normalizer"].is_null()
            && self.0["model"]["byte_level"] == true
            && self.tokens().all(|(name, _)| !joins_words(name))
    }

    /// What a masked language model needs of the vocabulary; what is missing where it has not all.
    pub(super) fn masked_vocabulary(&self) -> Result<MaskedVocabulary, String> {
        let find = |(role, usual): (&str, &'static str)| {
            let name = self.0["role_to_token"][role].as_str().unwrap_or(usual);
            let id = self.tokens().find(|&(token, _)| token == name).map(|(_, id)| id);
            id.ok_or(usual)
        };
        let found = ROLES.map(find);
        let missing: Vec<&str> = found.iter().filter_map(|found| found.err()).collect();
        if !missing.is_empty() {
            return Err(masked::lacks(&missing));
        }
        let model = &self.0["model"];
        let Some(prefix) = model["continuing_subword_prefix"].as_str().filter(|it| !it.is_empty())
        else {
            return Err("is no WordPiece: no prefix tells which of its tokens go on with a word, \
                        and masked language models mask whole words. Use bert, or a WordPiece \
                        tokenizer.json"
                .to_owned());
        };
        let mut continues = vec![false; self.vocab_size()];
        for (token, id) in self.tokens() {
            continues[id as usize] = token.len() > prefix.len() && token.starts_with(prefix);
        }
        Ok(MaskedVocabulary::new(found.map(|found| found.expect("none is missing")), continues))
    }

    /// Every token's name and id: of the model's vocabulary and of those added to it.
    fn tokens(&self) -> impl Iterator<Item = (&str, u32)> {
        let vocabulary = &self.0["model"]["vocab"];
        let named = vocabulary.as_object().into_iter().flatten();
        // A Unigram model's tokens have their places for ids.
        let listed = vocabulary.as_array().into_iter().flatten().zip(0..);
        let named = named.filter_map(|(name, id)| Some((name.as_str(), id_of(id)?)));
        let listed = listed.filter_map(|(token, id)| Some((token[0].as_str()?, id)));
        let added = self
            .added_tokens()
            .filter_map(|token| Some((token["content"].as_str()?, id_of(&token["id"])?)));
        named.chain(listed).chain(added)
    }

    fn added_tokens(&self) -> impl Iterator<Item = &Value> {
        self.0["added_tokens"].as_array().into_iter().flatten()
    }
}

fn id_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// The members of a part that may be a sequence of parts, or missing.
fn parts<'d>(part: &'d Value, members: &str) -> Vec<&'d Value> {
    match part {
        Value::Null => Vec::new(),
        sequence if kind(sequence) == "Sequence" => {
            sequence[members].as_array().into_iter().flatten().collect()
        }
        single => vec![single],
    }
}

fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or_default()
}

/// Whether an added token can hold a space, or takes white space after it away.
fn reaches_beyond_a_word(token: &Value) -> bool {
    token["rstrip"] == true
        || token["content"].as_str().is_none_or(|content| content.contains(char::is_whitespace))
}

/// Whether a token, in the spelling of byte-level vocabularies or in plain characters, holds the
/// beginnings of two words.
fn joins_words(name: &str) -> bool {
    let is_space =
        |c: char| matches!(c, 'ĉ' | 'Ċ' | 'ċ' | 'Č' | 'č' | 'Ġ') || c.is_ascii_whitespace();
    let from_first = name.trim_start_matches(|c: char| !c.is_ascii_graphic());
    from_first.split(is_space).skip(1).any(|part| part.starts_with(|c: char| c.is_ascii_graphic()))
}

/// The regular expression of a pre-tokenizer that has one.
fn pattern(part: &Value) -> Option<&str> {
    part["pattern"]["Regex"].as_str()
}

/// Whether a regular expression is GPT-2's or one of its successors'. In all of these a space after
/// a letter or digit begins a pre-token.
fn is_known(pattern: &str) -> bool {
    let pattern = SplitPattern::Regex(pattern.to_owned());
    Split::native(pattern, SplitDelimiterBehavior::Isolated, false)
        .is_ok_and(|split| split.grammar().is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(normalizer: Value, pre_tokenizer: Value, added: Value) -> Definition {
        Definition(json!({
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "added_tokens": added,
            "model": { "byte_level": true, "vocab": { "a": 0, "Ġa": 1, ";Ċ": 2 } },
        }))
    }

    #[test]
    fn text_is_cut_where_a_pre_tokenizer_cuts_and_nothing_else_looks_across() {
        let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}});
        let gpt2 =
            split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+");
        let (null, none) = (Value::Null, json!([]));
        let may_cut = |normalizer: &Value, pre_tokenizer: &Value, added: &Value| {
            definition(normalizer.clone(), pre_tokenizer.clone(), added.clone())
                .may_cut_before_spaces()
        };
        assert!(may_cut(&null, &gpt2, &none));
        assert!(!may_cut(&null, &split("(a| )+"), &none));
        assert!(!may_cut(&null, &null, &none));
        let sequence = json!({
            "type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Whitespace"}],
        });
        assert!(may_cut(&null, &sequence, &none));
        assert!(may_cut(&json!({"type": "NFC"}), &sequence, &none));
        for normalizer in [
            json!({"type": "Prepend", "prepend": "▁"}),
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]}),
        ] {
            assert!(!may_cut(&normalizer, &sequence, &none), "{normalizer}");
        }
        for added in [
            json!([{"content": "two words", "rstrip": false}]),
            json!([{"content": "<mask>", "rstrip": true}]),
        ] {
            assert!(!may_cut(&null, &gpt2, &added), "{added}");
        }
    }

    #[test]
    fn words_have_tokens_of_their_own_where_none_joins_two() {
        let with = |name: &str| {
            let added = json!([{"content": name, "id": 3}]);
            definition(Value::Null, Value::Null, added).has_a_token_for_every_word()
        };
        assert!(with("<|endoftext|>"));
        assert!(with("ÂłĠÂł"));
        assert!(!with("ofĠthe"));
        assert!(!with("of the"));
    }
}
