//! Indexes of shards too large to write, and indexes with every kind of fault.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::PendingFile;
use crate::shard::index_writer::IndexWriter;
use crate::shard::{ShardCheckpoint, ShardPaths};

/// The index of documents of these lengths, one sequence each, as bytes.
fn index_of(dtype: DType, lengths: &[usize]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let paths = ShardPaths::new(&folder.path().join("a"));
    let mut writer = IndexWriter::create(&paths, dtype).unwrap();
    for &length in lengths {
        writer.push_sequence(length).unwrap();
        writer.end_document().unwrap();
    }
    let mut index = PendingFile::create(&paths.index).unwrap();
    writer.write(&mut index).unwrap();
    index.sync().unwrap();
    index.commit().unwrap();
    fs::read(&paths.index).unwrap()
}

fn open(bytes: &[u8]) -> Result<ShardIndex, CorpusError> {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.idx");
    fs::write(&path, bytes).unwrap();
    ShardIndex::open(&path)
}

fn fault(bytes: &[u8]) -> ShardFault {
    match open(bytes).unwrap_err() {
        CorpusError::Shard { path, fault } => {
            assert!(path.ends_with("a.idx"));
            fault
        }
        other => panic!("{other}"),
    }
}

/// `bytes` with `number` written at `offset`.
fn with(mut bytes: Vec<u8>, offset: usize, number: &[u8]) -> Vec<u8> {
    bytes[offset..offset + number.len()].copy_from_slice(number);
    bytes
}

#[test]
fn places_beyond_32_bits_are_exact() {
    let documents = (1 << 16) + 1;
    let index = open(&index_of(DType::Uint16, &vec![65_536; documents])).unwrap();
    assert_eq!(index.num_documents(), 65_537);
    assert_eq!(index.num_tokens(), 4_295_032_832);
    assert_eq!(index.data_bytes(), 8_590_065_664);
    assert_eq!(index.document_tokens(65_536).unwrap(), 4_294_967_296..4_295_032_832);
    assert_eq!(index.sequence_tokens(32_768).unwrap(), 2_147_483_648..2_147_549_184);
}

#[test]
fn one_sequence_holds_at_most_what_its_length_field_does() {
    let longest = i32::MAX as usize;
    let index = open(&index_of(DType::Int32, &[longest, 198_705_720, longest])).unwrap();
    assert_eq!(index.num_tokens(), 2 * longest as u64 + 198_705_720);
    assert_eq!(index.document_tokens(2).unwrap().start, longest as u64 + 198_705_720);
    let folder = tempfile::tempdir().unwrap();
    let paths = ShardPaths::new(&folder.path().join("a"));
    let mut writer = IndexWriter::create(&paths, DType::Int32).unwrap();
    let error = writer.push_sequence(longest + 1).unwrap_err().to_string();
    let expected = "a.idx: length of a sequence 2147483648 exceeds what the format holds";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn overflow_is_an_error() {
    assert_eq!(data_bytes(1 << 40, 4), Ok(1 << 42));
    assert!(data_bytes(1 << 62, 2).is_err());
    assert!(data_bytes(u64::MAX, 2).is_err());
    // A writer that is about to pass the last place that a pointer can name.
    let folder = tempfile::tempdir().unwrap();
    let paths = ShardPaths::new(&folder.path().join("a"));
    let written = ShardCheckpoint { tokens: (1 << 62) - 5, ..ShardCheckpoint::default() };
    let mut writer = IndexWriter::resume(&paths, DType::Uint16, &written).unwrap();
    writer.push_sequence(4).unwrap();
    let error = writer.push_sequence(1).unwrap_err().to_string();
    assert!(error.ends_with("number of tokens 4611686018427387904 exceeds what the format holds"));
    let header = |sequences: u64, entries: u64| {
        let bytes = with(index_of(DType::Uint16, &[1]), 18, &sequences.to_le_bytes());
        with(bytes, 26, &entries.to_le_bytes())
    };
    assert!(matches!(fault(&header(u64::MAX, 2)), ShardFault::TooLarge { .. }));
    assert!(matches!(fault(&header(1, u64::MAX)), ShardFault::TooLarge { .. }));
    assert!(matches!(fault(&header(1 << 40, 2)), ShardFault::IndexSize { .. }));
    assert_eq!(fault(&header(0, 0)), ShardFault::NoDocumentList);
}

#[test]
fn empty_shard_has_no_documents() {
    let index = open(&index_of(DType::Uint16, &[])).unwrap();
    assert_eq!((index.num_documents(), index.num_sequences(), index.num_tokens()), (0, 0, 0));
    assert_eq!(
        index.document_tokens(0),
        Err(ShardFault::OutOfRange { what: "document", index: 0, count: 0 })
    );
}

#[test]
fn files_that_are_no_index_are_named() {
    let good = index_of(DType::Uint16, &[3, 4]);
    assert_eq!(fault(b""), ShardFault::ShortHeader { expected: 34, found: 0 });
    assert_eq!(fault(&good[..33]), ShardFault::ShortHeader { expected: 34, found: 33 });
    assert_eq!(
        fault(&with(good.clone(), 0, b"X")),
        ShardFault::Magic { found: r"XMIDIDX\x00\x00".to_owned() }
    );
    assert_eq!(fault(b"TNTIDX\0\0\x01\0\0\0\0\0\0\0"), ShardFault::Legacy);
    assert_eq!(fault(&with(good.clone(), 9, &[2])), ShardFault::Version { found: 2 });
    assert_eq!(fault(&with(good.clone(), 17, &[9])), ShardFault::UnknownDType { code: 9 });
    assert_eq!(fault(&with(good, 17, &[7])), ShardFault::FloatTokens { code: 7 });
}

#[test]
fn every_cut_is_refused() {
    let good = index_of(DType::Uint16, &[3, 4]);
    for length in 0..good.len() {
        assert!(open(&good[..length]).is_err(), "{length} bytes");
    }
    let expected = good.len() as u64;
    let cut = fault(&good[..good.len() - 1]);
    assert_eq!(
        cut,
        ShardFault::IndexSize { expected, found: expected - 1, sequences: 2, documents: 2 }
    );
    assert!(open(&[&good[..], &[0]].concat()).is_err());
}

#[test]
fn every_flipped_bit_is_refused_or_changes_the_data_size() {
    let good = index_of(DType::Uint16, &[300, 4, 5]);
    let size = open(&good).unwrap().data_bytes();
    for bit in 0..8 * good.len() {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(index) = open(&flipped) {
            // Within the index alone a longer last sequence, and a document list that still
            // ascends, hold together.
            let last_length = 34 + 8..34 + 12;
            let documents = 34 + 36..good.len();
            let place = bit / 8;
            assert!(
                last_length.contains(&place) && index.data_bytes() != size
                    || documents.contains(&place),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn contradictions_are_named_with_expected_and_found() {
    // Three documents: lengths at 34, pointers at 46, the document list at 70.
    let good = index_of(DType::Uint16, &[3, 4, 5]);
    for (offset, number, message) in [
        (34, &(-3_i32).to_le_bytes()[..], "sequence 0 has -3 tokens: expected 0 or more"),
        (
            34,
            &4_i32.to_le_bytes(),
            "sequence 1 begins at byte 6 of the data: expected 8, where the one before ends",
        ),
        (54, &(-6_i64).to_le_bytes(), "sequence 1 begins at byte -6 of the data: expected 6"),
        (54, &8_i64.to_le_bytes(), "sequence 1 begins at byte 8 of the data: expected 6"),
        (70, &1_i64.to_le_bytes(), "entry 0 of the list of documents is 1: expected 0"),
        (78, &(-1_i64).to_le_bytes(), "entry 1 of the list of documents is -1: expected 0 or more"),
        (86, &0_i64.to_le_bytes(), "entry 2 of the list of documents is 0: expected 1 or more"),
        (86, &4_i64.to_le_bytes(), "entry 3 of the list of documents is 3: expected 4 or more"),
        (
            94,
            &2_i64.to_le_bytes(),
            "entry 3 of the list of documents is 2: expected 3, the number of sequences",
        ),
    ] {
        let found = fault(&with(good.clone(), offset, number)).to_string();
        assert!(found.starts_with(message), "{found}");
    }
}
