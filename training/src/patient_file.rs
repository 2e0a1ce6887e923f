//! A file that grows while a run goes, and for which a full disk is no end of the run.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracing::error;

use crate::TrainError;
use crate::error::is_no_room;

/// A file to whose end records are written. One for which the disk has no room waits in memory until
/// it has.
#[derive(Debug)]
pub(crate) struct PatientFile {
    path: PathBuf,
    file: File,
    /// What the disk had no room for.
    waiting: Vec<u8>,
    /// Whether that was told.
    is_told: bool,
}

impl PatientFile {
    /// Writes to the end of `file`, which was opened at `path` to be appended to.
    pub(crate) fn new(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file, waiting: Vec::new(), is_told: false }
    }

    /// Writes a record at once, or has it wait for the next one or for [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// When it cannot be written for another reason than room.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<(), TrainError> {
        self.waiting.extend_from_slice(record);
        match self.write_waiting() {
            Ok(()) => {
                self.is_told = false;
                Ok(())
            }
            Err(error) if is_no_room(&error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    let path = self.path.display();
                    error!(
                        "{path}: {error}; what it would hold waits in memory until there is room"
                    );
                }
                Ok(())
            }
            Err(source) => Err(TrainError::io("write", &self.path, source)),
        }
    }

    /// Returns when every record is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk does not take it, or the file was moved or deleted: its records would be lost.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        if !self.is_in_place().map_err(|source| TrainError::io("read", &self.path, source))? {
            return Err(TrainError::LogGone { path: self.path.clone() });
        }
        self.write_waiting()
            .and_then(|()| self.file.sync_data())
            .map_err(|source| TrainError::io("write", &self.path, source))
    }

    /// Whether the file that is written is still the one that its path leads to.
    fn is_in_place(&self) -> io::Result<bool> {
        let identity = |file: Metadata| (file.dev(), file.ino());
        match self.path.metadata() {
            Ok(there) => Ok(identity(there) == identity(self.file.metadata()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes what waits; what a full disk took of it does not wait any more.
    fn write_waiting(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.file.write(&self.waiting) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
