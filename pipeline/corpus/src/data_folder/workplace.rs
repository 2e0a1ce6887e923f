//! A hidden folder beside an output, in which the output is prepared, held by one run at a time.
//!
//! Two runs with the same output must neither mix their files nor remove each other's. The folder
//! itself is locked, by the kernel and for as long as the process lives: what a killed run left
//! behind is free, what another run works in is not, and no lock file stays behind.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::CorpusError;
use crate::pending_file::temporary_sibling;

/// A folder of this run's own; removed when it is dropped, unless it was renamed or is to be kept.
#[derive(Debug)]
pub struct Workplace {
    path: PathBuf,
    /// Holds the lock.
    _folder: File,
    is_kept: bool,
}

impl Workplace {
    /// Takes the folder `.NAME.WORD` beside `output`, which is made where it is not there.
    ///
    /// # Errors
    ///
    /// As `take`.
    pub fn beside(output: &Path, word: &str) -> Result<Self, CorpusError> {
        Self::take(Self::place_beside(output, word)?, output)
    }

    /// Where the folder `.NAME.WORD` beside `output` lies.
    ///
    /// # Errors
    ///
    /// Where the working folder cannot be told.
    pub fn place_beside(output: &Path, word: &str) -> Result<PathBuf, CorpusError> {
        let place = std::path::absolute(output).map_err(CorpusError::io("resolve", output))?;
        Ok(temporary_sibling(&place, word))
    }

    /// Takes the folder `path`, which is made where it is not there. `output` is what the user
    /// calls the folder that is to be written.
    ///
    /// # Errors
    ///
    /// [`CorpusError::OutputInUse`] for a folder that another run holds; where it cannot be made.
    pub(super) fn take(path: PathBuf, output: &Path) -> Result<Self, CorpusError> {
        fs::create_dir_all(&path).map_err(CorpusError::io("create", &path))?;
        let in_use = || CorpusError::OutputInUse { path: output.to_owned() };
        // Between being made and being locked it can be renamed or removed by the run that held it.
        let folder = match File::open(&path) {
            Ok(folder) => folder,
            Err(_) if !path.exists() => return Err(in_use()),
            Err(error) => return Err(CorpusError::io("open", &path)(error)),
        };
        match folder.try_lock() {
            Ok(()) if is_at(&folder, &path) => {}
            Ok(()) | Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "{}: this file system locks no folder ({error}): start no second run with \
                     this output",
                    path.display()
                );
            }
        }
        Ok(Self { path, _folder: folder, is_kept: false })
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what an earlier run left in the folder, and says so.
    ///
    /// # Errors
    ///
    /// Where something cannot be removed.
    pub fn empty(&self) -> Result<(), CorpusError> {
        empty(&self.path)
    }

    /// Gives the folder its final name.
    pub(super) fn rename(&mut self, to: &Path) -> Result<(), CorpusError> {
        fs::rename(&self.path, to).map_err(CorpusError::io("rename", &self.path))?;
        self.is_kept = true;
        Ok(())
    }

    /// Has the folder removed when it is dropped, though it was to be kept.
    pub fn discard(&mut self) {
        self.is_kept = false;
    }

    /// Leaves the folder where it is; returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if !self.is_kept {
            // Nothing is to be done about a folder that cannot be removed, and the first error is
            // the one to report.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether the open folder is the one that stands at `path`.
fn is_at(folder: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (folder.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

/// Removes what an earlier run left, and says so.
fn empty(folder: &Path) -> Result<(), CorpusError> {
    let mut removed = 0;
    for entry in fs::read_dir(folder).map_err(CorpusError::io("list", folder))? {
        let path = entry.map_err(CorpusError::io("list", folder))?.path();
        let is_folder = path.is_dir() && !path.is_symlink();
        if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .map_err(CorpusError::io("remove", &path))?;
        removed += 1;
    }
    if removed > 0 {
        tracing::info!(
            "{}: removed {removed} files of an earlier run that did not end",
            folder.display()
        );
    }
    Ok(())
}
