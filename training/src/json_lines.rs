//! A log of a run: a file with one JSON object per line, each of which names the step it belongs
//! to.
//!
//! Lines are written whole and at once, so that a killed run keeps every step that it logged. A
//! resumed run drops the lines of steps that its checkpoint does not have, and does these steps
//! again: the file of a run that was stopped a hundred times reads as that of one that never was.
//! A log is on the disk before the checkpoint that counts on it. Lines for which a disk has no room
//! wait in memory until it has: a full disk is no end of a run.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::TrainError;
use crate::patient_file::PatientFile;

/// Writer of a log.
#[derive(Debug)]
pub(crate) struct JsonLines {
    file: PatientFile,
}

impl JsonLines {
    /// Opens the log at `path` of a run that goes on after `done_steps` steps; makes it where there
    /// is none. Hands every line up to there to `keeps`, with its step: the first one that is not
    /// to be kept goes, and all behind it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written, or has a line that no run wrote.
    pub(crate) fn open(
        path: &Path,
        done_steps: u64,
        keeps: impl FnMut(u64, &Value) -> bool,
    ) -> Result<Self, TrainError> {
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(|source| TrainError::io("open", path, source))?;
        let kept = bytes_until(&file, path, done_steps, keeps)?;
        file.set_len(kept).map_err(|source| TrainError::io("write", path, source))?;
        Ok(Self { file: PatientFile::new(path, file) })
    }

    /// Reads the log at `path` as [`open`](Self::open) does, and changes nothing. A log that is not
    /// there has no lines.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has a line that no run wrote.
    pub(crate) fn read(
        path: &Path,
        done_steps: u64,
        keeps: impl FnMut(u64, &Value) -> bool,
    ) -> Result<(), TrainError> {
        if !path.exists() {
            return Ok(());
        }
        let file = File::open(path).map_err(|source| TrainError::io("open", path, source))?;
        bytes_until(&file, path, done_steps, keeps).map(|_| ())
    }

    /// Returns when what was written is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        self.file.sync()
    }

    /// Writes one line, as soon as there is room for it.
    ///
    /// # Errors
    ///
    /// When the line cannot be written for another reason.
    pub(crate) fn push<T: Serialize>(&mut self, line: &T) -> Result<(), TrainError> {
        let mut json = serde_json::to_vec(line).expect("lines are plain data");
        json.push(b'\n');
        self.file.push(&json)
    }
}

/// Length of the lines of the first `done_steps` steps, which stand in the order of the steps. What
/// follows the last end of a line was cut off by a death.
fn bytes_until(
    file: &File,
    path: &Path,
    done_steps: u64,
    mut keeps: impl FnMut(u64, &Value) -> bool,
) -> Result<u64, TrainError> {
    let (mut reader, mut bytes, mut kept) = (BufReader::new(file), Vec::new(), 0);
    for number in 1.. {
        bytes.clear();
        let length = reader
            .read_until(b'\n', &mut bytes)
            .map_err(|source| TrainError::io("read", path, source))?;
        if bytes.last() != Some(&b'\n') {
            break;
        }
        let line: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Some(step) = line["step"].as_u64() else {
            return Err(TrainError::LogLine { path: path.to_owned(), line: number });
        };
        if step > done_steps || !keeps(step, &line) {
            break;
        }
        kept += length as u64;
    }
    Ok(kept)
}
