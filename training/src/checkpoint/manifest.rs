//! What a checkpoint says about itself, and the fingerprints of its files.

use std::path::Path;

use corpus::{FileSummary, PendingFile, TokenizerIdentity};
use serde::{Deserialize, Serialize};

use super::initial_weights::InitRecord;
use crate::TrainError;
use crate::architecture::Architecture;
use crate::data::DataRecord;
use crate::optim::LossScalerState;

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
    /// What the samples depend on; `None` where the model comes from another program.
    #[serde(default)]
    pub data: Option<DataRecord>,
    /// The weights that training began with, where a seed did not draw them.
    #[serde(default)]
    pub init_from: Option<InitRecord>,
    /// Every other file of the folder.
    pub files: Vec<FileSummary>,
}

impl Manifest {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 2;

    /// Whether it lists a file of that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name == name)
    }
}

/// `state.json`: where training stands. Everything random is a function of the seed and these
/// numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingState {
    /// Steps done.
    pub step: u64,
    /// Updates of the optimizer in them: all but the skipped ones.
    pub updates: u64,
    /// Samples that those steps took from the training order.
    pub samples_consumed: u64,
    /// Seed of the run.
    pub seed: u64,
    /// The loss scale and its counters, where the run has one.
    pub loss_scaler: Option<LossScalerState>,
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

/// Writes a JSON file in place of one that may be there.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), TrainError> {
    let mut json = serde_json::to_vec_pretty(value)
        .map_err(|source| TrainError::Json { path: path.to_owned(), source })?;
    json.push(b'\n');
    replace_file(path, &json)
}

/// Writes a file in place of one that may be there: at any moment the disk has one or the other.
pub(in crate::checkpoint) fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let mut file = PendingFile::replace(path)?;
    file.write(|file| file.write_all(bytes))?;
    file.sync()?;
    Ok(file.commit()?)
}
