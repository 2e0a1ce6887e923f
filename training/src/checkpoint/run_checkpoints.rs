//! The folder of a run's checkpoints as a whole: taking one in from elsewhere, setting aside, and
//! deleting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corpus::sync_folder;

use super::manifest::replace_file;
use super::retention::leftovers;
use super::{Checkpoint, LATEST, MANIFEST, PARTIAL, hidden, step_folder, step_folders, step_of};
use crate::TrainError;

/// What the name of a checkpoint that was set aside begins with.
const ASIDE: &str = "superseded-";

/// A folder of checkpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunCheckpoints<'a> {
    pub(crate) folder: &'a Path,
}

impl RunCheckpoints<'_> {
    /// Takes in `checkpoint`, which lies elsewhere, under its step's name. Its files are linked where
    /// the file system can, which costs nothing, and copied where it cannot: no file of a checkpoint
    /// is ever changed.
    pub(crate) fn adopt(self, checkpoint: &Checkpoint) -> Result<PathBuf, TrainError> {
        let (step, from) = (checkpoint.step(), checkpoint.folder());
        fs::create_dir_all(self.folder)
            .map_err(|source| TrainError::io("create", self.folder, source))?;
        for path in leftovers(self.folder)? {
            fs::remove_dir_all(&path).map_err(|source| TrainError::io("delete", &path, source))?;
        }
        let partial = self.folder.join(hidden(step, PARTIAL));
        fs::create_dir(&partial).map_err(|source| TrainError::io("create", &partial, source))?;
        let files = checkpoint.manifest().files.iter().map(|file| file.name.as_str());
        for name in files.chain([MANIFEST]) {
            link_or_copy(&from.join(name), &partial.join(name))?;
        }
        sync_folder(Some(&partial))?;
        let folder = self.folder.join(step_folder(step));
        fs::rename(&partial, &folder)
            .map_err(|source| TrainError::io("rename", &partial, source))?;
        sync_folder(Some(self.folder))?;
        self.set_latest(step)?;
        Ok(folder)
    }

    /// Renames the checkpoints of later steps than `step`, newest first, and returns their new
    /// paths.
    pub(crate) fn set_aside_later(self, step: u64) -> Result<Vec<PathBuf>, TrainError> {
        let mut aside = Vec::new();
        for (later, folder) in step_folders(self.folder)?.into_iter().filter(|(it, _)| *it > step) {
            let name = format!("{ASIDE}{}", step_folder(later));
            let free = (1..)
                .map(|number| match number {
                    1 => self.folder.join(&name),
                    _ => self.folder.join(format!("{name}-{number}")),
                })
                .find(|path| !path.exists())
                .expect("some name is free");
            fs::rename(&folder, &free)
                .map_err(|source| TrainError::io("rename", &folder, source))?;
            aside.push(free);
        }
        sync_folder(Some(self.folder))?;
        self.set_latest(step)?;
        Ok(aside)
    }

    fn set_latest(self, step: u64) -> Result<(), TrainError> {
        let name = format!("{}\n", step_folder(step));
        replace_file(&self.folder.join(LATEST), name.as_bytes())
    }
}

fn link_or_copy(from: &Path, to: &Path) -> Result<(), TrainError> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let copied = fs::copy(from, to).and_then(|_| fs::File::open(to)?.sync_all());
    copied.map_err(|source| TrainError::io("write", to, source))
}

/// Deletes the checkpoints in the folder `checkpoints` with what else a run puts there, and the
/// folder where nothing else is in it.
pub(crate) fn delete_all(checkpoints: &Path) -> Result<(), TrainError> {
    if !checkpoints.exists() {
        return Ok(());
    }
    let delete = |path: &Path, source| TrainError::io("delete", path, source);
    let mut own = leftovers(checkpoints)?;
    let list = |source| TrainError::io("list", checkpoints, source);
    for entry in checkpoints.read_dir().map_err(list)? {
        let entry = entry.map_err(list)?;
        if entry.file_name().to_str().is_some_and(is_checkpoint) {
            own.push(entry.path());
        }
    }
    for path in own {
        fs::remove_dir_all(&path).map_err(|source| delete(&path, source))?;
    }
    let latest = checkpoints.join(LATEST);
    if latest.exists() {
        fs::remove_file(&latest).map_err(|source| delete(&latest, source))?;
    }
    match fs::remove_dir(checkpoints) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(delete(checkpoints, error))
        }
        _ => Ok(()),
    }
}

/// `step-N`, and one that was set aside.
fn is_checkpoint(name: &str) -> bool {
    let Some(aside) = name.strip_prefix(ASIDE) else { return step_of(name).is_some() };
    let (step, number) = match aside.rsplit_once('-') {
        Some((step, number)) if step != "step" => (step, number.parse::<u32>().is_ok()),
        _ => (aside, true),
    };
    number && step_of(step).is_some()
}
