//! Tokenizers on real text.

use std::fs;

use evaluation::detokenizer::detokenize;
use serde_json::json;

use crate::cli::TRAIN;
use crate::evaluation::{sha256, wikitext103_test_file};
use crate::support::{Dir, jsonl, pipeline_in, words};

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

#[test]
fn what_was_made_with_a_tokenizer_of_a_file_reads_after_everything_has_moved() {
    let dir = Dir::new();
    let tokenizer = json!({
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "</s>": 1}},
    });
    dir.write("mine.json", tokenizer.to_string());
    let texts: Vec<String> = (0..6).map(|seed| words(seed, 300)).collect();
    dir.write("in.jsonl", jsonl(&texts));
    dir.write("train.toml", TRAIN);
    pipeline_in(&dir, "dedup in.jsonl --tokenizer mine.json --out data").success();
    fs::remove_file(dir.path("mine.json")).expect("a file");
    pipeline_in(&dir, "shard show data --doc 0").success();
    pipeline_in(&dir, "train --config train.toml --data data --out run").success();

    fs::remove_dir_all(dir.path("data")).expect("a folder");
    fs::rename(dir.path("run"), dir.path("moved")).expect("a folder");
    dir.write(
        "test.tokens",
        format!(" \n = Title = \n \n {} \n", words(9, 100).replace('\n', " ")),
    );
    let line = "eval --checkpoint moved --task wikitext103 --data test.tokens --overlap 8";
    let report = pipeline_in(&dir, line).success();
    assert!(report.stdout.contains("perplexity"), "{}", report.stdout);
    fs::write(dir.path("moved/checkpoints/step-3/tokenizer.json"), "{}").expect("a file");
    pipeline_in(&dir, line).refused(2, "tokenizer.json");
}
