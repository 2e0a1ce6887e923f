//! The folder of a run's checkpoints as a whole: taking one in from elsewhere, setting aside, and
//! deleting.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use corpus::{CorpusError, Observer, Unit, sync_folder};
use tracing::warn;

use super::load::PassedOver;
use super::manifest::replace_file;
use super::retention::{clear_away, leftovers};
use super::{Checkpoint, LATEST, MANIFEST, PARTIAL, hidden, step_folder, step_folders, step_of};
use crate::TrainError;

/// What the name of a whole checkpoint that was set aside begins with.
const ASIDE: &str = "superseded-";
/// What the name of a broken checkpoint begins with that a run has passed over.
const BROKEN: &str = "broken-";

/// Bytes that are copied between two looks at an observer.
const BLOCK_BYTES: u64 = 1 << 26;

/// A folder of checkpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunCheckpoints<'a> {
    pub(crate) folder: &'a Path,
}

impl RunCheckpoints<'_> {
    /// Takes in a copy of `checkpoint`, which lies elsewhere, under its step's name. The two share
    /// nothing afterwards, but for blocks where the file system copies them only when one is
    /// written: what happens to the original does not concern the copy.
    pub(crate) fn adopt(
        self,
        checkpoint: &Checkpoint,
        observer: &dyn Observer,
    ) -> Result<Checkpoint, TrainError> {
        let (step, from) = (checkpoint.step(), checkpoint.folder());
        fs::create_dir_all(self.folder)
            .map_err(|source| TrainError::io("create", self.folder, source))?;
        for path in leftovers(self.folder)? {
            fs::remove_dir_all(&path).map_err(|source| TrainError::io("delete", &path, source))?;
        }
        let partial = self.folder.join(hidden(step, PARTIAL));
        fs::create_dir(&partial).map_err(|source| TrainError::io("create", &partial, source))?;
        let files = &checkpoint.manifest().files;
        let total = files.iter().map(|file| file.bytes).sum();
        observer.begin("copy checkpoint", Some(total), Unit::Bytes);
        let names = files.iter().map(|file| file.name.as_str()).chain([MANIFEST]);
        let copied = names
            .into_iter()
            .try_for_each(|name| copy(&from.join(name), &partial.join(name), observer));
        observer.finish();
        if copied.is_err() {
            clear_away(&partial);
        }
        copied?;
        sync_folder(Some(&partial))?;
        let folder = self.folder.join(step_folder(step));
        fs::rename(&partial, &folder)
            .map_err(|source| TrainError::io("rename", &partial, source))?;
        sync_folder(Some(self.folder))?;
        self.set_latest(step)?;
        checkpoint.at(folder)
    }

    /// Renames the checkpoints of later steps than `step`, newest first, and returns their new
    /// paths.
    pub(crate) fn set_aside_later(self, step: u64) -> Result<Vec<PathBuf>, TrainError> {
        let mut aside = Vec::new();
        for (later, folder) in step_folders(self.folder)?.into_iter().filter(|(it, _)| *it > step) {
            aside.push(self.rename(&folder, ASIDE, later)?);
        }
        sync_folder(Some(self.folder))?;
        self.set_latest(step)?;
        Ok(aside)
    }

    /// Gives the checkpoints that a run has passed over other names: they count as none of the
    /// run's from then on, and nothing that is whole is lost.
    pub(crate) fn set_aside(self, passed_over: &[PassedOver]) -> Result<(), TrainError> {
        for PassedOver { folder, step, is_whole, .. } in passed_over {
            if !folder.is_dir() {
                continue; // a file that has such a name
            }
            let aside = self.rename(folder, if *is_whole { ASIDE } else { BROKEN }, *step)?;
            warn!(step, "{} is set aside as {}", folder.display(), aside.display());
        }
        Ok(())
    }

    /// Makes way for the checkpoint of step `step`: what is there is set aside.
    pub(super) fn make_way(self, step: u64) -> Result<(), TrainError> {
        let folder = self.folder.join(step_folder(step));
        if folder.is_dir() {
            let aside = self.rename(&folder, ASIDE, step)?;
            warn!(step, "{} was there already: it is now {}", folder.display(), aside.display());
        }
        Ok(())
    }

    /// Deletes the broken checkpoints of step `step`, of which there is a whole one by now.
    pub(super) fn delete_broken(self, step: u64) {
        for number in 1.. {
            let path = self.numbered(BROKEN, step, number);
            if !path.is_dir() {
                return;
            }
            clear_away(&path);
            if path.exists() {
                return; // told already
            }
        }
    }

    fn rename(self, folder: &Path, prefix: &str, step: u64) -> Result<PathBuf, TrainError> {
        let free = (1..)
            .map(|number| self.numbered(prefix, step, number))
            .find(|path| !path.exists())
            .expect("some name is free");
        fs::rename(folder, &free).map_err(|source| TrainError::io("rename", folder, source))?;
        Ok(free)
    }

    /// The name that the `number`-th checkpoint of a step has which is set aside.
    fn numbered(self, prefix: &str, step: u64, number: u32) -> PathBuf {
        let name = format!("{prefix}{}", step_folder(step));
        match number {
            1 => self.folder.join(name),
            _ => self.folder.join(format!("{name}-{number}")),
        }
    }

    fn set_latest(self, step: u64) -> Result<(), TrainError> {
        let name = format!("{}\n", step_folder(step));
        replace_file(&self.folder.join(LATEST), name.as_bytes())
    }
}

/// Copies a file to one that is not there, and puts the copy on the disk.
fn copy(from: &Path, to: &Path, observer: &dyn Observer) -> Result<(), TrainError> {
    let file = File::open(from).map_err(|source| TrainError::io("open", from, source))?;
    let write = |source| TrainError::io("write", to, source);
    let mut copy = File::options().write(true).create_new(true).open(to).map_err(write)?;
    loop {
        if observer.stop_requested() {
            return Err(CorpusError::Stopped.into());
        }
        match io::copy(&mut (&file).take(BLOCK_BYTES), &mut copy).map_err(write)? {
            0 => return copy.sync_all().map_err(write),
            copied => observer.advance(copied),
        }
    }
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
    let aside = [ASIDE, BROKEN].iter().find_map(|prefix| name.strip_prefix(prefix));
    let Some(aside) = aside else { return step_of(name).is_some() };
    let (step, number) = match aside.rsplit_once('-') {
        Some((step, number)) if step != "step" => (step, number.parse::<u32>().is_ok()),
        _ => (aside, true),
    };
    number && step_of(step).is_some()
}
