//! WikiText's detokenizer and the count of its words.

use std::fs;

use evaluation::detokenizer::{count_original_tokens, detokenize};

use super::{reference, sha256, wikitext103_test_file};

#[test]
fn detokenizer_gives_the_reference_text_of_every_worked_case() {
    let expected = reference("evaldata");
    let cases = expected["wikitext103_test"]["detok_cases"].as_array().unwrap();
    assert_eq!(cases.len(), 21);
    for case in cases {
        let (given, wanted) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        assert_eq!(detokenize(given), wanted, "of {given:?}");
    }
}

#[test]
fn detokenizer_keeps_the_originals_slash_flaw() {
    assert_eq!(detokenize("a /' 5/ b"), "a /'[0-9]/ b");
    assert_eq!(detokenize("a /' x/ b"), "a /' x/ b");
}

#[test]
fn detokenizer_leaves_an_unclosed_bracket_alone() {
    assert_eq!(detokenize("a ( b [ c ] d"), "a ( b [c] d");
}

#[test]
fn original_tokens_are_pieces_between_single_spaces() {
    // The line end between two spaces is a piece, and so is the nothing between two neighboring
    // spaces.
    assert_eq!(count_original_tokens(" \n = A = \n b  c \n "), 7);
    assert_eq!(count_original_tokens("one"), 1);
}

#[test]
fn wikitext103_detokenizes_to_the_reference_text() {
    let Some(file) = wikitext103_test_file() else { return };
    let expected = &reference("evaldata")["wikitext103_test"];
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(count_original_tokens(&text) as u64, expected["original_tokens"].as_u64().unwrap());
    assert_eq!(sha256(detokenize(&text)), expected["sha256_detok"].as_str().unwrap());
}
