//! The completion markers of a run: one line of JSON for each part, in the order of making.
//!
//! A line is written when the files of its part are. Neither is waited for until it is on disk:
//! after a power failure the line may be there and the bytes may not, so the checksums decide.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use corpus::{FileSummary, Observer, PendingFile, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CurationError;
use crate::stop::stop_if_asked;

/// Name of the journal in a stage folder.
const JOURNAL: &str = "journal.jsonl";

/// The journal of a stage folder: what is replayed, and then what is added.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// The complete parts, in order.
    parts: Vec<Part>,
    /// How many of them were replayed or made by this process.
    passed: usize,
}

/// A part that is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    stage: String,
    /// Its files, in the stage folder.
    files: Vec<FileSummary>,
    /// What it came to.
    result: Value,
}

impl Journal {
    /// Begins the journal of an empty folder.
    pub(super) fn create(folder: &Path) -> Result<Self, CurationError> {
        let path = folder.join(JOURNAL);
        let file = File::create_new(&path).map_err(CurationError::io("create", &path))?;
        Ok(Self { path, file, parts: Vec::new(), passed: 0 })
    }

    /// Opens the journal of a folder, with the parts up to the first that is not as it was when its
    /// line was written.
    pub(super) fn open(folder: &Path, observer: &dyn Observer) -> Result<Self, CurationError> {
        let path = folder.join(JOURNAL);
        let file = open(&path)?;
        let text = fs::read(&path).map_err(CurationError::io("read", &path))?;
        // A line without an end was being written when the process died.
        let written = text.split_inclusive(|&byte| byte == b'\n').map_while(|line| {
            line.ends_with(b"\n").then(|| serde_json::from_slice(line).ok()).flatten()
        });
        let mut journal = Self { path, file, parts: written.collect(), passed: 0 };
        let intact = if journal.is_empty() { 0 } else { journal.count_intact(folder, observer)? };
        journal.parts.truncate(intact);
        journal.rewrite()?;
        Ok(journal)
    }

    /// Number of parts, from the first, whose files have the sizes and checksums of their lines.
    fn count_intact(&self, folder: &Path, observer: &dyn Observer) -> Result<usize, CurationError> {
        let bytes = self.parts.iter().flat_map(|part| &part.files).map(|file| file.bytes).sum();
        observer.begin("check", Some(bytes), Unit::Bytes);
        for (number, part) in self.parts.iter().enumerate() {
            for written in &part.files {
                stop_if_asked(observer)?;
                let path = folder.join(&written.name);
                // Of a file of another size, the checksum need not be made.
                let is_intact = fs::metadata(&path).is_ok_and(|it| it.len() == written.bytes)
                    && FileSummary::of(&path)? == *written;
                if !is_intact {
                    tracing::warn!(
                        "{}: not as it was when it was complete: it is made again, with all that \
                         follows it",
                        path.display()
                    );
                    self.remove_files(number, folder);
                    observer.finish();
                    return Ok(number);
                }
                observer.advance(written.bytes);
            }
        }
        observer.finish();
        Ok(self.parts.len())
    }

    /// Removes the files of the parts from `first` on, so that none is taken for whole. One that
    /// cannot be removed is written over when its part is made.
    fn remove_files(&self, first: usize, folder: &Path) {
        for file in self.parts[first..].iter().flat_map(|part| &part.files) {
            let _ = fs::remove_file(folder.join(&file.name));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The result of the next part, if that is of this stage.
    pub(super) fn replay<T: DeserializeOwned>(
        &mut self,
        stage: &str,
    ) -> Result<Option<T>, CurationError> {
        let Some(part) = self.parts.get(self.passed).filter(|part| part.stage == stage) else {
            return Ok(None);
        };
        let result = self.result_of(part)?;
        self.passed += 1;
        Ok(Some(result))
    }

    /// The results of the next parts as far as they are of this stage; they are yet to be passed.
    pub(super) fn upcoming<T: DeserializeOwned>(
        &self,
        stage: &str,
    ) -> Result<Vec<T>, CurationError> {
        let upcoming = self.parts[self.passed..].iter().take_while(|part| part.stage == stage);
        upcoming.map(|part| self.result_of(part)).collect()
    }

    fn result_of<T: DeserializeOwned>(&self, part: &Part) -> Result<T, CurationError> {
        T::deserialize(&part.result)
            .map_err(|source| CurationError::Journal { path: self.path.clone(), source })
    }

    /// Adds a part behind those that were passed; those that were not are void.
    pub(super) fn record(
        &mut self,
        stage: &str,
        files: Vec<FileSummary>,
        result: &impl Serialize,
    ) -> Result<(), CurationError> {
        if self.passed < self.parts.len() {
            self.parts.truncate(self.passed);
            self.rewrite()?;
        }
        let result = serde_json::to_value(result)
            .map_err(|source| CurationError::Journal { path: self.path.clone(), source })?;
        let part = Part { stage: stage.to_owned(), files, result };
        self.write(&part)?;
        self.parts.push(part);
        self.passed += 1;
        Ok(())
    }

    /// Replaces the file by one of the parts that are held.
    fn rewrite(&mut self) -> Result<(), CurationError> {
        let mut whole = PendingFile::replace(&self.path)?;
        for part in &self.parts {
            let line = self.line(part)?;
            whole.write(|file| file.write_all(&line))?;
        }
        whole.close()?;
        whole.commit()?;
        self.file = open(&self.path)?;
        Ok(())
    }

    fn write(&self, part: &Part) -> Result<(), CurationError> {
        let line = self.line(part)?;
        (&self.file).write_all(&line).map_err(CurationError::io("write", &self.path))
    }

    fn line(&self, part: &Part) -> Result<Vec<u8>, CurationError> {
        let mut line = serde_json::to_vec(part)
            .map_err(|source| CurationError::Journal { path: self.path.clone(), source })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// The journal at `path`, to add lines to; made where it is not there.
fn open(path: &Path) -> Result<File, CurationError> {
    OpenOptions::new().append(true).create(true).open(path).map_err(CurationError::io("open", path))
}

#[cfg(test)]
mod tests {
    use corpus::Silent;

    use super::*;

    /// A journal of three parts with a file each, as a process leaves it.
    fn written(folder: &Path) -> Journal {
        let mut journal = Journal::create(folder).unwrap();
        for number in 0..3 {
            let path = folder.join(format!("part-{number}"));
            fs::write(&path, format!("content {number}")).unwrap();
            journal.record("stage", vec![FileSummary::of(&path).unwrap()], &number).unwrap();
        }
        journal
    }

    fn replayed(folder: &Path) -> Vec<u32> {
        let mut journal = Journal::open(folder, &Silent).unwrap();
        std::iter::from_fn(|| journal.replay("stage").unwrap()).collect()
    }

    #[test]
    fn parts_come_back_in_order_and_only_to_their_stage() {
        let folder = tempfile::tempdir().unwrap();
        drop(written(folder.path()));
        assert_eq!(replayed(folder.path()), [0, 1, 2]);
        let mut journal = Journal::open(folder.path(), &Silent).unwrap();
        assert_eq!(journal.replay::<u32>("another").unwrap(), None);
        assert_eq!(journal.replay::<u32>("stage").unwrap(), Some(0));
    }

    #[test]
    fn a_damaged_part_takes_those_after_it_along() {
        for damage in [&b"content 7"[..], b"short", b""] {
            let folder = tempfile::tempdir().unwrap();
            drop(written(folder.path()));
            fs::write(folder.path().join("part-1"), damage).unwrap();
            assert_eq!(replayed(folder.path()), [0]);
        }
    }

    #[test]
    fn half_a_line_is_no_part() {
        let folder = tempfile::tempdir().unwrap();
        drop(written(folder.path()));
        let path = folder.path().join(JOURNAL);
        let text = fs::read(&path).unwrap();
        for cut in [1, 10] {
            fs::write(&path, &text[..text.len() - cut]).unwrap();
            assert_eq!(replayed(folder.path()), [0, 1]);
        }
    }

    #[test]
    fn what_is_recorded_after_a_replay_voids_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        drop(written(folder.path()));
        let mut journal = Journal::open(folder.path(), &Silent).unwrap();
        assert_eq!(journal.replay::<u32>("stage").unwrap(), Some(0));
        journal.record("stage", Vec::new(), &9).unwrap();
        drop(journal);
        assert_eq!(replayed(folder.path()), [0, 9]);
    }
}
