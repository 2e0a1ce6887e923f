//! Small tokenizers, for models of a small vocabulary.

use serde_json::json;

/// The `tokenizer.json` of an uncased WordPiece tokenizer of `vocab_size` tokens: the special ones,
/// and the words `w5`, `w6` and so on, each its own number.
pub(crate) fn word_pieces(vocab_size: usize) -> String {
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
    let words = (special.len()..vocab_size).map(|id| format!("w{id}"));
    word_pieces_of(&special.iter().cloned().chain(words).collect::<Vec<_>>())
}

/// The `tokenizer.json` of an uncased WordPiece tokenizer of these tokens.
pub(crate) fn word_pieces_of(tokens: &[String]) -> String {
    let ids: serde_json::Map<_, _> =
        tokens.iter().zip(0..).map(|(token, id)| (token.clone(), json!(id))).collect();
    let special = tokens.iter().zip(0..).filter(|(token, _)| token.starts_with('['));
    let special: Vec<_> = special
        .map(|(token, id)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    let definition = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": null,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids,
        },
    });
    definition.to_string()
}
