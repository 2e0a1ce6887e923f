//! The folder in which a curation works: `.OUT.stages` beside the data folder that it makes.
//!
//! A curation of a large corpus takes hours, and any of them may be its last. What it has made up
//! to then lies here, and the same command goes on from there:
//!
//! ```text
//! .OUT.stages/origin.json        what is made, from what: config, input files, test sets
//! .OUT.stages/journal.jsonl      a line for each part that is complete: its files, their checksums
//! .OUT.stages/*.arrow, …         the parts
//! ```
//!
//! Stages are made of *parts*, and the same run makes the same parts in the same order, whatever
//! the number of threads. A run that goes on [replays](StageFolder::replay) the journal, part by
//! part, and makes what is not in it. A part whose files do not have the checksums of its line is
//! made again, with all that follow.
//!
//! - [`journal`](Journal): the completion markers; `identity`: what a run is, and what changed;
//! - [`arrow_file`](ArrowFile): tables that are written once and read through the memory map.

mod arrow_file;
mod identity;
mod journal;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use arrow_file::{ArrowFile, ArrowFileWriter, u32_column};
use corpus::{Existing, FileSummary, Observer, Workplace};
pub(crate) use identity::{FileState, RunIdentity};
use journal::Journal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::CurationError;

/// Name of the file that says what a stage folder, and later the data folder, is made from.
pub(crate) const ORIGIN: &str = "origin.json";

/// The stage folder of a run, held by this process.
#[derive(Debug)]
pub(crate) struct StageFolder {
    workplace: Workplace,
    journal: Journal,
}

impl StageFolder {
    /// Takes the stage folder of the output `out`, and checks what an earlier process of the same
    /// run left in it. What another run left is refused, or under [`Existing::Replace`] removed.
    ///
    /// # Errors
    ///
    /// [`CurationError::RunChanged`] for the stages of another run; where another process holds the
    /// folder, or it cannot be read or written.
    pub(crate) fn open(
        out: &Path,
        identity: &RunIdentity,
        existing: Existing,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let mut workplace = Workplace::beside(out, "stages")?;
        let path = workplace.path().to_owned();
        match RunIdentity::read(&path.join(ORIGIN))? {
            Some(earlier) if earlier == *identity => {
                workplace.keep();
                let journal = Journal::open(&path, observer).map_err(|error| match error {
                    CurationError::Stopped { .. } => {
                        CurationError::Stopped { stages: Some(path.clone()) }
                    }
                    error => error,
                })?;
                if journal.is_empty() {
                    workplace.discard();
                } else {
                    tracing::info!("going on with what {} holds", path.display());
                }
                Ok(Self { workplace, journal })
            }
            Some(earlier) if existing == Existing::Refuse => {
                workplace.keep();
                Err(stages_of_another(out, identity, &earlier))
            }
            _ => {
                workplace.empty()?;
                identity.write(&path.join(ORIGIN))?;
                Ok(Self { workplace, journal: Journal::create(&path)? })
            }
        }
    }

    /// Whether [`open`](Self::open) would refuse the stages that lie beside `out`.
    ///
    /// # Errors
    ///
    /// [`CurationError::RunChanged`] where it would.
    pub(crate) fn check(
        out: &Path,
        identity: &RunIdentity,
        existing: Existing,
    ) -> Result<(), CurationError> {
        let path = Workplace::place_beside(out, "stages")?;
        match RunIdentity::read(&path.join(ORIGIN))? {
            Some(earlier) if earlier != *identity && existing == Existing::Refuse => {
                Err(stages_of_another(out, identity, &earlier))
            }
            _ => Ok(()),
        }
    }

    /// Where the file of this name lies.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.workplace.path().join(name)
    }

    /// The result of the next part, where that is of this stage and complete.
    ///
    /// # Errors
    ///
    /// Where the journal does not hold a result of this type: it was written by another version.
    pub(crate) fn replay<T: DeserializeOwned>(
        &mut self,
        stage: &str,
    ) -> Result<Option<T>, CurationError> {
        self.journal.replay(stage)
    }

    /// The results of the next parts as far as they are of this stage, for whoever must see all
    /// before the first is [replayed](Self::replay).
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay).
    pub(crate) fn upcoming<T: DeserializeOwned>(
        &self,
        stage: &str,
    ) -> Result<Vec<T>, CurationError> {
        self.journal.upcoming(stage)
    }

    /// Notes that a part is complete, with its result; what an earlier process noted beyond it is
    /// void. From the first part on, the folder outlives the process.
    ///
    /// # Errors
    ///
    /// Where the journal cannot be written.
    pub(crate) fn record(
        &mut self,
        stage: &str,
        files: Vec<FileSummary>,
        result: &impl Serialize,
    ) -> Result<(), CurationError> {
        self.journal.record(stage, files, result)?;
        self.workplace.keep();
        Ok(())
    }

    /// The folder, where it holds something to go on with.
    pub(crate) fn resumable(&self) -> Option<PathBuf> {
        (!self.journal.is_empty()).then(|| self.workplace.path().to_owned())
    }

    /// Removes what a run of this identity left that ended, or was killed, when all was in the data
    /// folder `out`.
    pub(crate) fn remove_leftovers(out: &Path, identity: &RunIdentity) {
        let Ok(mut workplace) = Workplace::beside(out, "stages") else { return };
        workplace.keep();
        let path = workplace.path();
        match RunIdentity::read(&path.join(ORIGIN)) {
            Ok(Some(other)) if other != *identity => {}
            _ => {
                if let Err(error) = fs::remove_dir_all(path) {
                    tracing::warn!("cannot remove {}: {error}", path.display());
                }
            }
        }
    }

    /// Removes the folder: all that it held is in the data folder.
    ///
    /// # Errors
    ///
    /// Where it cannot be removed.
    pub(crate) fn remove(mut self) -> Result<(), CurationError> {
        self.workplace.keep();
        let path = self.workplace.path();
        fs::remove_dir_all(path).map_err(CurationError::io("remove", path))
    }
}

/// The error of stages that another run has begun.
fn stages_of_another(out: &Path, identity: &RunIdentity, earlier: &RunIdentity) -> CurationError {
    CurationError::RunChanged {
        out: out.to_owned(),
        changes: identity.changes_since(earlier),
        holds: "the stages of a run that did not end",
    }
}
