//! Saving: all ranks write one folder together, which gets its name when it is complete.
//!
//! A save has three parts, and after each all ranks agree whether it went well everywhere. One that
//! did not, for want of room or whatever the system says, is no end of the run: the ranks leave it
//! at the same place, what was written is deleted, and the caller decides. The ranks meet at
//! barriers, which wait for as long as it takes: hashing a large checkpoint is the work of one of
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::backend::Backend;
use corpus::{FileSummary, Observer, TokenizerIdentity, sync_folder};
use serde_json::Value;
use tracing::{info, warn};

use super::initial_weights::InitRecord;
use super::manifest::{Manifest, TrainingState, replace_file, write_json};
use super::retention::{Retention, clear_away, delete_superseded, leftovers};
use super::room::{DESCRIPTION_BYTES, Room};
use super::save_progress::SaveProgress;
use super::tensor_file::{TensorFileWriter, TensorLayout};
use super::{
    EXP_AVG, EXP_AVG_SQ, HUGGING_FACE_CONFIG, LATEST, MANIFEST, MODEL, OPTIMIZER, PARTIAL,
    RunCheckpoints, STATE, TRAIN_CONFIG, hidden, hugging_face, named, step_folder,
};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
use crate::data::DataRecord;
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
    /// What the samples depend on.
    pub data: &'a DataRecord,
    /// The weights that training began with, where a seed did not draw them.
    pub init_from: Option<&'a InitRecord>,
    /// The parameter table.
    pub specs: &'a [ParameterSpec],
    /// This rank's part of the model.
    pub model: &'a M,
    /// This rank's part of the optimizer.
    pub optimizer: &'a AdamW,
}

/// What came of a save.
#[derive(Debug)]
pub enum Saved {
    /// The checkpoint is in its folder, and on the disk.
    Whole(PathBuf),
    /// There is no new checkpoint, and nothing is left of it. The one before is untouched, and
    /// `latest` names it.
    Failed {
        /// Why, on the main rank where something went wrong there, else on every rank where it did.
        cause: Option<TrainError>,
        /// What the save needs, and what there was when it failed.
        room: Room,
    },
}

/// Writes `checkpoints/step-N`, points `latest` at it and deletes what `retention` does not keep.
///
/// Every rank calls it with its own snapshot. Those of the first copy of the model write, each its
/// slices, and the main rank what is not sliced; the others wait. Before anything is written each
/// rank calls `prepare`, which puts on the disk what the checkpoint counts on.
///
/// # Errors
///
/// When another rank fails outside of the save. What the system says to a write is no error but
/// [`Saved::Failed`], on every rank alike.
pub fn save<B: Backend, M: Module<B>>(
    snapshot: &Snapshot<'_, M>,
    checkpoints: &Path,
    retention: Retention,
    rank: &Rank,
    prepare: impl FnOnce() -> Result<(), TrainError>,
) -> Result<Saved, TrainError> {
    let step = snapshot.state.step;
    let attempt = Attempt {
        snapshot,
        checkpoints,
        partial: checkpoints.join(hidden(step, PARTIAL)),
        files: TensorFiles::new(snapshot.specs),
        progress: SaveProgress::new(step, rank.is_main()),
        group: &rank.tensor_parallel,
    };
    let (is_main, is_writer) = (rank.is_main(), rank.data_parallel.rank() == 0);
    let when = |holds: bool, part: &dyn Fn() -> Result<(), TrainError>| {
        if holds { part() } else { Ok(()) }
    };

    let begun = prepare().and_then(|()| when(is_main, &|| attempt.begin()));
    if let Some(failed) = attempt.settle("checkpoint.created", begun, rank)? {
        return Ok(failed);
    }
    let written = when(is_writer, &|| attempt.write_slices());
    if let Some(failed) = attempt.settle("checkpoint.written", written, rank)? {
        return Ok(failed);
    }
    let completed = when(is_main, &|| attempt.complete());
    if let Some(failed) = attempt.settle("checkpoint.in_place", completed, rank)? {
        return Ok(failed);
    }
    let folder = checkpoints.join(step_folder(step));
    if is_main {
        attempt.announce(&folder, retention);
    }
    Ok(Saved::Whole(folder))
}

/// A save under way, as one rank sees it.
struct Attempt<'a, M> {
    snapshot: &'a Snapshot<'a, M>,
    checkpoints: &'a Path,
    /// The folder that is written, under its temporary name.
    partial: PathBuf,
    files: TensorFiles,
    progress: SaveProgress,
    group: &'a TensorParallelGroup,
}

impl<M> Attempt<'_, M> {
    /// What the save has come to, where its part `name` did not go well on every rank.
    fn settle(
        &self,
        name: &str,
        result: Result<(), TrainError>,
        rank: &Rank,
    ) -> Result<Option<Saved>, TrainError> {
        // Before anybody clears away what the disk is full of.
        let room = self.room();
        if !rank.any_at_last(name, result.is_err())? {
            return Ok(None);
        }
        if rank.is_main() {
            clear_away(&self.partial);
        }
        // One that is told is enough: the main rank's, where it has one.
        let main_knows = rank.any("checkpoint.failed", rank.is_main() && result.is_err())?;
        let cause = result.err().filter(|_| rank.is_main() || !main_knows);
        Ok(Some(Saved::Failed { cause, room }))
    }

    fn room(&self) -> Room {
        let tokenizer = fs::metadata(&self.snapshot.tokenizer.name).map_or(0, |file| file.len());
        let needed = self.files.bytes() + tokenizer + DESCRIPTION_BYTES;
        let place = self.checkpoints.ancestors().find(|folder| folder.exists());
        Room::of(needed, place.unwrap_or(self.checkpoints))
    }

    /// Makes an empty folder under a temporary name, with both tensor files in it, once what killed
    /// runs left under such names is cleared away. Refuses to where the system says that the disk
    /// has no room.
    fn begin(&self) -> Result<(), TrainError> {
        let checkpoints = self.checkpoints;
        fs::create_dir_all(checkpoints)
            .map_err(|source| TrainError::io("create", checkpoints, source))?;
        sync_folder(checkpoints.parent())?;
        for path in leftovers(checkpoints)? {
            fs::remove_dir_all(&path).map_err(|source| TrainError::io("delete", &path, source))?;
        }
        let folder = checkpoints.join(step_folder(self.snapshot.state.step));
        if folder.exists() && !folder.is_dir() {
            let (reason, remedy) = ("it is a file".to_owned(), "move it away");
            return Err(CheckpointError::OutputFolderUsed { path: folder, reason, remedy }.into());
        }
        if self.room().is_short() {
            return Err(CheckpointError::NoRoom { path: checkpoints.to_owned() }.into());
        }
        let partial = &self.partial;
        fs::create_dir(partial).map_err(|source| TrainError::io("create", partial, source))?;
        self.files.create(partial)
    }

    /// Writes everything that is not sliced, and gives the complete folder its name.
    fn complete(&self) -> Result<(), TrainError> {
        write_descriptions(&self.partial, self.snapshot, &self.progress)?;
        put_in_place(&self.partial, self.checkpoints, self.snapshot.state.step)
    }

    /// Points `latest` at the new checkpoint, which is on the disk, and deletes old ones after that.
    fn announce(&self, folder: &Path, retention: Retention) {
        let step = self.snapshot.state.step;
        info!(step, "saved {}", folder.display());
        let latest = self.checkpoints.join(LATEST);
        match replace_file(&latest, format!("{}\n", step_folder(step)).as_bytes()) {
            Ok(()) => delete_superseded(self.checkpoints, step, retention),
            // The number in a folder's name tells as well which is the newest.
            Err(error) => warn!(step, "`latest` still names an earlier checkpoint: {error}"),
        }
    }
}

impl<M> Attempt<'_, M> {
    fn write_slices<B: Backend>(&self) -> Result<(), TrainError>
    where
        M: Module<B>,
    {
        self.files.write_slices(&self.partial, self.snapshot, self.group, &self.progress)
    }
}

/// The layouts of the two tensor files.
struct TensorFiles {
    model: TensorLayout,
    optimizer: TensorLayout,
}

impl TensorFiles {
    fn new(specs: &[ParameterSpec]) -> Self {
        let moments = named(specs, EXP_AVG).chain(named(specs, EXP_AVG_SQ));
        Self { model: TensorLayout::new(named(specs, "")), optimizer: TensorLayout::new(moments) }
    }

    /// Bytes of both files.
    fn bytes(&self) -> u64 {
        self.model.bytes() + self.optimizer.bytes()
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
        progress: &SaveProgress,
    ) -> Result<(), TrainError> {
        let (rank, size) = (group.rank(), group.size());
        progress.enter("wrote", self.bytes() / size as u64);
        let model = TensorFileWriter::open(&self.model, &folder.join(MODEL), rank, size)?;
        for_each_weight(snapshot.model, snapshot.specs, |index, values| {
            let bytes = model.write(index, &snapshot.specs[index], values)?;
            progress.advance(bytes);
            Ok(())
        })?;
        model.finish()?;

        let optimizer =
            TensorFileWriter::open(&self.optimizer, &folder.join(OPTIMIZER), rank, size)?;
        let count = snapshot.specs.len();
        for (index, (spec, moments)) in
            snapshot.specs.iter().zip(snapshot.optimizer.moments()).enumerate()
        {
            let bytes = optimizer.write(index, spec, &moments.exp_avg)?
                + optimizer.write(count + index, spec, &moments.exp_avg_sq)?;
            progress.advance(bytes);
        }
        optimizer.finish()
    }
}

/// Everything beside the tensors, the manifest last.
fn write_descriptions<M>(
    folder: &Path,
    snapshot: &Snapshot<'_, M>,
    progress: &SaveProgress,
) -> Result<(), TrainError> {
    write_json(
        &folder.join(HUGGING_FACE_CONFIG),
        &hugging_face::own_config(snapshot.architecture, snapshot.tokenizer),
    )?;
    write_json(&folder.join(TRAIN_CONFIG), snapshot.config)?;
    write_json(&folder.join(STATE), &snapshot.state)?;
    let tokenizer = snapshot.tokenizer.kept_in(folder)?;
    let names = [MODEL, OPTIMIZER, HUGGING_FACE_CONFIG, TRAIN_CONFIG, STATE];
    let files = summaries(folder, names.into_iter().chain(tokenizer.file_name()), progress)?;
    let manifest = Manifest {
        version: Manifest::VERSION,
        step: snapshot.state.step,
        model: snapshot.architecture.clone(),
        tokenizer,
        data: Some(snapshot.data.clone()),
        init_from: snapshot.init_from.cloned(),
        files,
    };
    write_json(&folder.join(MANIFEST), &manifest)
}

/// Size and hash of files of `folder`, which are read for it.
fn summaries<'n>(
    folder: &Path,
    names: impl Iterator<Item = &'n str>,
    progress: &SaveProgress,
) -> Result<Vec<FileSummary>, TrainError> {
    let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    let sizes = paths.iter().filter_map(|path| path.metadata().ok());
    progress.enter("checked", sizes.map(|file| file.len()).sum());
    paths.iter().map(|path| Ok(FileSummary::observed(path, progress)?)).collect()
}

/// Gives a complete folder its name. What has that name already makes way; what is left of a broken
/// checkpoint of this step is of no use any more.
fn put_in_place(partial: &Path, checkpoints: &Path, step: u64) -> Result<(), TrainError> {
    let run = RunCheckpoints { folder: checkpoints };
    run.make_way(step)?;
    let folder = checkpoints.join(step_folder(step));
    fs::rename(partial, folder).map_err(|source| TrainError::io("rename", partial, source))?;
    sync_folder(Some(checkpoints))?;
    run.delete_broken(step);
    Ok(())
}
