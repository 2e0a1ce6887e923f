//! BERT's tokens against those of Python's `transformers`.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::*;

fn encoded(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    let mut tokens = Vec::new();
    tokenizer.encode(text, &mut tokens).unwrap();
    tokens
}

#[test]
fn vocabulary_is_that_of_bert_base_uncased() {
    let hash: String =
        Sha256::digest(VOCABULARY).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3");
    let tokenizer = BertTokenizer::new();
    assert_eq!((tokenizer.vocab_size(), tokenizer.eod()), (30_522, 102));
    let vocabulary = tokenizer.masked_vocabulary().unwrap();
    let MaskedVocabulary { cls, sep, mask, pad, unk, .. } = vocabulary;
    assert_eq!([cls, sep, mask, pad, unk], [101, 102, 103, 0, 100]);
    assert_eq!(vocabulary.vocab_size(), 30_522);
    for (id, token) in (0..).zip(VOCABULARY.lines()) {
        assert_eq!(vocabulary.continues_word(id), token.starts_with("##") && token != "##");
    }
    assert!(!vocabulary.continues_word(30_522));
}

#[test]
fn tokens_are_those_of_transformers() {
    let golden = include_str!("../../../../../tests/fixtures/tokenizer/bert_ids.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let tokenizer = BertTokenizer::new();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 30);
    for case in cases {
        let text = case[0].as_str().unwrap();
        let expected: Vec<u32> = serde_json::from_value(case[1].clone()).unwrap();
        assert_eq!(encoded(&tokenizer, text), expected, "{text:?}");
    }
}

#[test]
fn the_real_models_sentences_have_its_ids() {
    // shared fixture `minilm`, without [CLS], [SEP] and padding.
    let tokenizer = BertTokenizer::new();
    let ids =
        [13164, 15312, 1011, 1048, 2213, 19584, 2169, 17070, 2213, 2408, 1022, 14246, 2271, 1012];
    assert_eq!(encoded(&tokenizer, "Megatron-LM splits each GEMM across 8 GPUs."), ids);
    let ids = [
        15536, 23615, 10288, 2102, 10790, 2509, 2566, 19386, 3012, 1024, 2184, 1012, 6282, 1025,
        7668, 15743, 1781, 1755, 2123, 1005, 1056, 2128, 1011, 19204, 4697, 999,
    ];
    let text = "WikiText103 perplexity: 10.81; café naïve 北京 don't re-tokenize!";
    assert_eq!(encoded(&tokenizer, text), ids);
}

#[test]
fn names_of_special_tokens_in_text_are_text() {
    let tokenizer = BertTokenizer::new();
    let tokens = encoded(&tokenizer, "a [MASK] b[SEP]");
    let vocabulary = tokenizer.masked_vocabulary().unwrap();
    assert!(!tokens.contains(&vocabulary.mask) && !tokens.contains(&vocabulary.sep), "{tokens:?}");
    assert_eq!(tokenizer.decode(&[103]), "[MASK]");
}

#[test]
fn words_that_count_have_tokens() {
    let tokenizer = BertTokenizer::new();
    for text in ["", "a", "  two words ", "1 2\u{0} \u{0} 3", "...", "\u{200b}a b"] {
        for number in 0..6 {
            if tokenizer.surely_has(text, number) {
                assert!(encoded(&tokenizer, text).len() >= number, "{text:?} {number}");
            }
        }
    }
    assert!(tokenizer.surely_has("three 4 Words", 3) && !tokenizer.surely_has("three 4 Words", 4));
}
