//! Opening a checkpoint: find the folder, hold every file against the manifest, then map the
//! tensors.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::{DataFolder, TokenizerIdentity};
use serde::Deserialize;
use tracing::{info, warn};

use super::manifest::{Manifest, TrainingState, read_json, verify};
use super::tensor_map::TensorMap;
use super::{
    CHECKPOINTS, EXP_AVG, EXP_AVG_SQ, LATEST, MANIFEST, MODEL, OPTIMIZER, STATE, TRAIN_CONFIG,
    step_folders, step_of,
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
    state: TrainingState,
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
        let state: TrainingState = read_json(&folder.join(STATE))?;
        if state.step != manifest.step {
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
    pub fn state(&self) -> &TrainingState {
        &self.state
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
    /// When the optimizer's file cannot be read or lacks a tensor.
    pub fn moments(&self, rank: usize, size: usize) -> Result<Vec<Moments>, TrainError> {
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

fn named<'a>(
    specs: &'a [ParameterSpec],
    prefix: &'a str,
) -> impl Iterator<Item = (String, &'a [usize])> {
    specs.iter().map(move |spec| (format!("{prefix}{}", spec.name), &*spec.shape))
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
