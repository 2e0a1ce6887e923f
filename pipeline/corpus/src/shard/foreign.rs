//! Shards as other programs write them, for tests: our writer writes two formats, and no empty
//! sequence.

use std::fs;
use std::path::Path;

use super::ShardPaths;

/// Bytes of a number of the format that `code` stands for.
fn width(code: u8) -> usize {
    match code {
        1 | 2 => 1,
        3 | 8 => 2,
        4 => 4,
        _ => 8,
    }
}

/// Writes an index of documents, each the lengths of its sequences.
pub(crate) fn write_index(stem: &Path, code: u8, documents: &[Vec<i32>]) {
    let lengths = documents.concat();
    let mut bytes = b"MMIDIDX\0\0".to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.push(code);
    bytes.extend((lengths.len() as u64).to_le_bytes());
    bytes.extend((documents.len() as u64 + 1).to_le_bytes());
    bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
    let mut pointer = 0_i64;
    for &length in &lengths {
        bytes.extend(pointer.to_le_bytes());
        pointer += i64::from(length) * width(code) as i64;
    }
    let mut end = 0_i64;
    bytes.extend(end.to_le_bytes());
    for document in documents {
        end += document.len() as i64;
        bytes.extend(end.to_le_bytes());
    }
    fs::write(ShardPaths::new(stem).index, bytes).unwrap();
}

/// Writes a shard of documents, each a list of sequences.
pub(crate) fn write_shard(stem: &Path, code: u8, documents: &[Vec<Vec<i64>>]) {
    let lengths = |document: &Vec<Vec<i64>>| document.iter().map(|it| it.len() as i32).collect();
    write_index(stem, code, &documents.iter().map(lengths).collect::<Vec<_>>());
    let tokens = documents.iter().flatten().flatten();
    let bytes =
        tokens.flat_map(|token| token.to_le_bytes()[..width(code)].to_vec()).collect::<Vec<_>>();
    fs::write(ShardPaths::new(stem).data, bytes).unwrap();
}
