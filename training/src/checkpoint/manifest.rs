//! What a checkpoint says about itself, and the fingerprints of its files.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use corpus::{FileSummary, TokenizerIdentity};
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::plan::Architecture;

/// `manifest.json` of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout.
    pub version: u32,
    /// Optimizer steps done.
    pub step: u64,
    /// The model and its sizes.
    pub model: Architecture,
    /// The vocabulary that the model was trained on.
    pub tokenizer: TokenizerIdentity,
    /// Every other file of the folder.
    pub files: Vec<FileSummary>,
}

impl Manifest {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;
}

/// `state.json`: where training stands. Everything random is a function of the seed and these
/// numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingState {
    /// Optimizer steps done.
    pub step: u64,
    /// Samples that those steps took from the training order.
    pub samples_consumed: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// Compares a file of `folder` with its entry in the manifest: size first, which costs nothing.
pub(super) fn verify(folder: &Path, expected: &FileSummary) -> Result<(), TrainError> {
    let path = folder.join(&expected.name);
    let refuse = |what, expected: &dyn ToString, found: &dyn ToString| TrainError::CheckpointFile {
        path: path.clone(),
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    };
    let bytes = path.metadata().map_err(|source| TrainError::io("read", &path, source))?.len();
    if bytes != expected.bytes {
        return Err(refuse("bytes", &expected.bytes, &bytes));
    }
    let found = FileSummary::of(&path)?;
    if found.xxh3_128 != expected.xxh3_128 {
        return Err(refuse("xxh3-128", &expected.xxh3_128, &found.xxh3_128));
    }
    Ok(())
}

/// Reads a JSON file.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, TrainError> {
    let bytes = std::fs::read(path).map_err(|source| TrainError::io("read", path, source))?;
    serde_json::from_slice(&bytes)
        .map_err(|source| TrainError::Json { path: path.to_owned(), source })
}

/// Writes a JSON file and waits until the disk has it.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), TrainError> {
    let mut json = serde_json::to_vec_pretty(value)
        .map_err(|source| TrainError::Json { path: path.to_owned(), source })?;
    json.push(b'\n');
    write_durably(path, &json)
}

/// Writes a file and waits until the disk has it.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    File::create(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|source| TrainError::io("write", path, source))
}

/// Waits until the disk has the folder's entries.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), TrainError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| TrainError::io("sync", folder, source))
}
