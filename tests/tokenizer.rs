//! Tokenizers on real text.

use std::fs;

use evaluation::detokenizer::detokenize;

use crate::evaluation::{sha256, wikitext103_test_file};

#[test]
fn gpt2_ids_of_wikitext103_are_the_references() {
    let Some(file) = wikitext103_test_file() else { return };
    let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
    let mut ids = Vec::new();
    tokenizer.encode(&detokenize(&fs::read_to_string(file).unwrap()), &mut ids).unwrap();

    assert_eq!(ids.len(), 270_330);
    let little_endian: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    assert_eq!(
        sha256(little_endian),
        "400d819fa30614203bcdb89e960bcb6627479737e5abaabbdc9a44bb4ad66b5b"
    );
}
