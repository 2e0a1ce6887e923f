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
use crate::data_folder::{DataFolder, MANIFEST, PROVENANCE};
use crate::observer::{Observer, Unit};
use crate::shard::{DType, ShardFault, ShardReader, ShardSummary};

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
    pub(crate) fn of(
        stem: &Path,
        shard: &ShardReader,
        observer: &dyn Observer,
    ) -> Result<Self, CorpusError> {
        Ok(Self::scanned(stem, shard, shard.max_token(observer)?))
    }

    /// What an open shard holds whose highest token is known.
    pub(crate) fn scanned(stem: &Path, shard: &ShardReader, max_token: Option<u32>) -> Self {
        Self {
            stem: stem.to_owned(),
            documents: shard.num_documents(),
            sequences: shard.num_sequences(),
            tokens: shard.num_tokens(),
            dtype: shard.dtype(),
            max_token,
        }
    }

    /// What a shard holds that was just made of these.
    pub(crate) fn merged(stem: &Path, summary: &ShardSummary, parts: &[Self]) -> Self {
        Self {
            stem: stem.to_owned(),
            documents: summary.documents,
            sequences: summary.sequences,
            tokens: summary.tokens,
            dtype: summary.dtype,
            max_token: parts.iter().filter_map(|part| part.max_token).max(),
        }
    }
}

/// Checks the data folder, the folder of shards or the single shard (by stem or by file) at `path`.
///
/// # Errors
///
/// The first fault that is found, with the file, what was expected, and what is there; or where the
/// observer asks to stop.
pub fn verify(path: &Path, observer: &dyn Observer) -> Result<Vec<ShardCheck>, CorpusError> {
    if path.join(MANIFEST).is_file() {
        return Ok(vec![DataFolder::open(path)?.verify(observer)?]);
    }
    if path.join(PROVENANCE).is_file() {
        tracing::warn!(
            "{}: has lost its {MANIFEST}: no checksum is compared, only whether the shard is \
             consistent",
            path.display()
        );
    }
    let open = |stem: PathBuf| Ok((stem.clone(), ShardReader::open(&stem)?));
    let shards: Vec<_> =
        shards_at(path)?.into_iter().map(open).collect::<Result<_, CorpusError>>()?;
    check_shards(&shards, observer)
}

/// Reads all tokens of open shards, as one stage of work.
pub(crate) fn check_shards(
    shards: &[(PathBuf, ShardReader)],
    observer: &dyn Observer,
) -> Result<Vec<ShardCheck>, CorpusError> {
    let bytes = shards.iter().map(|(_, shard)| shard.index().data_bytes()).sum();
    observer.begin("verify", Some(bytes), Unit::Bytes);
    let checks = shards.iter().map(|(stem, shard)| ShardCheck::of(stem, shard, observer)).collect();
    observer.finish();
    checks
}

/// Stems of the shards in a folder, by name; or the shard of this stem or file.
///
/// # Errors
///
/// Where the folder cannot be listed or holds no shard.
pub fn shards_at(path: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut stems = BTreeSet::new();
    for entry in fs::read_dir(path).map_err(CorpusError::io("list", path))? {
        let file = entry.map_err(CorpusError::io("list", path))?.path();
        if file.extension().is_some_and(|extension| extension == "bin" || extension == "idx") {
            stems.insert(file.with_extension(""));
        }
    }
    if stems.is_empty() {
        return Err(CorpusError::Shard { path: path.to_owned(), fault: ShardFault::NoShard });
    }
    Ok(stems.into_iter().collect())
}
