//! Shards of every width, of any size, and broken ones.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use tempfile::TempDir;

use super::*;
use crate::Silent;
use crate::shard::ShardWriter;
use crate::shard::foreign::{write_index, write_shard};

/// A shard with documents of 3, 4 and 5 tokens, 1 to 12.
fn good_shard() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    let mut writer = ShardWriter::create(&stem, 100).unwrap();
    for document in [&[1, 2, 3][..], &[4, 5, 6, 7], &[8, 9, 10, 11, 12]] {
        writer.push_document(document).unwrap();
    }
    writer.finish().unwrap();
    (folder, stem)
}

#[test]
fn documents_sequences_and_ranges_are_read() {
    let (_folder, stem) = good_shard();
    for path in [stem.clone(), stem.with_extension("bin"), stem.with_extension("idx")] {
        let reader = ShardReader::open(&path).unwrap();
        assert_eq!(reader.document(1).unwrap(), [4, 5, 6, 7]);
        assert_eq!(reader.sequence(2).unwrap(), [8, 9, 10, 11, 12]);
        assert_eq!(reader.tokens(2..9).unwrap(), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(reader.tokens(12..12).unwrap(), [0; 0]);
        assert_eq!(reader.max_token(&Silent).unwrap(), Some(12));
    }
}

#[test]
fn reads_beyond_the_end_are_errors() {
    let (_folder, stem) = good_shard();
    let reader = ShardReader::open(&stem).unwrap();
    let message =
        |error: CorpusError| error.to_string().rsplit_once("a.bin: ").unwrap().1.to_owned();
    assert_eq!(message(reader.document(3).unwrap_err()), "no document 3: the shard has 3");
    assert_eq!(
        message(reader.sequence(u64::MAX).unwrap_err()),
        format!("no sequence {}: the shard has 3", u64::MAX)
    );
    assert_eq!(message(reader.tokens(10..14).unwrap_err()), "no token 13: the shard has 12");
    assert!(reader.read(u64::MAX, &mut [0; 2]).is_err());
}

#[test]
fn every_integer_format_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for code in [1, 2, 3, 4, 5, 8] {
        let stem = folder.path().join(format!("code{code}"));
        write_shard(&stem, code, &[vec![vec![7, 0]], vec![vec![127, 3, 4]]]);
        let reader = ShardReader::open(&stem).unwrap();
        assert_eq!(reader.document(0).unwrap(), [7, 0], "code {code}");
        assert_eq!(reader.document(1).unwrap(), [127, 3, 4], "code {code}");
    }
}

#[test]
fn empty_sequences_and_documents_without_any_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    write_shard(&stem, 8, &[vec![], vec![vec![], vec![5]], vec![vec![]], vec![vec![6]]]);
    let reader = ShardReader::open(&stem).unwrap();
    assert_eq!((reader.num_documents(), reader.num_sequences(), reader.num_tokens()), (4, 4, 2));
    let documents: Vec<_> = (0..4).map(|document| reader.document(document).unwrap()).collect();
    assert_eq!(documents, [&[][..], &[5], &[], &[6]]);
}

#[test]
fn sixteen_bit_shards_of_vocabularies_above_65500_load() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    for highest in [65_499, 65_500, 65_501, 65_534, 65_535] {
        write_shard(&stem, 8, &[vec![vec![0, highest]]]);
        let reader = ShardReader::open(&stem).unwrap();
        assert_eq!(reader.document(0).unwrap(), [0, highest as u32]);
        assert_eq!(reader.max_token(&Silent).unwrap(), Some(highest as u32));
    }
}

#[test]
fn negative_numbers_are_no_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    for (code, token) in [(2, -1), (3, -1), (4, -1), (5, -1), (5, 1 << 32)] {
        write_shard(&stem, code, &[vec![vec![5, token, 5]]]);
        let error = ShardReader::open(&stem).unwrap().document(0).unwrap_err().to_string();
        let expected = format!("a.bin: token 1 is {token}: expected 0 to 4294967295");
        assert!(error.ends_with(&expected), "{error}");
    }
}

#[test]
fn last_document_of_a_5_gib_shard_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("a");
    let total: u64 = 5 << 29; // tokens of 16 bits in 5 GiB
    let last = 3;
    let long = i32::MAX;
    write_index(&stem, 8, &[vec![long], vec![(total - long as u64) as i32 - last], vec![last]]);
    let mut data = File::create(ShardPaths::new(&stem).data).unwrap();
    data.set_len(5 << 30).unwrap();
    data.seek(SeekFrom::End(-2 * i64::from(last))).unwrap();
    data.write_all(&[11_u16, 12, 13].map(u16::to_le_bytes).concat()).unwrap();

    let reader = ShardReader::open(&stem).unwrap();
    assert_eq!(reader.num_tokens(), total);
    assert_eq!(reader.document(2).unwrap(), [11, 12, 13]);
    assert_eq!(reader.tokens(total - 5..total).unwrap(), [0, 0, 11, 12, 13]);
}

#[test]
fn broken_pairs_are_refused_with_file_expected_and_found() {
    type Damage = fn(&Path);
    let cut = |path: PathBuf, bytes: u64| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
    };
    let damages: [(Damage, &str); 6] = [
        (
            |stem| fs::remove_file(stem.with_extension("idx")).unwrap(),
            "a.idx: missing; a shard is a .bin and an .idx file of one name, and a.bin is there alone",
        ),
        (
            |stem| fs::remove_file(stem.with_extension("bin")).unwrap(),
            "a.bin: missing; a shard is a .bin and an .idx file of one name, and a.idx is there alone",
        ),
        (
            |stem| fs::write(stem.with_extension("idx"), b"").unwrap(),
            "a.idx: index of 0 bytes: expected at least 34, its header; it was cut: copy the shard again",
        ),
        (
            |stem| {
                let mut index = fs::read(stem.with_extension("idx")).unwrap();
                index[34] ^= 0x10;
                fs::write(stem.with_extension("idx"), index).unwrap();
            },
            "a.idx: sequence 1 begins at byte 6 of the data: expected 38, where the one before ends",
        ),
        (
            |stem| {
                let mut index = fs::read(stem.with_extension("idx")).unwrap();
                index[42] ^= 0x10;
                fs::write(stem.with_extension("idx"), index).unwrap();
            },
            "a.bin: data of 24 bytes: expected 56, 28 tokens of Uint16; it was cut or damaged: \
             copy the shard again",
        ),
        (
            |stem| write_index(stem, 8, &[vec![6], vec![7]]),
            "a.bin: data of 24 bytes: expected 26, 13 tokens of Uint16; it was cut or damaged: \
             copy the shard again",
        ),
    ];
    let refused = |stem: &Path, message: &str| {
        let error = ShardReader::open(stem).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
    };
    for (damage, message) in damages {
        let (_folder, stem) = good_shard();
        damage(&stem);
        refused(&stem, message);
    }
    let (_folder, stem) = good_shard();
    cut(stem.with_extension("bin"), 2);
    refused(
        &stem,
        "a.bin: data of 22 bytes: expected 24, 12 tokens of Uint16; it was cut or damaged: copy the shard again",
    );
    let (_folder, stem) = good_shard();
    cut(stem.with_extension("idx"), 1);
    refused(
        &stem,
        "a.idx: index of 101 bytes: expected 102 for 3 sequences and 3 documents; it was cut or damaged: copy the shard again",
    );
}
