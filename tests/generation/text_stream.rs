//! Tokens back to text as they come.

use corpus::tokenizer::{Gpt2Tokenizer, JsonTokenizer, Tokenizer};
use serde_json::json;
use training::generation::TextStream;

use crate::support::Dir;

/// The pieces that come of `tokens` one by one, and what is left.
fn pieces(tokenizer: &dyn Tokenizer, context: &str, tokens: &[u32]) -> Vec<String> {
    let mut before = Vec::new();
    tokenizer.encode(context, &mut before).unwrap();
    let mut stream = TextStream::after(tokenizer, &before);
    let mut pieces: Vec<String> = tokens.iter().map(|&token| stream.push(token)).collect();
    pieces.push(stream.finish());
    pieces
}

#[test]
fn whole_characters_come_as_soon_as_they_are_complete() {
    let tokenizer = Gpt2Tokenizer::new();
    for text in ["Hello, world", "naïve café – 北京, 🙂🙃 and é", "日本語", "\u{fffd}x\u{fffd}"]
    {
        let mut tokens = Vec::new();
        tokenizer.encode(text, &mut tokens).unwrap();
        let pieces = pieces(&tokenizer, "before ", &tokens);
        assert_eq!(pieces.concat(), text);
        let (_, streamed) = pieces.split_last().unwrap();
        let has_open = streamed.iter().any(|piece| {
            piece.contains(char::REPLACEMENT_CHARACTER)
                && !text.contains(char::REPLACEMENT_CHARACTER)
        });
        assert!(!has_open, "{pieces:?}");
    }
}

#[test]
fn an_ascii_text_comes_token_by_token() {
    let tokenizer = Gpt2Tokenizer::new();
    assert_eq!(pieces(&tokenizer, "", &[15496, 995]), ["Hello", " world", ""]);
    assert_eq!(pieces(&tokenizer, "Say", &[15496, 995]), ["Hello", " world", ""]);
}

#[test]
fn bytes_that_are_no_character_are_told_by_one_sign_at_the_latest_at_the_end() {
    let tokenizer = Gpt2Tokenizer::new();
    // The first bytes of a character, cut off by a letter and by the end.
    let mut emoji = Vec::new();
    tokenizer.encode("🙂", &mut emoji).unwrap();
    assert!(emoji.len() > 1, "{emoji:?}");
    let broken = pieces(&tokenizer, "", &[emoji[0], 64]);
    assert_eq!(broken, ["", "\u{fffd}a", ""]);
    assert_eq!(pieces(&tokenizer, "", &[64, emoji[0]]), ["a", "", "\u{fffd}"]);
    // Tokens outside the vocabulary.
    assert_eq!(pieces(&tokenizer, "", &[64, 99_999, 65]).concat(), "a\u{fffd}b");
}

#[test]
fn a_tokenizer_that_writes_its_first_token_without_a_space_streams_with_all_spaces() {
    let dir = Dir::new();
    let metaspace = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always" });
    let words = ["<unk>", "<|endoftext|>", "▁one", "▁two", "▁three"];
    let vocabulary: serde_json::Map<_, _> =
        words.iter().zip(0..).map(|(word, id)| (word.to_string(), json!(id))).collect();
    let definition = json!({
        "version": "1.0",
        "added_tokens": [{
            "id": 1, "content": "<|endoftext|>", "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false
        }],
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "model": { "type": "WordLevel", "unk_token": "<unk>", "vocab": vocabulary },
    });
    let path = dir.write("tokenizer.json", definition.to_string());
    let tokenizer = JsonTokenizer::open(&path).unwrap();
    assert_eq!(tokenizer.decode(&[3, 4]), "two three");
    assert_eq!(pieces(&tokenizer, "one", &[3, 4, 2]), [" two", " three", " one", ""]);
}
