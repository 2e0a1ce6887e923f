//! A folder that appears under its name when everything in it is on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::{Workplace, sync_folder};

use crate::TrainError;
use crate::checkpoint::CheckpointError;

/// What to do with a folder that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse it.
    #[default]
    Refuse,
    /// Put the new one in its place, where it holds nothing but files of the same kind.
    Replace,
}

/// Tells the files of an earlier output of some kind in a folder, by their paths from there on; none
/// where the folder is no such output.
pub(super) type Describe = fn(&Path) -> Option<Vec<String>>;

/// A folder that is being written under a hidden name beside its own; dropped before it is finished,
/// it is gone.
#[derive(Debug)]
pub(super) struct OutputFolder {
    out: PathBuf,
    place: Workplace,
    describe: Describe,
}

impl OutputFolder {
    /// Begins the folder that will be `out`, from what is read in the folder `from`. One that is
    /// there is only ever replaced where it is empty, or holds the files that `describe` tells and
    /// nothing else.
    pub(super) fn begin(
        out: &Path,
        from: &Path,
        existing: Existing,
        describe: Describe,
    ) -> Result<Self, TrainError> {
        let resolved = |path: &Path| fs::canonicalize(path).ok();
        if resolved(out).is_some_and(|out| resolved(from) == Some(out)) {
            return Err(CheckpointError::OutputFolderUsed {
                path: out.to_owned(),
                reason: "it is what is read".to_owned(),
                remedy: "choose another folder",
            }
            .into());
        }
        check(out, existing, describe)?;
        let place = Workplace::beside(out, "partial")?;
        place.empty()?;
        Ok(Self { out: out.to_owned(), place, describe })
    }

    /// Where the files go.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Gives the folder its name, once it is on the disk.
    pub(super) fn finish(mut self) -> Result<(), TrainError> {
        // Whoever has written there in the meantime keeps it.
        check(&self.out, Existing::Replace, self.describe)?;
        sync_folder(Some(self.place.path()))?;
        let old = self.out.exists().then(|| Workplace::place_beside(&self.out, "old"));
        let old = old.transpose()?;
        if let Some(old) = &old {
            fs::rename(&self.out, old)
                .map_err(|source| TrainError::io("rename", &self.out, source))?;
        }
        let partial = self.place.keep();
        if let Err(source) = fs::rename(&partial, &self.out) {
            self.place.discard();
            return Err(TrainError::io("rename", &partial, source));
        }
        let parent = std::path::absolute(&self.out)
            .map_err(|source| TrainError::io("resolve", &self.out, source))?;
        sync_folder(parent.parent())?;
        if let Some(old) = old {
            fs::remove_dir_all(&old).map_err(|source| TrainError::io("delete", &old, source))?;
        }
        Ok(())
    }
}

/// Refuses a place where something is that must stay.
fn check(out: &Path, existing: Existing, describe: Describe) -> Result<(), TrainError> {
    let refuse = |reason: String, remedy| {
        Err(CheckpointError::OutputFolderUsed { path: out.to_owned(), reason, remedy }.into())
    };
    if !out.exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return refuse("it is a file".to_owned(), "choose another name");
    }
    let mut found = Vec::new();
    list(out, "", &mut found)?;
    if found.is_empty() {
        return Ok(());
    }
    let own = describe(out).unwrap_or_default();
    // A folder belongs to the output where one of its files lies in it.
    let is_own = |path: &String| {
        own.iter().any(|own| own == path || own.starts_with(path) && path.ends_with('/'))
    };
    if let Some(foreign) = found.iter().find(|path| !is_own(path)) {
        let reason = format!("it holds {}", foreign.trim_end_matches('/'));
        return refuse(reason, "choose another folder, for that is no part of what is written");
    }
    if existing == Existing::Refuse {
        return refuse(
            "it holds an earlier output".to_owned(),
            "choose another folder, or pass --overwrite to replace it",
        );
    }
    Ok(())
}

/// Adds what lies in `folder`, at any depth, to `found`: paths behind `prefix`, those of folders with
/// a slash at their end.
fn list(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<(), TrainError> {
    let list_error = |source| TrainError::io("list", folder, source);
    for entry in folder.read_dir().map_err(list_error)? {
        let entry = entry.map_err(list_error)?;
        let path = format!("{prefix}{}", entry.file_name().display());
        if entry.file_type().map_err(list_error)?.is_dir() {
            let below = format!("{path}/");
            found.push(below.clone());
            list(&entry.path(), &below, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
