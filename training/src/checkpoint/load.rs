//! Opening a checkpoint: find the folder, hold every file against the manifest, then map the
//! tensors.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use corpus::{CorpusError, DataFolder, Observer, Silent, TokenizerIdentity};
use serde::Deserialize;
use serde_json::Value;
use tracing::{info, warn};

use super::hugging_face::read_config;
use super::manifest::{Manifest, TrainingState, read_json, verify};
use super::tensor_map::TensorMap;
use super::{
    CHECKPOINTS, EXP_AVG, EXP_AVG_SQ, HUGGING_FACE_CONFIG, LATEST, MANIFEST, MODEL, OPTIMIZER,
    STATE, TRAIN_CONFIG, named, retention, step_folders, step_of,
};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
use crate::config::{DataConfig, ParallelConfig};
use crate::data::{MaskedLmConfig, SplitWeights};
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

/// A checkpoint that was passed over in the search for the newest one.
#[derive(Debug)]
pub(crate) struct PassedOver {
    pub(crate) folder: PathBuf,
    pub(crate) step: u64,
    /// Whether it is whole and only not the one that is looked for.
    pub(crate) is_whole: bool,
    fault: TrainError,
}

/// The newest checkpoint, and those before which it was taken.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) passed_over: Vec<PassedOver>,
}

impl Checkpoint {
    /// [`open_observed`](Self::open_observed) for whom nobody waits.
    ///
    /// # Errors
    ///
    /// As [`open_observed`](Self::open_observed).
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        Self::open_observed(path, &Silent)
    }

    /// Opens a checkpoint folder, or the newest complete one in a run folder or in its
    /// `checkpoints` folder, by the numbers in their names: `latest` may name an earlier one where a
    /// death came between. Broken ones are passed over, and told.
    ///
    /// Reads every file once to compare it with the manifest, which takes a while: `observer` hears
    /// of it.
    ///
    /// # Errors
    ///
    /// When there is no checkpoint, a file has another size or hash than the manifest says, or the
    /// tensors are not those of the model: the error names the file and the tensor. Of several
    /// broken ones that of the newest is told. [`TrainError::Stopped`] when the observer asks to
    /// stop.
    pub fn open_observed(path: &Path, observer: &dyn Observer) -> Result<Self, TrainError> {
        let checkpoints = match locate(path)? {
            Place::Checkpoint => return Self::open_folder(path.to_owned(), observer),
            Place::Several(checkpoints) => checkpoints,
        };
        loop {
            let listed = newest_step(&checkpoints)?;
            let (newest, passed_over) = Self::search(&checkpoints, observer, &|_| Ok(()))?;
            if let Some(checkpoint) = newest {
                tell_if_later_than_latest(&checkpoints, &checkpoint);
                return Ok(checkpoint);
            }
            // A run that is at it has saved another one and deleted those that were listed.
            if newest_step(&checkpoints)? > listed {
                continue;
            }
            let newest_fault = passed_over.into_iter().next().map(|it| it.fault);
            return Err(newest_fault.unwrap_or_else(|| no_checkpoint(path)));
        }
    }

    /// What the manifest says of the checkpoint that [`open_observed`](Self::open_observed) most
    /// likely opens, without a look at any other file: for what can be told beforehand. `None` where
    /// there is none, or none that can be read.
    #[must_use]
    pub fn peek(path: &Path) -> Option<Manifest> {
        match locate(path).ok()? {
            Place::Checkpoint => Manifest::read(path).ok(),
            Place::Several(checkpoints) => {
                let (_, newest) = step_folders(&checkpoints).ok()?.into_iter().next()?;
                Manifest::read(&newest).ok()
            }
        }
    }

    /// The tokenizer that [`peek`](Self::peek)'s manifest names, under a name by which it is found
    /// from any folder.
    #[must_use]
    pub(crate) fn peek_tokenizer(path: &Path) -> Option<TokenizerIdentity> {
        let folder = match locate(path).ok()? {
            Place::Checkpoint => path.to_owned(),
            Place::Several(checkpoints) => step_folders(&checkpoints).ok()?.into_iter().next()?.1,
        };
        Manifest::read(&folder).ok()?.tokenizer.seen_from(&folder).ok()
    }

    /// Opens the newest complete checkpoint in the folder `checkpoints`, by the numbers in their
    /// names, of which `accept` has nothing to say against; tells which are passed over, and why.
    /// None where there is none at all.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::NoUsableCheckpoint`] where there are some, and each is broken or refused; what
    /// the system says where a file cannot be read that may well be whole.
    pub(crate) fn newest_complete(
        checkpoints: &Path,
        observer: &dyn Observer,
        accept: impl Fn(&Self) -> Result<(), TrainError>,
    ) -> Result<Option<Newest>, TrainError> {
        if !checkpoints.is_dir() {
            return Ok(None);
        }
        for path in retention::leftovers(checkpoints)? {
            warn!("passing over {}: it was not finished, or was being deleted", path.display());
        }
        let (newest, passed_over) = Self::search(checkpoints, observer, &accept)?;
        if let Some(checkpoint) = newest {
            return Ok(Some(Newest { checkpoint, passed_over }));
        }
        match passed_over.into_iter().next() {
            None => Ok(None),
            Some(PassedOver { fault, .. }) => Err(CheckpointError::NoUsableCheckpoint {
                path: checkpoints.to_owned(),
                source: Box::new(fault),
            }
            .into()),
        }
    }

    /// The newest checkpoint in the folder `checkpoints` that is whole and that `accept` accepts,
    /// and those that are later, newest first.
    fn search(
        checkpoints: &Path,
        observer: &dyn Observer,
        accept: &dyn Fn(&Self) -> Result<(), TrainError>,
    ) -> Result<(Option<Self>, Vec<PassedOver>), TrainError> {
        let mut passed_over = Vec::new();
        for (step, folder) in step_folders(checkpoints)? {
            let (fault, is_whole) = match Self::open_folder(folder.clone(), observer) {
                Ok(checkpoint) => match checkpoint.is_of(step).and_then(|()| accept(&checkpoint)) {
                    Ok(()) => return Ok((Some(checkpoint), passed_over)),
                    Err(refusal) => (refusal, true),
                },
                Err(fault) if says_nothing_of_the_files(&fault) => return Err(fault),
                Err(fault) => {
                    let is_of_another_version = matches!(
                        fault,
                        TrainError::Checkpoint(CheckpointError::CheckpointFile {
                            what: "version",
                            ..
                        })
                    );
                    (fault, is_of_another_version)
                }
            };
            match is_whole {
                true => {
                    warn!(step, "passing over a whole checkpoint that cannot be taken: {fault}")
                }
                false => warn!(step, "passing over a broken checkpoint: {fault}"),
            }
            passed_over.push(PassedOver { folder, step, is_whole, fault });
        }
        Ok((None, passed_over))
    }

    /// Demands that the checkpoint is of the step by which its folder is named.
    fn is_of(&self, step: u64) -> Result<(), TrainError> {
        if self.step() == step {
            return Ok(());
        }
        Err(CheckpointError::CheckpointFile {
            path: self.folder.join(MANIFEST),
            what: "step",
            expected: format!("{step}, as the folder is named"),
            found: self.step().to_string(),
        }
        .into())
    }

    fn open_folder(folder: PathBuf, observer: &dyn Observer) -> Result<Self, TrainError> {
        let manifest = Manifest::read(&folder)?;
        verify(&folder, &manifest.files, observer)?;
        Self::load(folder, manifest)
    }

    /// The same checkpoint where its files have been copied to.
    pub(super) fn at(&self, folder: PathBuf) -> Result<Self, TrainError> {
        Self::load(folder, self.manifest.clone())
    }

    /// Maps the files of `folder`, which are those of `manifest`.
    fn load(folder: PathBuf, manifest: Manifest) -> Result<Self, TrainError> {
        manifest.model.validate()?;
        let state = manifest.has(STATE).then(|| read_json::<TrainingState>(&folder.join(STATE)));
        let state = state.transpose()?;
        if let Some(state) = state.as_ref().filter(|state| state.step != manifest.step) {
            return Err(CheckpointError::CheckpointFile {
                path: folder.join(STATE),
                what: "step",
                expected: manifest.step.to_string(),
                found: state.step.to_string(),
            }
            .into());
        }
        let weights = TensorMap::open(&folder.join(MODEL))?;
        let specs = manifest.model.parameters();
        weights.check(&named(&specs, "").collect::<Vec<_>>())?;
        check_description(&folder, &manifest)?;
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
    /// [`CheckpointError::NoTrainingState`] for weights that came from another program.
    pub fn state(&self) -> Result<&TrainingState, TrainError> {
        self.state.as_ref().ok_or_else(|| {
            TrainError::from(CheckpointError::NoTrainingState { path: self.folder.clone() })
        })
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

    /// The hash of the file that holds its weights, in hexadecimal.
    ///
    /// # Errors
    ///
    /// When the manifest has none.
    pub fn model_hash(&self) -> Result<String, TrainError> {
        self.hash_of(MODEL).ok_or_else(|| {
            TrainError::from(CheckpointError::CheckpointFile {
                path: self.folder.join(MANIFEST),
                what: "files",
                expected: MODEL.to_owned(),
                found: "none of that name".to_owned(),
            })
        })
    }

    /// How the run that wrote it divided the documents of its data; `None` for weights that came
    /// from another program.
    ///
    /// # Errors
    ///
    /// When the configuration beside it cannot be read.
    pub fn split_weights(&self) -> Result<Option<SplitWeights>, TrainError> {
        if !self.has_training_state() {
            return Ok(None);
        }
        let config: DividedBy = read_json(&self.folder.join(TRAIN_CONFIG))?;
        Ok(Some(config.data.split))
    }

    /// How the run that wrote it masked its samples; `None` for another model than a BERT, and for
    /// weights that came from another program.
    ///
    /// # Errors
    ///
    /// When the configuration beside it cannot be read.
    pub fn masked_lm(&self) -> Result<Option<MaskedLmConfig>, TrainError> {
        if !self.has_training_state() {
            return Ok(None);
        }
        let config: DividedBy = read_json(&self.folder.join(TRAIN_CONFIG))?;
        Ok(config.data.masked_lm)
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
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherArchitecture`] when it is another model.
    pub fn model_config(&self) -> Result<&Gpt2Config, TrainError> {
        self.manifest.model.gpt2()
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

/// What a checkpoint's configuration says about its data.
#[derive(Deserialize)]
struct DividedBy {
    data: DataConfig,
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
enum Place {
    /// To one checkpoint.
    Checkpoint,
    /// To this folder of checkpoints.
    Several(PathBuf),
}

fn locate(path: &Path) -> Result<Place, TrainError> {
    let none =
        |found| TrainError::from(CheckpointError::NoCheckpoint { path: path.to_owned(), found });
    if path.join(MANIFEST).is_file() {
        // A data folder has a manifest too.
        let is_data = !path.join(STATE).is_file() && DataFolder::open(path).is_ok();
        return if is_data {
            Err(none("a data folder, no checkpoint"))
        } else {
            Ok(Place::Checkpoint)
        };
    }
    if path.join(HUGGING_FACE_CONFIG).is_file() && !path.join(STATE).is_file() {
        return Err(none(
            "a Hugging Face folder, of which `pipeline checkpoint import` makes a checkpoint",
        ));
    }
    folder_of_checkpoints(path).map(Place::Several).ok_or_else(|| no_checkpoint(path))
}

/// The folder of checkpoints that `path` is, or that the run folder `path` has; none for anything
/// else, and for one checkpoint.
pub(crate) fn folder_of_checkpoints(path: &Path) -> Option<PathBuf> {
    let below = path.join(CHECKPOINTS);
    if below.is_dir() {
        return Some(below);
    }
    let has_some = || step_folders(path).is_ok_and(|folders| !folders.is_empty());
    (!path.join(MANIFEST).is_file() && has_some()).then(|| path.to_owned())
}

/// The highest step of a checkpoint's folder in `checkpoints`, whole or not.
fn newest_step(checkpoints: &Path) -> Result<Option<u64>, TrainError> {
    Ok(step_folders(checkpoints)?.first().map(|&(step, _)| step))
}

fn no_checkpoint(path: &Path) -> TrainError {
    TrainError::from(CheckpointError::NoCheckpoint {
        path: path.to_owned(),
        found: "no checkpoint here",
    })
}

/// Says so where `checkpoint`, the newest whole one, is a later one than the file `latest` names,
/// which is written after it.
fn tell_if_later_than_latest(checkpoints: &Path, checkpoint: &Checkpoint) {
    let named = fs::read_to_string(checkpoints.join(LATEST)).ok();
    let named = named.as_deref().and_then(|name| step_of(name.trim()));
    if named.is_some_and(|named| named < checkpoint.step()) {
        let folder = checkpoint.folder.display();
        info!("{folder} is later than what `latest` names: taking it");
    }
}

/// Whether an error of opening a checkpoint tells of the machine or of a wish, and not of what is
/// in the files: a disk that does not answer, a file that may not be read.
fn says_nothing_of_the_files(error: &TrainError) -> bool {
    match error {
        TrainError::Stopped => true,
        TrainError::Io { source, .. } | TrainError::Corpus(CorpusError::Io { source, .. }) => {
            !matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::UnexpectedEof
                    | ErrorKind::InvalidData
                    | ErrorKind::InvalidInput
            )
        }
        _ => false,
    }
}

/// Demands that the manifest, of which nothing has a hash, tells of the same model as the
/// configuration beside it, which has one: sizes that fit the tensors may still be wrong.
fn check_description(folder: &Path, manifest: &Manifest) -> Result<(), TrainError> {
    let path = folder.join(HUGGING_FACE_CONFIG);
    let value: Value = read_json(&path)?;
    let beside = read_config(&path, &value)?;
    let mut differences = manifest.model.differences(&beside);
    let end = manifest.tokenizer.eod;
    if value["eos_token_id"] != end {
        differences
            .push(format!("tokenizer.eod is {} there and {end} here", value["eos_token_id"]));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(CheckpointError::CheckpointDiffers {
        path: folder.join(MANIFEST),
        difference: format!("not the model of config.json beside it: {}", differences.join(", ")),
        remedy: "one of the two was changed since; take another checkpoint",
    }
    .into())
}
