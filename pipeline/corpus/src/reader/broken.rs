//! A file that breaks off: where, after how many documents, and why.
//!
//! Offsets count bytes of the text, uncompressed: the place that a user finds again with `zcat FILE
//! | tail -c +OFFSET`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Item;
use super::compression::Compression;
use super::form::{Content, Form};
use crate::CorpusError;

/// A file that could not be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenFile {
    /// Index of the file among [`Sources::files`](super::Sources::files).
    pub file: u32,
    /// The file.
    pub path: Arc<Path>,
    /// Documents that were read from it before the break.
    pub documents: u64,
    /// Where its text breaks off, in bytes of the uncompressed text; of a Parquet file, where the
    /// row group begins that cannot be read.
    pub byte_offset: u64,
    /// The line or row that breaks off, counted from 1; `None` where the whole file is one
    /// document.
    pub line: Option<u64>,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// `FILE: breaks off at byte N of its uncompressed text, in line L, after D documents: PROBLEM`.
impl fmt::Display for BrokenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file: _, path, documents, byte_offset, line, problem } = self;
        let of_text = of_text(path);
        write!(formatter, "{}: breaks off at byte {byte_offset}{of_text}", path.display())?;
        if let Some(line) = line {
            write!(formatter, ", in {} {line}", unit(path))?;
        }
        let plural = if *documents == 1 { "" } else { "s" };
        write!(formatter, ", after {documents} document{plural}: {problem}")
    }
}

/// What documents of `path` are numbered by.
fn unit(path: &Path) -> &'static str {
    if is_parquet(path) { "row" } else { "line" }
}

fn is_parquet(path: &Path) -> bool {
    Form::of_name(path).is_some_and(|form| form.content == Content::Parquet)
}

/// What an offset into `path` counts, where it is not the bytes of the file.
pub(super) fn of_text(path: &Path) -> &'static str {
    Compression::of_name(path).map_or("", |_| " of its uncompressed text")
}

/// What is wrong with a file that breaks off.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileProblem {
    /// The file ends before its compressed data do.
    #[error("the file is cut off, its {form} data are not complete")]
    CutOff {
        /// The compression.
        form: Cow<'static, str>,
    },
    /// The compressed data contradict themselves; what was read of the part at fault may be
    /// altered.
    #[error("its {form} data are damaged ({message})")]
    Damaged {
        /// The compression.
        form: Cow<'static, str>,
        /// What the decoder says.
        message: String,
    },
    /// The last line is the beginning of a record.
    #[error("the last record is cut off")]
    HalfRecord,
}

/// A place at which a file cannot be read on.
#[derive(Debug)]
pub(super) struct Break {
    pub(super) byte_offset: u64,
    pub(super) line: Option<u64>,
    pub(super) problem: FileProblem,
    /// What could be read of the document that breaks off.
    pub(super) salvaged: Option<Item>,
}

/// Why a reader ends before the end of its file.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file breaks off; what is done about that is decided by its
    /// [`OnBadFile`](super::OnBadFile).
    Broken(Box<Break>),
    /// Nothing more can be read at all.
    Failed(CorpusError),
}

impl From<Break> for Stop {
    fn from(at: Break) -> Self {
        Self::Broken(Box::new(at))
    }
}

impl From<CorpusError> for Stop {
    fn from(error: CorpusError) -> Self {
        Self::Failed(error)
    }
}
