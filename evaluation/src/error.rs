//! What can go wrong in an evaluation.

use std::io;
use std::path::PathBuf;

use corpus::Provenance;
use thiserror::Error;
use training::TrainError;

/// Failure of an evaluation; no partial result is reported as a whole one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A setting that makes no sense, by the name the user gave it.
    #[error("{field} = {value} {problem}")]
    Setting {
        /// Name of the setting.
        field: &'static str,
        /// Its value.
        value: usize,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Nothing to evaluate.
    #[error("no task is given; allowed: wikitext103, lambada")]
    NoTask,
    /// Something that a measurement needs was not given.
    #[error("no {what} is given: {remedy}")]
    NothingGiven {
        /// What.
        what: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A part of a corpus that is given twice, and would count twice.
    #[error("{}: is given twice as a corpus: name it once", path.display())]
    CorpusTwice {
        /// The file or folder, without links.
        path: PathBuf,
    },
    /// Tokens that no known tokenizer turns into text.
    #[error(
        "{}: shards without the manifest of a data folder, which names their tokenizer, cannot be \
         read as text; give a folder that `pipeline dedup` made, or the text itself",
        path.display()
    )]
    NoTokenizer {
        /// The folder or shard.
        path: PathBuf,
    },
    /// A test file could not be read.
    #[error("cannot read test file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A test file is not UTF-8 text.
    #[error(
        "test file {} is not UTF-8: bad byte at offset {byte_offset} (line {line}); give the file \
         as it was published, unpacked",
        path.display()
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Offset of the first byte that is no UTF-8, from 0.
        byte_offset: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// A test file holds nothing but white space.
    #[error("test file {} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line of a cloze test that gives no word to guess, or none that the model can be asked for.
    #[error("{}:{line}: {problem}", path.display())]
    BadExample {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A test file has too little text to predict anything.
    #[error(
        "test file {} has {original_tokens} words and {tokens} tokens; at least two of each are \
         needed",
        path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Space-separated pieces of the file.
        original_tokens: usize,
        /// Tokens after detokenizing and encoding.
        tokens: usize,
    },
    /// The checkpoint's tokenizer makes tokens that its model does not know.
    #[error(
        "tokenizer {tokenizer} gives token {token}, but the model has {vocab_size} tokens; \
         use the tokenizer that the model was trained with"
    )]
    UnknownToken {
        /// Name of the tokenizer.
        tokenizer: String,
        /// The first such token.
        token: u32,
        /// The model's vocabulary size.
        vocab_size: usize,
    },
    /// The checkpoint's tokenizer has changed since training.
    #[error(
        "tokenizer {name} has fingerprint {found}, but the model was trained with {expected}; \
         use the tokenizer that the model was trained with"
    )]
    OtherTokenizer {
        /// Name of the tokenizer.
        name: String,
        /// Fingerprint that the checkpoint has.
        expected: String,
        /// Fingerprint of the tokenizer of that name.
        found: String,
    },
    /// The model gives a loss that is no number.
    #[error(
        "the model gives a loss of {loss} (number {window} of the test); its weights are not usable"
    )]
    NonFinite {
        /// The loss.
        loss: f32,
        /// Window or example that scored it, from 0.
        window: usize,
    },
    /// Asked to stop before the end.
    #[error("stopped before everything was scored")]
    Stopped,
    /// The tokenizer could not be opened.
    #[error(transparent)]
    Corpus(#[from] corpus::CorpusError),
    /// The checkpoint or the model failed.
    #[error(transparent)]
    Model(TrainError),
}

/// A request to stop is one error, wherever it was heard.
impl From<TrainError> for EvalError {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Stopped => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

impl EvalError {
    /// The error of reading test sets and corpora, where a request to stop is one error too.
    pub(crate) fn of_corpus(error: corpus::CorpusError) -> Self {
        match error {
            corpus::CorpusError::Stopped => Self::Stopped,
            other => Self::Corpus(other),
        }
    }

    /// The error of a line that is no example.
    pub(crate) fn bad_example(place: &Provenance, problem: String) -> Self {
        Self::BadExample { path: place.file.to_path_buf(), line: place.line.unwrap_or(1), problem }
    }
}
