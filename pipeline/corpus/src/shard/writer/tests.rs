//! Shards byte by byte, and what a failed one leaves behind.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

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
        writer.end_document().unwrap();
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

/// Documents, each a list of sequences.
fn documents() -> impl Strategy<Value = Vec<Vec<Vec<u32>>>> {
    let sequence = prop::collection::vec(0_u32..60_000, 1..20);
    prop::collection::vec(prop::collection::vec(sequence, 1..4), 0..12)
}

/// The block of some documents.
fn block_of(documents: &[Vec<Vec<u32>>]) -> ShardBlock {
    let mut block = ShardBlock::new(60_000);
    for document in documents {
        for sequence in document {
            block.push_tokens(&sequence[..1]);
            block.push_tokens(&sequence[1..]);
            block.end_sequence();
        }
        block.end_document();
    }
    block
}

fn files(stem: &Path) -> [Vec<u8>; 2] {
    ["bin", "idx"].map(|extension| fs::read(stem.with_extension(extension)).unwrap())
}

#[test]
fn blocks_of_any_size_make_the_same_shard_as_sequences() {
    proptest!(ProptestConfig::with_cases(64), |(documents in documents(), size in 1..5_usize)| {
        let folder = tempfile::tempdir().unwrap();
        let (single, blocks) = (folder.path().join("single"), folder.path().join("blocks"));
        let mut writer = ShardWriter::create(&single, 60_000).unwrap();
        for document in &documents {
            document.iter().for_each(|sequence| writer.push_sequence(sequence).unwrap());
            writer.end_document().unwrap();
        }
        writer.finish().unwrap();
        let mut writer = ShardWriter::create(&blocks, 60_000).unwrap();
        for block in documents.chunks(size) {
            writer.push_block(&block_of(block)).unwrap();
        }
        writer.finish().unwrap();
        prop_assert_eq!(files(&blocks), files(&single));
    });
}

#[test]
fn shard_that_was_resumed_anywhere_is_the_one_without_a_break() {
    proptest!(ProptestConfig::with_cases(64), |(
        documents in documents(),
        kept in 0..12_usize,
        lost in 0..12_usize,
    )| {
        let folder = tempfile::tempdir().unwrap();
        let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
        let mut writer = ShardWriter::create(&whole, 60_000).unwrap();
        writer.push_block(&block_of(&documents)).unwrap();
        let summary = writer.finish().unwrap();

        let kept = kept.min(documents.len());
        let lost = kept + lost.min(documents.len() - kept);
        let mut writer =
            ShardWriter::resume(&broken, 60_000, &ShardCheckpoint::default()).unwrap();
        writer.push_block(&block_of(&documents[..kept])).unwrap();
        let checkpoint = writer.checkpoint().unwrap();
        writer.push_block(&block_of(&documents[kept..lost])).unwrap();
        writer.checkpoint().unwrap();
        drop(writer);

        let written = serde_json::to_string(&checkpoint).unwrap();
        let checkpoint: ShardCheckpoint = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(checkpoint.documents, kept as u64);
        let mut writer = ShardWriter::resume(&broken, 60_000, &checkpoint).unwrap();
        writer.push_block(&block_of(&documents[kept..])).unwrap();
        let resumed = writer.finish().unwrap();
        prop_assert_eq!(files(&broken), files(&whole));
        prop_assert_eq!(resumed.tokens, summary.tokens);
        prop_assert_eq!(&resumed.files[0].xxh3_128, &summary.files[0].xxh3_128);
        prop_assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    });
}

#[test]
fn shard_is_finished_when_its_index_has_its_name_and_resumed_before() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    let part = |name: &str| folder.path().join(format!(".a.{name}.partial"));
    let mut writer = ShardWriter::resume(&stem, 100, &ShardCheckpoint::default()).unwrap();
    writer.push_document(&[1, 2, 3]).unwrap();
    let checkpoint = writer.checkpoint().unwrap();
    let saved = ["idx.lengths", "idx.documents"].map(|name| fs::read(part(name)).unwrap());
    writer.push_document(&[4]).unwrap();
    assert_eq!(ShardSummary::finished(&stem).unwrap(), None);
    let summary = writer.finish().unwrap();
    assert_eq!(ShardSummary::finished(&stem).unwrap(), Some(summary.clone()));

    // A death between the naming of the data and that of the index.
    fs::rename(folder.path().join("a.idx"), part("idx")).unwrap();
    fs::write(part("idx.lengths"), &saved[0]).unwrap();
    fs::write(part("idx.documents"), &saved[1]).unwrap();
    assert_eq!(ShardSummary::finished(&stem).unwrap(), None);
    let mut writer = ShardWriter::resume(&stem, 100, &checkpoint).unwrap();
    writer.push_document(&[4]).unwrap();
    assert_eq!(writer.finish().unwrap(), summary);
}

#[test]
fn files_that_differ_from_the_checkpoint_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    let mut writer = ShardWriter::resume(&stem, 100, &ShardCheckpoint::default()).unwrap();
    writer.push_document(&[1, 2, 3]).unwrap();
    let checkpoint = writer.checkpoint().unwrap();
    drop(writer);
    let data = folder.path().join(".a.bin.partial");
    fs::write(&data, [9; 6]).unwrap();
    let error = ShardWriter::resume(&stem, 100, &checkpoint).unwrap_err().to_string();
    assert!(error.contains(".a.bin.partial: xxh3_128 of what was written: expected"), "{error}");
    fs::write(&data, [1, 0]).unwrap();
    let error = ShardWriter::resume(&stem, 100, &checkpoint).unwrap_err().to_string();
    assert!(error.ends_with(".a.bin.partial: bytes written: expected 6, found 2"), "{error}");
}

#[test]
fn misfits_of_a_block_are_named_by_their_place_in_the_shard_and_nothing_of_it_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ShardWriter::create(&folder.path().join("a"), 100).unwrap();
    writer.push_document(&[1]).unwrap();
    let mut block = ShardBlock::new(100);
    block.push_document([&[2][..]]);
    block.push_document([&[3][..], &[100, 7]]);
    assert_eq!(
        writer.push_block(&block).unwrap_err().to_string(),
        "token 100 of document 2 lies outside the vocabulary of 100"
    );
    block.clear();
    block.push_document([&[2][..]]);
    block.push_document([&[][..]]);
    let error = writer.push_block(&block).unwrap_err().to_string();
    assert!(error.contains("sequence 2 has no tokens"), "{error}");
    let summary = writer.finish().unwrap();
    assert_eq!((summary.documents, summary.tokens), (1, 1));
}
