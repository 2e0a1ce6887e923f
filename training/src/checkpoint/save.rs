//! Saving: all ranks write one folder together, which gets its name when it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::backend::Backend;
use corpus::{FileSummary, TokenizerIdentity, sync_folder};
use serde_json::Value;
use tracing::{info, warn};

use super::manifest::{Manifest, TrainingState, replace_file, write_json};
use super::tensor_file::{TensorFileWriter, TensorLayout};
use super::{
    EXP_AVG, EXP_AVG_SQ, HUGGING_FACE_CONFIG, LATEST, MANIFEST, MODEL, OPTIMIZER, PARTIAL, STATE,
    TRAIN_CONFIG, hugging_face, step_folder, step_folders, step_of,
};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::optim::AdamW;
use crate::parallel::{Rank, TensorParallelGroup};
use crate::parameter_walk::for_each_weight;
use crate::parameters::ParameterSpec;

/// What one rank brings to a checkpoint; everything but `model` and `optimizer` is the same on
/// every rank.
#[derive(Debug)]
pub struct Snapshot<'a, M> {
    /// Where training stands.
    pub state: TrainingState,
    /// The model's sizes.
    pub architecture: &'a Architecture,
    /// The vocabulary it was trained on.
    pub tokenizer: &'a TokenizerIdentity,
    /// The resolved configuration of the run.
    pub config: &'a Value,
    /// The parameter table.
    pub specs: &'a [ParameterSpec],
    /// This rank's part of the model.
    pub model: &'a M,
    /// This rank's part of the optimizer.
    pub optimizer: &'a AdamW,
}

/// Writes `checkpoints/step-N`, points `latest` at it and deletes checkpoints beyond the newest
/// `keep`.
///
/// Every rank calls it with its own snapshot. Those of the first copy of the model write, each its
/// slices, and the main rank what is not sliced; the others wait. Returns the folder.
///
/// # Errors
///
/// When a file cannot be written, or another rank fails. The previous checkpoint is untouched then,
/// `latest` still names it, and what was written of this one is deleted.
pub fn save<B: Backend, M: Module<B>>(
    snapshot: &Snapshot<'_, M>,
    checkpoints: &Path,
    keep: Option<usize>,
    rank: &Rank,
) -> Result<PathBuf, TrainError> {
    let name = step_folder(snapshot.state.step);
    let folder = checkpoints.join(&name);
    if rank.data_parallel.rank() == 0 {
        write(snapshot, checkpoints, keep, &rank.tensor_parallel)?;
    }
    rank.data_parallel.collective().barrier("checkpoint.saved")?;
    Ok(folder)
}

/// [`save`], as the ranks of one copy of the model do it together.
fn write<B: Backend, M: Module<B>>(
    snapshot: &Snapshot<'_, M>,
    checkpoints: &Path,
    keep: Option<usize>,
    group: &TensorParallelGroup,
) -> Result<(), TrainError> {
    let name = step_folder(snapshot.state.step);
    let partial = checkpoints.join(format!(".{name}{PARTIAL}"));
    let written = write_whole(snapshot, checkpoints, &partial, keep, group);
    if written.is_err() && group.rank() == 0 {
        clear_away(&partial);
    }
    written
}

/// Deletes what a failed save has written: on a full disk it would be in the way.
fn clear_away(partial: &Path) {
    match fs::remove_dir_all(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("cannot delete {}: {error}", partial.display());
        }
        _ => {}
    }
}

/// [`write()`] by way of the folder `partial`, which a failure leaves.
fn write_whole<B: Backend, M: Module<B>>(
    snapshot: &Snapshot<'_, M>,
    checkpoints: &Path,
    partial: &Path,
    keep: Option<usize>,
    group: &TensorParallelGroup,
) -> Result<(), TrainError> {
    let name = step_folder(snapshot.state.step);
    let folder = checkpoints.join(&name);
    let files = TensorFiles::new(snapshot.specs);
    let is_main = group.rank() == 0;

    if is_main {
        begin_folder(checkpoints, partial)?;
        files.create(partial)?;
    }
    group.collective().barrier("checkpoint.created")?;
    files.write_slices(partial, snapshot, group)?;
    group.collective().barrier("checkpoint.written")?;
    if is_main {
        write_descriptions(partial, snapshot)?;
        put_in_place(partial, &folder)?;
        replace_file(&checkpoints.join(LATEST), format!("{name}\n").as_bytes())?;
        delete_beyond(checkpoints, snapshot.state.step, keep)?;
        info!(step = snapshot.state.step, "saved {}", folder.display());
    }
    Ok(group.collective().barrier("checkpoint.in_place")?)
}

/// The layouts of the two tensor files.
struct TensorFiles {
    model: TensorLayout,
    optimizer: TensorLayout,
}

impl TensorFiles {
    fn new(specs: &[ParameterSpec]) -> Self {
        let named = |prefix: &'static str| {
            specs.iter().map(move |spec| (format!("{prefix}{}", spec.name), &*spec.shape))
        };
        Self {
            model: TensorLayout::new(named("")),
            optimizer: TensorLayout::new(named(EXP_AVG).chain(named(EXP_AVG_SQ))),
        }
    }

    fn create(&self, folder: &Path) -> Result<(), TrainError> {
        self.model.create(&folder.join(MODEL))?;
        self.optimizer.create(&folder.join(OPTIMIZER))
    }

    fn write_slices<B: Backend, M: Module<B>>(
        &self,
        folder: &Path,
        snapshot: &Snapshot<'_, M>,
        group: &TensorParallelGroup,
    ) -> Result<(), TrainError> {
        let (rank, size) = (group.rank(), group.size());
        let model = TensorFileWriter::open(&self.model, &folder.join(MODEL), rank, size)?;
        for_each_weight(snapshot.model, snapshot.specs, |index, values| {
            model.write(index, &snapshot.specs[index], values)
        })?;
        model.finish()?;

        let optimizer =
            TensorFileWriter::open(&self.optimizer, &folder.join(OPTIMIZER), rank, size)?;
        let count = snapshot.specs.len();
        for (index, (spec, moments)) in
            snapshot.specs.iter().zip(snapshot.optimizer.moments()).enumerate()
        {
            optimizer.write(index, spec, &moments.exp_avg)?;
            optimizer.write(count + index, spec, &moments.exp_avg_sq)?;
        }
        optimizer.finish()
    }
}

/// Makes an empty folder under a temporary name, and clears away what killed runs left under such
/// names.
fn begin_folder(checkpoints: &Path, partial: &Path) -> Result<(), TrainError> {
    fs::create_dir_all(checkpoints)
        .map_err(|source| TrainError::io("create", checkpoints, source))?;
    sync_folder(checkpoints.parent())?;
    for entry in
        checkpoints.read_dir().map_err(|source| TrainError::io("list", checkpoints, source))?
    {
        let path = entry.map_err(|source| TrainError::io("list", checkpoints, source))?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_partial) {
            fs::remove_dir_all(&path).map_err(|source| TrainError::io("delete", &path, source))?;
        }
    }
    fs::create_dir(partial).map_err(|source| TrainError::io("create", partial, source))
}

/// `.step-N.partial`
fn is_partial(name: &str) -> bool {
    name.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL)).and_then(step_of).is_some()
}

fn write_descriptions<M>(folder: &Path, snapshot: &Snapshot<'_, M>) -> Result<(), TrainError> {
    let Architecture::Gpt2(model) = snapshot.architecture;
    write_json(
        &folder.join(HUGGING_FACE_CONFIG),
        &hugging_face::gpt2_config(model, snapshot.tokenizer),
    )?;
    write_json(&folder.join(TRAIN_CONFIG), snapshot.config)?;
    write_json(&folder.join(STATE), &snapshot.state)?;
    let tokenizer = snapshot.tokenizer.kept_in(folder)?;
    let files = [MODEL, OPTIMIZER, HUGGING_FACE_CONFIG, TRAIN_CONFIG, STATE]
        .into_iter()
        .chain(tokenizer.file_name())
        .map(|name| FileSummary::of(&folder.join(name)))
        .collect::<Result<_, _>>()?;
    let manifest = Manifest {
        version: Manifest::VERSION,
        step: snapshot.state.step,
        model: snapshot.architecture.clone(),
        tokenizer,
        files,
    };
    write_json(&folder.join(MANIFEST), &manifest)
}

/// Gives a complete folder its name. An old folder of that name, which a resumed run passed over as
/// broken, makes way.
fn put_in_place(partial: &Path, folder: &Path) -> Result<(), TrainError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|source| TrainError::io("delete", folder, source))?;
    }
    fs::rename(partial, folder).map_err(|source| TrainError::io("rename", partial, source))?;
    Ok(sync_folder(folder.parent())?)
}

/// Deletes all but the newest `keep` checkpoints up to the one of step `saved`; nothing else in the
/// folder is touched.
///
/// Folders of later steps are those that a resumed run passed over as broken: they take no good
/// one's place, and go when their step is saved again.
fn delete_beyond(checkpoints: &Path, saved: u64, keep: Option<usize>) -> Result<(), TrainError> {
    let Some(keep) = keep else { return Ok(()) };
    let folders = step_folders(checkpoints)?.into_iter().filter(|(step, _)| *step <= saved);
    for (_, folder) in folders.skip(keep) {
        fs::remove_dir_all(&folder).map_err(|source| TrainError::io("delete", &folder, source))?;
    }
    Ok(())
}
