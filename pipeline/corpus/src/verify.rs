//! Whether the shards at a place are what they claim to be.
//!
//! A data folder is held against its manifest, checksums and all. Shards of other programs have no
//! manifest; of them the index is checked number by number, the size of the data against it, and
//! every token for being one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::CorpusError;
use crate::data_folder::{DataFolder, MANIFEST};
use crate::shard::{DType, ShardFault, ShardReader};

/// What a shard that passed holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardCheck {
    /// The shard's path without `.bin` or `.idx`.
    pub stem: PathBuf,
    /// Number of documents.
    pub documents: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Format of the tokens.
    pub dtype: DType,
    /// The highest token; `None` where there is none.
    pub max_token: Option<u32>,
}

impl ShardCheck {
    /// Reads all tokens of an open shard.
    pub(crate) fn of(stem: &Path, shard: &ShardReader) -> Result<Self, CorpusError> {
        Ok(Self {
            stem: stem.to_owned(),
            documents: shard.num_documents(),
            sequences: shard.num_sequences(),
            tokens: shard.num_tokens(),
            dtype: shard.dtype(),
            max_token: shard.max_token()?,
        })
    }
}

/// Checks the data folder, the folder of shards or the single shard (by stem or by file) at `path`.
///
/// # Errors
///
/// The first fault that is found, with the file, what was expected, and what is there.
pub fn verify(path: &Path) -> Result<Vec<ShardCheck>, CorpusError> {
    if path.join(MANIFEST).is_file() {
        return Ok(vec![DataFolder::open(path)?.verify()?]);
    }
    let stems = if path.is_dir() { stems_in(path)? } else { vec![path.to_owned()] };
    stems.iter().map(|stem| ShardCheck::of(stem, &ShardReader::open(stem)?)).collect()
}

/// Stems of the shards in a folder, by name.
fn stems_in(folder: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let mut stems = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(CorpusError::io("list", folder))? {
        let path = entry.map_err(CorpusError::io("list", folder))?.path();
        if path.extension().is_some_and(|extension| extension == "bin" || extension == "idx") {
            stems.insert(path.with_extension(""));
        }
    }
    if stems.is_empty() {
        return Err(CorpusError::Shard { path: folder.to_owned(), fault: ShardFault::NoShard });
    }
    Ok(stems.into_iter().collect())
}
