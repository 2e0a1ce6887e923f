//! Everything that can go wrong with a corpus: one enum, whose messages name the file, what was expected and what was
//! found, and where there is one the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::reader::Reject;
use crate::shard::ShardFault;

/// An error of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// The operating system refused an operation on a file or folder.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `create`, `rename`.
        action: &'static str,
        /// File or folder it was tried on.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },

    /// A source names no format, two formats, or no path.
    #[error("source \"{name}\": {problem}")]
    BadSource {
        /// Name of the source, as configured.
        name: String,
        /// What is wrong, and what would be right.
        problem: &'static str,
    },

    /// An include or exclude pattern is no glob.
    #[error("source \"{name}\": bad pattern: {source}")]
    BadGlob {
        /// Name of the source, as configured.
        name: String,
        /// The pattern and its fault.
        #[source]
        source: globset::Error,
    },

    /// A file of a form that this reader does not read.
    #[error("{}: not a plain JSONL file ({found}). {remedy}", path.display())]
    NotPlainJsonl {
        /// The file.
        path: PathBuf,
        /// What its name says it is.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },

    /// A folder in which a source finds no file.
    #[error("{}: no file matches {wanted}. {remedy}", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
        /// The names that were looked for.
        wanted: String,
        /// What to do about it.
        remedy: &'static str,
    },

    /// A record that cannot be read, where the policy is to stop at the first.
    #[error("{0}")]
    BadRecord(Box<Reject>),

    /// A tokenizer's definition cannot be used.
    #[error("tokenizer {name}: {problem}")]
    Tokenizer {
        /// Name or path by which it was asked for.
        name: String,
        /// What is wrong with it.
        problem: String,
    },

    /// A token that the vocabulary does not have was handed to a shard writer.
    #[error("token {token} of document {document} lies outside the vocabulary of {vocab_size}")]
    TokenOutsideVocabulary {
        /// The token.
        token: u32,
        /// Index of the document in the shard.
        document: u64,
        /// Size of the vocabulary that the shard was opened with.
        vocab_size: usize,
    },

    /// A shard whose index and data do not hold together.
    #[error("{}: {fault}", path.display())]
    Shard {
        /// The file at fault.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        fault: ShardFault,
    },

    /// An output that exists already.
    #[error("{} exists already. {remedy}", path.display())]
    OutputExists {
        /// The file or folder.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },

    /// A JSON file of a data folder that does not read.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault, with line and column.
        #[source]
        source: serde_json::Error,
    },

    /// A data folder that disagrees with its manifest.
    #[error("{}: {what}: expected {expected}, found {found}", path.display())]
    ManifestMismatch {
        /// The file at fault.
        path: PathBuf,
        /// The quantity that differs: `bytes`, `xxh3_128`, `tokens`.
        what: &'static str,
        /// What the manifest says.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl CorpusError {
    /// Maker of [`CorpusError::Io`] values for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Maker of [`CorpusError::Shard`] values for `map_err`.
    pub(crate) fn shard(path: &Path) -> impl FnOnce(ShardFault) -> Self {
        move |fault| Self::Shard { path: path.to_owned(), fault }
    }
}
