//! Opening a checkpoint: find the folder, hold every file against the manifest, then map the
//! tensors.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::{DataFolder, TokenizerIdentity};
use serde::Deserialize;
use serde_json::Value;
use tracing::{info, warn};

use super::manifest::{Manifest, TrainingState, read_json, verify};
use super::tensor_map::TensorMap;
use super::{
    CHECKPOINTS, EXP_AVG, EXP_AVG_SQ, HUGGING_FACE_CONFIG, LATEST, MANIFEST, MODEL, OPTIMIZER,
    STATE, TRAIN_CONFIG, named, retention, step_folders, step_of,
};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::config::ParallelConfig;
use crate::model::Gpt2Config;
use crate::optim::Moments;
use crate::parallel::ParallelDims;
use crate::parameters::{ParameterSource, ParameterSpec};

/// A checkpoint that has been verified; gives its weights to any tensor-parallel layout.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    /// `None` where another program's weights became a checkpoint.
    state: Option<TrainingState>,
    weights: TensorMap,
}

impl Checkpoint {
    /// Opens a checkpoint folder, or the newest complete one in a run folder or in its
    /// `checkpoints` folder: the one that `latest` names, unless a later one verifies, which a
    /// death between the two leaves.
    ///
    /// Reads every file once to compare it with the manifest.
    ///
    /// # Errors
    ///
    /// When there is no checkpoint, a file has another size or hash than the manifest says, or the
    /// tensors are not those of the model: the error names the file and the tensor.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let Resolved { named, later } = resolve(path)?;
        for folder in later {
            match Self::open_folder(folder.clone()) {
                Ok(checkpoint) => {
                    info!("{} is later than what `latest` names: taking it", folder.display());
                    return Ok(checkpoint);
                }
                Err(error) => warn!("passing over a broken checkpoint: {error}"),
            }
        }
        Self::open_folder(named)
    }

    /// Opens the newest complete checkpoint in the folder `checkpoints`, by the numbers in their
    /// names, of which `accept` has nothing to say against; tells which are passed over, and why.
    /// None where there is none at all.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoUsableCheckpoint`] where there are some, and each is broken or refused.
    pub(crate) fn newest_complete(
        checkpoints: &Path,
        accept: impl Fn(&Self) -> Result<(), TrainError>,
    ) -> Result<Option<Self>, TrainError> {
        if !checkpoints.is_dir() {
            return Ok(None);
        }
        for path in retention::leftovers(checkpoints)? {
            warn!("passing over {}: it was not finished, or was being deleted", path.display());
        }
        let mut newest_fault = None;
        for (step, folder) in step_folders(checkpoints)? {
            let accepted = Self::open_folder(folder).and_then(|it| accept(&it).map(|()| it));
            match accepted {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) => {
                    warn!(step, "passing over a broken checkpoint: {error}");
                    newest_fault.get_or_insert(error);
                }
            }
        }
        match newest_fault {
            None => Ok(None),
            Some(fault) => Err(TrainError::NoUsableCheckpoint {
                path: checkpoints.to_owned(),
                source: Box::new(fault),
            }),
        }
    }

    fn open_folder(folder: PathBuf) -> Result<Self, TrainError> {
        let manifest: Manifest = read_json(&folder.join(MANIFEST))?;
        if manifest.version != Manifest::VERSION {
            return Err(TrainError::CheckpointFile {
                path: folder.join(MANIFEST),
                what: "version",
                expected: Manifest::VERSION.to_string(),
                found: manifest.version.to_string(),
            });
        }
        for file in &manifest.files {
            verify(&folder, file)?;
        }
        let state = manifest.has(STATE).then(|| read_json::<TrainingState>(&folder.join(STATE)));
        let state = state.transpose()?;
        if let Some(state) = state.as_ref().filter(|state| state.step != manifest.step) {
            return Err(TrainError::CheckpointFile {
                path: folder.join(STATE),
                what: "step",
                expected: manifest.step.to_string(),
                found: state.step.to_string(),
            });
        }
        let weights = TensorMap::open(&folder.join(MODEL))?;
        let specs = manifest.model.parameters();
        weights.check(&named(&specs, "").collect::<Vec<_>>())?;
        Ok(Self { folder, manifest, state, weights })
    }

    /// The checkpoint's own folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Optimizer steps done.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// Where training stood.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoTrainingState`] for weights that came from another program.
    pub fn state(&self) -> Result<&TrainingState, TrainError> {
        self.state.as_ref().ok_or_else(|| TrainError::NoTrainingState { path: self.folder.clone() })
    }

    /// Whether training can go on from it: whether it has more than weights.
    pub fn has_training_state(&self) -> bool {
        self.state.is_some()
    }

    /// What its manifest says.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Hash of one of its files, of that name.
    pub(super) fn hash_of(&self, name: &str) -> Option<String> {
        let file = self.manifest.files.iter().find(|file| file.name == name)?;
        Some(file.xxh3_128.clone())
    }

    /// The resolved configuration of the run that wrote it.
    ///
    /// # Errors
    ///
    /// When it has none, or the file cannot be read.
    pub(crate) fn train_config(&self) -> Result<Value, TrainError> {
        self.state()?;
        read_json(&self.folder.join(TRAIN_CONFIG))
    }

    /// The grid of ranks that wrote it.
    ///
    /// # Errors
    ///
    /// When the configuration beside it cannot be read.
    pub fn written_by(&self) -> Result<ParallelDims, TrainError> {
        let config: WrittenBy = read_json(&self.folder.join(TRAIN_CONFIG))?;
        Ok(config.parallel.dims())
    }

    /// The model and its sizes.
    pub fn architecture(&self) -> &Architecture {
        &self.manifest.model
    }

    /// The sizes of a GPT-2.
    pub fn model_config(&self) -> &Gpt2Config {
        let Architecture::Gpt2(config) = &self.manifest.model;
        config
    }

    /// The tokenizer of the text that the model was trained on, under a name by which it is found
    /// from any folder.
    ///
    /// # Errors
    ///
    /// When the working folder cannot be told.
    pub fn tokenizer(&self) -> Result<TokenizerIdentity, TrainError> {
        Ok(self.manifest.tokenizer.seen_from(&self.folder)?)
    }

    /// The optimizer's moments of rank `rank` of `size`, in the order of the parameter table.
    ///
    /// # Errors
    ///
    /// When the optimizer's file cannot be read or lacks a tensor, or there is none.
    pub fn moments(&self, rank: usize, size: usize) -> Result<Vec<Moments>, TrainError> {
        self.state()?;
        let specs = self.manifest.model.parameters();
        let map = TensorMap::open(&self.folder.join(OPTIMIZER))?;
        map.check(&named(&specs, EXP_AVG).chain(named(&specs, EXP_AVG_SQ)).collect::<Vec<_>>())?;
        let slice = |prefix: &str, spec: &ParameterSpec| {
            map.slice(&format!("{prefix}{}", spec.name), spec, rank, size)
        };
        specs
            .iter()
            .map(|spec| {
                Ok(Moments { exp_avg: slice(EXP_AVG, spec)?, exp_avg_sq: slice(EXP_AVG_SQ, spec)? })
            })
            .collect()
    }
}

/// What a checkpoint's configuration says about the ranks.
#[derive(Deserialize)]
struct WrittenBy {
    #[serde(default)]
    parallel: ParallelConfig,
}

/// Weights by name, sliced for any layout.
impl ParameterSource for Checkpoint {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        self.weights.slice(&spec.name, spec, rank, size)
    }
}

/// Where a path leads to.
struct Resolved {
    /// The folder that was meant.
    named: PathBuf,
    /// Folders of later steps than the one that `latest` names, newest first.
    later: Vec<PathBuf>,
}

impl Resolved {
    fn only(named: PathBuf) -> Self {
        Self { named, later: Vec::new() }
    }
}

/// The folder that holds the manifest, and those that may take its place.
fn resolve(path: &Path) -> Result<Resolved, TrainError> {
    let none = |found| TrainError::NoCheckpoint { path: path.to_owned(), found };
    if path.join(MANIFEST).is_file() {
        // A data folder has a manifest too.
        let is_data = !path.join(STATE).is_file() && DataFolder::open(path).is_ok();
        return if is_data {
            Err(none("a data folder, no checkpoint"))
        } else {
            Ok(Resolved::only(path.to_owned()))
        };
    }
    if path.join(HUGGING_FACE_CONFIG).is_file() && !path.join(STATE).is_file() {
        return Err(none(
            "a Hugging Face folder, of which `pipeline checkpoint import` makes a checkpoint",
        ));
    }
    let below = path.join(CHECKPOINTS);
    let checkpoints = if below.is_dir() { below } else { path.to_owned() };
    let missing = || none("no checkpoint here");
    if !checkpoints.is_dir() {
        return Err(missing());
    }
    let latest = checkpoints.join(LATEST);
    if latest.is_file() {
        let name = fs::read_to_string(&latest)
            .map_err(|source| TrainError::io("read", &latest, source))?;
        let folder = checkpoints.join(name.trim());
        if folder.join(MANIFEST).is_file() {
            let named_step = step_of(name.trim());
            let mut folders = step_folders(&checkpoints)?;
            folders.retain(|(step, _)| named_step.is_some_and(|named| *step > named));
            let later = folders.into_iter().map(|(_, folder)| folder).collect();
            return Ok(Resolved { named: folder, later });
        }
        warn!("{} names no checkpoint: taking the newest there is", latest.display());
    }
    // `latest` is written after the folder: a death between the two leaves a complete newest folder
    // without it.
    let (_, newest) = step_folders(&checkpoints)?.into_iter().next().ok_or_else(missing)?;
    Ok(Resolved::only(newest))
}
