//! Everything that can go wrong with a corpus: one enum, whose messages name the file, what was
//! expected and what was found, and where there is one the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::reader::{BrokenFile, Reject};
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

    /// A path, an include or an exclude pattern is no glob.
    #[error("{origin}: bad pattern: {source}")]
    BadGlob {
        /// The path, or the source whose pattern it is.
        origin: String,
        /// The pattern and its fault.
        #[source]
        source: globset::Error,
    },

    /// A file of a form that is not read.
    #[error("{}: {found}. {remedy}", path.display())]
    UnreadForm {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What to do about it.
        remedy: String,
    },

    /// A file whose name does not fit what is in it.
    #[error("{}: its name says {name_says}, but its first bytes say {bytes_say}. {remedy}", path.display())]
    NameDisagrees {
        /// The file.
        path: PathBuf,
        /// The compression that its name stands for.
        name_says: &'static str,
        /// What its first bytes are those of.
        bytes_say: &'static str,
        /// What to do about it.
        remedy: String,
    },

    /// A folder that holds files of several forms, where one source is to be made of it.
    #[error("{}: holds files of several forms: {held}. {remedy}", path.display())]
    MixedForms {
        /// The folder or glob.
        path: PathBuf,
        /// How many of each form, with examples.
        held: String,
        /// What to do about it.
        remedy: String,
    },

    /// A column of a Parquet file that cannot be what it is configured for.
    #[error("{}: column \"{column}\" is {problem}. Set {key} in [source.parquet]{}", path.display(), more_of_key(key))]
    WrongColumn {
        /// The file.
        path: PathBuf,
        /// The column that was looked for.
        column: String,
        /// What is wrong with it.
        problem: String,
        /// Key of the configuration that names the column.
        key: &'static str,
    },

    /// A file that is met twice in one run, for the same text.
    #[error(
        "{}: read already{}. Its documents would be there twice: name it once",
        path.display(),
        if first == path { String::new() } else { format!(" as {}", first.display()) }
    )]
    FileTwice {
        /// The file, as it is named the second time.
        path: PathBuf,
        /// The file, as it is named the first time.
        first: PathBuf,
    },

    /// A document that is longer than any, or that memory cannot hold.
    #[error(
        "{}: a document of more than {bytes} bytes is not read. Look what the file holds, and split \
         it or leave it out",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bytes that it has more than.
        bytes: usize,
    },

    /// A file that was written while it was read.
    #[error(
        "{}: changed while it was read: {listed} bytes when the run began, {}. Start again when \
         nothing writes to it",
        path.display(),
        if found == listed { "as many now, but written since".to_owned() } else { format!("{found} now") }
    )]
    ChangedFile {
        /// The file.
        path: PathBuf,
        /// Its size when it was listed, in bytes.
        listed: u64,
        /// Its size now, in bytes.
        found: u64,
    },

    /// A file that breaks off or is damaged, where the policy is to stop at such a file.
    #[error(
        "{0}. Get the file anew, or keep what stands before the break with --on-bad-file keep-prefix"
    )]
    BrokenFile(Box<BrokenFile>),

    /// A test set that cannot be used.
    #[error("test set {}: {problem}", path.display())]
    TestSet {
        /// The file, folder or glob.
        path: PathBuf,
        /// What is wrong with it, and the remedy.
        problem: String,
    },

    /// A folder or glob in which a source finds no file.
    #[error("{}: {problem}. {remedy}", path.display())]
    NoFiles {
        /// The folder or glob.
        path: PathBuf,
        /// What was looked for.
        problem: String,
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

    /// An output inside a folder that is read.
    #[error(
        "{}: lies in the input {}, which would be read with the output in it the next time. Choose \
         an output outside it",
        path.display(),
        input.display()
    )]
    OutputInInput {
        /// The output.
        path: PathBuf,
        /// The folder or glob.
        input: PathBuf,
    },

    /// A folder that is finished and could not be given its name.
    #[error(
        "{source}. All work is done and kept in {}: move that folder to another name; the next run \
         with this output removes it",
        kept.display()
    )]
    OutputKept {
        /// The finished folder.
        kept: PathBuf,
        /// Why it could not be given its name.
        source: Box<CorpusError>,
    },

    /// A folder that another run is writing.
    #[error("{}: another run is writing this folder. Wait for it to end, or choose another output", path.display())]
    OutputInUse {
        /// The folder, as the user names it.
        path: PathBuf,
    },

    /// A file that another process is writing.
    #[error("{}: another process is writing this file. Wait for it to end, or choose another name", path.display())]
    FileInUse {
        /// The file, by the name that it will have.
        path: PathBuf,
    },

    /// Two corpora that cannot be merged.
    #[error("{} and {}: {problem}. Merge like with like", first.display(), other.display())]
    Unmergeable {
        /// The first input.
        first: PathBuf,
        /// The input that does not go with it.
        other: PathBuf,
        /// Why not.
        problem: &'static str,
    },

    /// A folder or file of RACE that is not in its form.
    #[error(
        "{}{}: {problem}",
        path.display(),
        line.map_or_else(String::new, |line| format!(":{line}"))
    )]
    Race {
        /// The folder or file.
        path: PathBuf,
        /// The line, from 1; `None` where all of it is meant.
        line: Option<u64>,
        /// What is wrong with it, and what would be right.
        problem: String,
    },

    /// The observer asked for the work to stop.
    #[error("stopped before the work was done")]
    Stopped,

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
    #[error("{}: {what}: expected {expected}, found {found}{remedy}", path.display())]
    ManifestMismatch {
        /// The file at fault.
        path: PathBuf,
        /// The quantity that differs: `bytes`, `xxh3_128`, `tokens`.
        what: &'static str,
        /// What the manifest says.
        expected: String,
        /// What is there.
        found: String,
        /// What can be done, behind a semicolon; nothing where the caller knows.
        remedy: &'static str,
    },
}

/// What else a remedy says of a key of the configuration.
fn more_of_key(key: &str) -> &'static str {
    match key {
        "text_column" => ", or use --text-key",
        "id_column" => ", to a name that no column has where none is to be read",
        _ => "",
    }
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
