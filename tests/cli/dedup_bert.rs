//! `pipeline dedup --tokenizer bert`: a sequence for each sentence.

use std::fs;

use corpus::shard::ShardReader;
use serde_json::Value;

use super::{dedup, jsonl};
use crate::support::{Dir, pipeline_in, words};

/// A text of `count` sentences.
fn text(seed: u64, count: u64) -> String {
    let sentence =
        |number| format!("Dr. {} {}.", number, words(seed * 100 + number, 11).trim_end());
    (0..count).map(sentence).collect::<Vec<_>>().join(" ")
}

fn manifest(dir: &Dir, folder: &str) -> Value {
    let text = fs::read_to_string(dir.path(&format!("{folder}/manifest.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn sentences_are_sequences_and_documents_their_runs() {
    let dir = Dir::new();
    let counts = [12, 20, 15];
    let texts: Vec<String> = (1..).zip(counts).map(|(seed, count)| text(seed, count)).collect();
    dir.write("in.jsonl", jsonl(&texts));
    let plan = dedup(&dir, "in.jsonl", "--tokenizer bert --dry-run --json").success().json();
    assert_eq!(plan["sequences"], "sentences");
    let report = dedup(&dir, "in.jsonl", "--tokenizer bert --json").success().json();
    assert_eq!((&report["documents_kept"], &report["sentences"]), (&3.into(), &47.into()));
    let manifest = manifest(&dir, "out");
    assert_eq!(manifest["sequences"], "sentences");
    assert_eq!(
        (&manifest["sentences"], &manifest["tokenizer"]["name"]),
        (&47.into(), &"bert".into())
    );

    let shard = ShardReader::open(&dir.path("out/corpus")).unwrap();
    let tokenizer = corpus::tokenizer::open("bert").unwrap();
    let mut sequence = 0;
    for (document, text) in (0..).zip(&texts) {
        for sentence in corpus::sentences(text) {
            let mut tokens = Vec::new();
            tokenizer.encode(sentence, &mut tokens).unwrap();
            assert_eq!(shard.sequence(sequence).unwrap(), tokens, "no token ends a document");
            sequence += 1;
        }
        assert_eq!(shard.document_sequences(document).unwrap().end, sequence);
    }
    assert_eq!(shard.num_sequences(), sequence);

    let check = pipeline_in(&dir, "shard verify out --json").success().json();
    assert_eq!((&check[0]["documents"], &check[0]["sequences"]), (&3.into(), &47.into()));
    let shown = pipeline_in(&dir, "shard show out --doc 0 --json").success().json();
    assert_eq!(shown["sequences"].as_array().unwrap().len(), 12);
    assert_eq!(shown["text"].as_str().unwrap().lines().count(), 12);
    let table = pipeline_in(&dir, "shard show out --doc 0").success().stdout;
    assert!(table.contains(" in 12 sequences"), "{table}");
}

#[test]
fn documents_and_sentences_are_not_merged() {
    let dir = Dir::new();
    for (name, seed) in [("a", 1), ("b", 2)] {
        dir.write(&format!("{name}.jsonl"), jsonl(&[text(seed, 20)]));
        let line = format!("dedup {name}.jsonl --out {name} --tokenizer bert");
        pipeline_in(&dir, &line).success();
    }
    pipeline_in(&dir, "dedup a.jsonl --out whole --tokenizer bert --set sequences=documents")
        .success();
    assert_eq!(manifest(&dir, "whole").get("sequences"), None);
    pipeline_in(&dir, "shard merge both a b").success();
    let both = manifest(&dir, "both");
    assert_eq!((&both["sequences"], &both["sentences"]), (&"sentences".into(), &40.into()));
    pipeline_in(&dir, "shard merge none a whole")
        .refused(2, "the sequences of one are documents, and those of the other sentences");
}

#[test]
fn sentences_ask_for_the_vocabulary_of_a_masked_model() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[text(1, 20)]));
    dedup(&dir, "in.jsonl", "--set sequences=sentences").refused(
        2,
        "tokenizer gpt2: has no [CLS], [SEP], [MASK], [PAD], [UNK]: a masked language model needs",
    );
    assert!(!dir.path("out").exists());
}

#[test]
fn text_without_a_token_leaves_a_document_without_sentences() {
    let dir = Dir::new();
    let texts = [text(1, 3), "\u{7}\u{8}\u{7}".to_owned(), text(2, 4)];
    dir.write("in.jsonl", jsonl(&texts));
    let line = "shard from-text in.jsonl --out out --tokenizer bert --json";
    let report = pipeline_in(&dir, line).success().json();
    assert_eq!((&report["documents_kept"], &report["sentences"]), (&3.into(), &7.into()));
    let shard = ShardReader::open(&dir.path("out/corpus")).unwrap();
    assert_eq!(shard.document_sequences(1).unwrap(), 3..3);
    pipeline_in(&dir, "shard verify out").success();
}
