//! Tokenizers of every kind that a file can describe, and files that describe none.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::*;
use crate::tokenizer::{Gpt2Tokenizer, gpt2};

/// GPT-2's tokenizer as older versions of the `tokenizers` library write it.
fn gpt2_definition() -> Value {
    let ranks = gpt2::ranked_tokens();
    let vocab: serde_json::Map<_, _> =
        (0_u32..).zip(&ranks).map(|(rank, bytes)| (gpt2::spell(bytes), rank.into())).collect();
    let merges: Vec<String> =
        gpt2::merges(&ranks).into_iter().map(|(left, right)| format!("{left} {right}")).collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
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
        built_in.encode(text, &mut ours).unwrap();
        from_file.encode(text, &mut theirs).unwrap();
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

/// The tokens of `text`, by name.
fn names(tokenizer: &JsonTokenizer, text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    tokenizer.encode(text, &mut tokens).unwrap();
    tokenizer.pipeline.decode_tokens(&tokens, false)
}

#[test]
fn word_pieces_are_read() {
    let definition = json!({
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": null,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "[SEP]": 1, "token": 2, "##s": 3, "deja": 4},
        },
    });
    let tokenizer = open(&definition.to_string()).unwrap();
    assert_eq!((tokenizer.vocab_size(), tokenizer.eod()), (5, 1));
    assert_eq!(names(&tokenizer, "Tokens déjà ツ"), ["token", "##s", "deja", "[UNK]"]);
    assert!(!tokenizer.surely_has("token token", 2), "words may be cleaned away");
}

#[test]
fn unigrams_are_read() {
    let definition = json!({
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {
            "type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["</s>", 0.0], ["▁a", -1.0], ["▁", -2.0], ["b", -2.0]],
        },
    });
    let tokenizer = open(&definition.to_string()).unwrap();
    assert_eq!((tokenizer.vocab_size(), tokenizer.eod()), (5, 1));
    assert_eq!(names(&tokenizer, "a bb"), ["▁a", "▁", "b", "b"]);
}

#[test]
fn patterns_that_the_encoder_does_not_know_are_named() {
    let mut definition = gpt2_definition();
    definition["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "(?=x)."}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]});
    let error = open(&definition.to_string()).err().unwrap().to_string();
    assert!(error.contains("cuts words by the pattern (?=x)., which is none of"), "{error}");
}

/// The tokens of `text` in pieces of about `bytes`.
fn encoded_in_pieces(tokenizer: &JsonTokenizer, text: &str, bytes: usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    for piece in pieces(text, bytes, usize::MAX, before_space) {
        tokenizer.encode(piece.text, &mut tokens).unwrap();
    }
    tokens
}

#[test]
fn pieces_do_not_change_the_tokens_of_tokenizers_that_take_text_in_pieces() {
    // The patterns of GPT-4 and of Llama 3, in which line ends go with the punctuation before them.
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let mut cl100k = gpt2_definition();
    cl100k["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    ]});
    let text = "It's   a test;\n\n with 1234 numbers… and  spaces   \u{3000}ü. \n".repeat(9);
    for definition in [gpt2_definition(), cl100k] {
        let tokenizer = open(&definition.to_string()).unwrap();
        assert!(tokenizer.may_cut_before_spaces);
        let mut whole = Vec::new();
        tokenizer.encode(&text, &mut whole).unwrap();
        for bytes in 1..200 {
            assert_eq!(encoded_in_pieces(&tokenizer, &text, bytes), whole, "{bytes} bytes");
        }
    }
}

#[test]
fn long_texts_are_handed_on_in_pieces_and_forced_cuts_told() {
    let encoded = |tokenizer: &JsonTokenizer, text: &str| {
        let mut pieces = 0;
        let mut count = |_: &[u32]| {
            pieces += 1;
            ControlFlow::Continue(())
        };
        let mut scratch = EncodeScratch::default();
        let encoded = tokenizer.encode_to(text, &mut scratch, &mut count).unwrap();
        (pieces, encoded.cut_words, encoded.first_cut)
    };
    let words = "word ".repeat(PIECE_BYTES);
    let tokenizer = open(&gpt2_definition().to_string()).unwrap();
    assert_eq!(encoded(&tokenizer, &words), (5, 0, None));
    let word = "7".repeat(PIECE_LIMIT_BYTES + 1);
    assert_eq!(encoded(&tokenizer, &word), (2, 1, Some(PIECE_LIMIT_BYTES)));

    let mut whole = gpt2_definition();
    whole["normalizer"] = json!({"type": "Prepend", "prepend": "_"});
    let tokenizer = open(&whole.to_string()).unwrap();
    assert_eq!(encoded(&tokenizer, &words), (1, 0, None));
    let longer = "word ".repeat(PIECE_BYTES * 4);
    assert_eq!(encoded(&tokenizer, &longer), (2, 1, Some(WHOLE_LIMIT_BYTES)));
}

#[test]
fn texts_that_surely_have_tokens_have_them() {
    let tokenizer = open(&gpt2_definition().to_string()).unwrap();
    assert!(tokenizer.surely_has("three words here", 3));
    assert!(!tokenizer.surely_has("three words here", 4));
    assert!(tokenizer.surely_has("", 0));
}

#[test]
fn vocabulary_of_a_masked_model_names_what_it_lacks() {
    use crate::tokenizer::bert;

    let whole = open(&bert::definition(bert::VOCABULARY, true).to_string()).unwrap();
    assert_eq!(whole.masked_vocabulary().unwrap().mask, 103);
    let text = bert::VOCABULARY.replace("[MASK]", "[mask]").replace("[PAD]", "[pad]");
    let without = open(&bert::definition(&text, true).to_string()).unwrap();
    let error = without.masked_vocabulary().unwrap_err().to_string();
    assert!(error.contains("tokenizer.json: has no [MASK], [PAD]: a masked"), "{error}");
    let gpt2 = Gpt2Tokenizer::new().masked_vocabulary().unwrap_err().to_string();
    assert!(
        gpt2.starts_with("tokenizer gpt2: has no [CLS], [SEP], [MASK], [PAD], [UNK]"),
        "{gpt2}"
    );
    let mut bytes = gpt2_definition();
    for (id, (_, name)) in (50_257..).zip(super::super::masked::ROLES) {
        bytes["model"]["vocab"][name] = json!(id);
    }
    let error = open(&bytes.to_string()).unwrap().masked_vocabulary().unwrap_err().to_string();
    assert!(error.contains("is no WordPiece"), "{error}");
}
