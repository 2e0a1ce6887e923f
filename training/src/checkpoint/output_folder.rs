//! A folder that appears under its name when everything in it is on the disk.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use corpus::{Workplace, sync_folder};

use crate::TrainError;

/// What to do with a folder that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse it.
    #[default]
    Refuse,
    /// Put the new one in its place, where it holds nothing but files of the same kind.
    Replace,
}

/// A folder that is being written under a hidden name beside its own; dropped before it is finished,
/// it is gone.
#[derive(Debug)]
pub(super) struct OutputFolder {
    out: PathBuf,
    place: Workplace,
    names: Vec<String>,
}

impl OutputFolder {
    /// Begins the folder that will be `out`. One that is there is only ever replaced where it holds
    /// nothing but files and folders called `names`, or empty.
    pub(super) fn begin(
        out: &Path,
        existing: Existing,
        names: &[&str],
    ) -> Result<Self, TrainError> {
        check(out, existing, names)?;
        let place = Workplace::beside(out, "partial")?;
        place.empty()?;
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Ok(Self { out: out.to_owned(), place, names })
    }

    /// Where the files go.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Gives the folder its name, once it is on the disk.
    pub(super) fn finish(mut self) -> Result<(), TrainError> {
        // Whoever has written there in the meantime keeps it.
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        check(&self.out, Existing::Replace, &names)?;
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
fn check(out: &Path, existing: Existing, names: &[&str]) -> Result<(), TrainError> {
    let refuse = |reason: String, remedy| {
        Err(TrainError::OutputFolderUsed { path: out.to_owned(), reason, remedy })
    };
    if !out.exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return refuse("it is a file".to_owned(), "choose another name");
    }
    let list = |source| TrainError::io("list", out, source);
    let mut is_empty = true;
    for entry in out.read_dir().map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        is_empty = false;
        if !names.iter().any(|known| OsStr::new(known) == name) {
            let reason = format!("it holds {}", name.display());
            return refuse(reason, "choose another folder, for that is no part of what is written");
        }
    }
    if !is_empty && existing == Existing::Refuse {
        return refuse(
            "it holds an earlier output".to_owned(),
            "choose another folder, or pass --overwrite to replace it",
        );
    }
    Ok(())
}
