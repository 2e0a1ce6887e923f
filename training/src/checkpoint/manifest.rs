//! What a checkpoint says about itself, and the fingerprints of its files.

use std::collections::HashSet;
use std::path::{Component, Path};

use corpus::{FileSummary, Observer, PendingFile, TokenizerIdentity, Unit};
use serde::{Deserialize, Serialize};

use super::initial_weights::InitRecord;
use super::{HUGGING_FACE_CONFIG, MANIFEST, MODEL, OPTIMIZER, STATE, TRAIN_CONFIG};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
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

    /// Reads the manifest of the checkpoint in `folder`. Of what it says, only the list of files is
    /// looked at: that each of them lies in this folder and nowhere else, and that none is missing.
    pub(super) fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(MANIFEST);
        let manifest: Self = read_json(&path)?;
        let refuse = |what, expected: &str, found: String| {
            let (path, expected) = (path.clone(), expected.to_owned());
            Err(CheckpointError::CheckpointFile { path, what, expected, found }.into())
        };
        if manifest.version != Self::VERSION {
            return refuse("version", &Self::VERSION.to_string(), manifest.version.to_string());
        }
        let mut names = HashSet::new();
        for file in &manifest.files {
            if !is_plain_name(&file.name) || file.name == MANIFEST || !names.insert(&file.name) {
                return refuse("files", "names in this folder, each once", file.name.clone());
            }
        }
        let of_a_run = [STATE, OPTIMIZER, TRAIN_CONFIG];
        let needed = [MODEL, HUGGING_FACE_CONFIG]
            .into_iter()
            .chain(manifest.tokenizer.file_name())
            .chain(of_a_run.into_iter().filter(|_| manifest.has(STATE)));
        match needed.into_iter().find(|name| !manifest.has(name)) {
            Some(missing) => refuse("files", missing, "a list without it".to_owned()),
            None => Ok(manifest),
        }
    }

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

/// Whether `name` is that of a file in a folder, and leads nowhere else.
fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let first = parts.next();
    matches!(first, Some(Component::Normal(only)) if only == name) && parts.next().is_none()
}

/// Compares files of `folder` with their entries in a manifest: all sizes first, which costs nothing.
pub(super) fn verify(
    folder: &Path,
    files: &[FileSummary],
    observer: &dyn Observer,
) -> Result<(), TrainError> {
    for file in files {
        let path = folder.join(&file.name);
        let bytes = path.metadata().map_err(|source| TrainError::io("read", &path, source))?.len();
        if bytes != file.bytes {
            let (expected, found) = (file.bytes.to_string(), bytes.to_string());
            return Err(
                CheckpointError::CheckpointFile { path, what: "bytes", expected, found }.into()
            );
        }
    }
    let total = files.iter().map(|file| file.bytes).sum();
    observer.begin("verify checkpoint", Some(total), Unit::Bytes);
    let verified = files.iter().try_for_each(|file| {
        let path = folder.join(&file.name);
        let found = FileSummary::observed(&path, observer)?.xxh3_128;
        if found == file.xxh3_128 {
            return Ok(());
        }
        let expected = file.xxh3_128.clone();
        Err(CheckpointError::CheckpointFile { path, what: "xxh3-128", expected, found }.into())
    });
    observer.finish();
    verified
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
