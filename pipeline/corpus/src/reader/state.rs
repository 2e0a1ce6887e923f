//! How far sources are read, for a later process to go on from there.

use serde::{Deserialize, Serialize};

use super::block::Position;
use super::open_file::ListedFile;
use super::{Accepted, BrokenFile, Cutter, FileProblem, Sources};

/// What was accepted of [`Sources`]. Holds for the same files under the same configuration: whoever
/// keeps it keeps what [`Sources::files`] tells of them beside it. The default is the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadState {
    /// Index of the file that is read next, or on.
    file: u32,
    /// Where it is read on.
    position: Position,
    /// Documents of it before that place.
    documents: u64,
    broken: Vec<BrokenAt>,
    /// Indices of the files that held no record.
    empty_files: Vec<u32>,
}

/// A [`BrokenFile`] without its path, which its index stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BrokenAt {
    file: u32,
    documents: u64,
    byte_offset: u64,
    line: Option<u64>,
    problem: FileProblem,
}

impl Sources {
    /// How far these sources are accepted.
    pub fn state(&self) -> ReadState {
        let Accepted { file, position, documents, broken, empty_files, .. } = &self.accepted;
        ReadState {
            file: *file,
            position: *position,
            documents: *documents,
            broken: broken.iter().map(BrokenAt::of).collect(),
            empty_files: empty_files.clone(),
        }
    }

    /// Goes on behind what was accepted when the state was taken, in this process or an earlier
    /// one. Files done with are not opened, and nothing that is passed over is parsed.
    ///
    /// # Panics
    ///
    /// If the state is that of other files.
    pub fn skip_to(&mut self, state: &ReadState) {
        let done = state.file as usize;
        assert!(done <= self.files.len(), "the state is that of the same files");
        self.cutter = Cutter { file: done, start: state.position, ..Cutter::default() };
        self.accepted = Accepted {
            file: state.file,
            position: state.position,
            documents: state.documents,
            finished_bytes: self.files[..done].iter().map(ListedFile::bytes).sum(),
            broken: state.broken.iter().map(|at| at.restored(&self.files)).collect(),
            empty_files: state.empty_files.clone(),
            ..Accepted::default()
        };
        (self.ready, self.failure) = (Vec::new().into_iter(), None);
    }
}

impl BrokenAt {
    fn of(broken: &BrokenFile) -> Self {
        let BrokenFile { file, path: _, documents, byte_offset, line, problem } = broken.clone();
        Self { file, documents, byte_offset, line, problem }
    }

    fn restored(&self, files: &[ListedFile]) -> BrokenFile {
        let Self { file, documents, byte_offset, line, problem } = self.clone();
        let path = files[file as usize].path().clone();
        BrokenFile { file, path, documents, byte_offset, line, problem }
    }
}
