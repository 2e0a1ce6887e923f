//! Shards byte by byte, and what a failed one leaves behind.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::shard::ShardReader;

/// Files written by megatron-core; `tests/fixtures/README.md` says more.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn contents() -> HashMap<String, Value> {
    serde_json::from_slice(&fs::read(fixture("indexed.json")).unwrap()).unwrap()
}

fn sequences(contents: &HashMap<String, Value>, key: &str) -> Vec<Vec<u32>> {
    serde_json::from_value(contents[key].clone()).unwrap()
}

fn assert_same_bytes(stem: &Path, fixture_name: &str) {
    for extension in ["bin", "idx"] {
        let written = fs::read(stem.with_extension(extension)).unwrap();
        let expected = fs::read(fixture(fixture_name).with_extension(extension)).unwrap();
        assert!(written == expected, "{fixture_name}.{extension}");
    }
}

#[test]
fn shards_are_megatrons_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let contents = contents();
    for (name, vocab_size) in [("gpt2_u16", 50_257), ("gpt2_i32", 65_500)] {
        let stem = folder.path().join(name);
        let mut writer = ShardWriter::create(&stem, vocab_size).unwrap();
        for document in sequences(&contents, "gpt2") {
            writer.push_document(&document).unwrap();
        }
        let summary = writer.finish().unwrap();
        assert_same_bytes(&stem, name);
        for file in &summary.files {
            assert_eq!(FileSummary::of(&folder.path().join(&file.name)).unwrap(), *file);
        }
    }

    let stem = folder.path().join("bert_u16");
    let mut writer = ShardWriter::create(&stem, 30_522).unwrap();
    let sentences = sequences(&contents, "bert");
    let documents: Vec<usize> = serde_json::from_value(contents["bert_doc_idx"].clone()).unwrap();
    for document in documents.windows(2) {
        for sentence in &sentences[document[0]..document[1]] {
            writer.push_sequence(sentence).unwrap();
        }
        writer.end_document();
    }
    let summary = writer.finish().unwrap();
    assert_eq!((summary.documents, summary.sequences, summary.tokens), (17, 75, 1775));
    assert_same_bytes(&stem, "bert_u16");
}

#[test]
fn highest_tokens_of_vocabularies_around_16_bits_survive() {
    let folder = tempfile::tempdir().unwrap();
    for vocab_size in [65_499, 65_500, 65_536, 65_537, 119_547] {
        let stem = folder.path().join(vocab_size.to_string());
        let highest = vocab_size as u32 - 1;
        let mut writer = ShardWriter::create(&stem, vocab_size).unwrap();
        writer.push_document(&[0, highest]).unwrap();
        writer.finish().unwrap();
        let reader = ShardReader::open(&stem).unwrap();
        assert_eq!(reader.document(0).unwrap(), [0, highest]);
        assert_eq!(reader.dtype(), DType::for_vocabulary(vocab_size));
    }
}

#[test]
fn tokens_outside_the_vocabulary_and_empty_documents_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::create(&folder.path().join("a"), 100).unwrap();
    writer.push_document(&[1]).unwrap();
    assert_eq!(
        writer.push_document(&[99, 100]).unwrap_err().to_string(),
        "token 100 of document 1 lies outside the vocabulary of 100"
    );
    assert!(
        writer.push_document(&[]).unwrap_err().to_string().contains("sequence 1 has no tokens")
    );
    let summary = writer.finish().unwrap();
    assert_eq!((summary.documents, summary.tokens), (1, 1));
}

#[test]
fn unfinished_shard_leaves_nothing_and_finished_one_no_more_than_itself() {
    let folder = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let stem = folder.path().join("a");
    let mut writer = ShardWriter::create(&stem, 100).unwrap();
    writer.push_document(&[1, 2, 3]).unwrap();
    assert!(names().iter().all(|name| name.to_string_lossy().starts_with('.')), "{:?}", names());
    drop(writer);
    assert!(names().is_empty(), "{:?}", names());

    ShardWriter::create(&stem, 100).unwrap().finish().unwrap();
    assert_eq!(names(), ["a.bin", "a.idx"]);
    let error = ShardWriter::create(&stem, 100).unwrap_err();
    assert!(error.to_string().contains("a.bin exists already"), "{error}");
}

#[test]
fn what_is_written_is_read_back() {
    let documents = prop::collection::vec(prop::collection::vec(0_u32..70_000, 1..40), 0..20);
    proptest!(ProptestConfig::with_cases(64), |(documents in documents, wide in any::<bool>())| {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("a");
        let vocab_size = if wide { 70_000 } else { 60_000 };
        let fitting = |token: u32| token % vocab_size;
        let documents: Vec<Vec<u32>> =
            documents.into_iter().map(|tokens| tokens.into_iter().map(fitting).collect()).collect();
        let mut writer = ShardWriter::create(&stem, vocab_size as usize).unwrap();
        for document in &documents {
            writer.push_document(document).unwrap();
        }
        let summary = writer.finish().unwrap();
        let reader = ShardReader::open(&stem).unwrap();
        prop_assert_eq!(reader.num_documents(), documents.len() as u64);
        prop_assert_eq!(reader.num_tokens(), summary.tokens);
        for (index, document) in documents.iter().enumerate() {
            prop_assert_eq!(&reader.document(index as u64).unwrap(), document);
        }
        prop_assert_eq!(reader.tokens(0..summary.tokens).unwrap(), documents.concat());
    });
}
