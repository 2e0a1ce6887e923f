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
    #[error("no task is given; allowed: wikitext103, lambada, validation")]
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
    /// Tokens of a corpus that no known tokenizer turns into text.
    #[error(
        "{}: shards without the manifest of a data folder, which names their tokenizer, cannot be \
         read as text; give a folder that `pipeline dedup` made, or the text itself",
        path.display()
    )]
    BareShard {
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
    /// A line of a test file has bytes that another system puts there.
    #[error(
        "test file {}:{line}: the line {what}, which would be scored like any text; give the file as \
         it was published (UTF-8 without a mark, lines that end in a line feed)",
        path.display()
    )]
    ForeignBytes {
        /// The file.
        path: PathBuf,
        /// The first such line, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A test file holds nothing but white space.
    #[error("test file {} is empty; give one with text in it", path.display())]
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
        "test file {} has {} and {}; at least two of each are needed: give a text of some length",
        path.display(), counted(*original_tokens, "word"), counted(*tokens, "token")
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
    /// A folder of weights has no tokenizer, and it cannot be told which is meant.
    #[error(
        "{}: neither tokenizer.json nor vocab.json and merges.txt there, and the vocabulary of \
         {vocab_size} tokens is not GPT-2's of 50257; put the tokenizer there, or import the folder \
         with `pipeline checkpoint import --tokenizer`",
        path.display()
    )]
    UnknownTokenizer {
        /// The folder.
        path: PathBuf,
        /// Tokens of the model.
        vocab_size: usize,
    },
    /// The model gives a loss that is no number.
    #[error(
        "the model gives a loss of {loss} at position {position} of number {window} of {stage}, \
         both counted from 0: its logits are no numbers there, and its weights not usable"
    )]
    NonFinite {
        /// The loss.
        loss: f32,
        /// What was scored.
        stage: String,
        /// Window or example that scored it, from 0.
        window: usize,
        /// The input of the window after which it was scored, from 0.
        position: usize,
    },
    /// Asked to stop before the end, and nothing is kept.
    #[error("stopped before everything was scored")]
    Stopped,
    /// Asked to stop before the end; another call goes on from what is kept.
    #[error(
        "stopped by a signal: {windows} windows or examples are scored, and kept in {}; the same \
         command goes on from there",
        path.display()
    )]
    StoppedWithScores {
        /// The file with the scores.
        path: PathBuf,
        /// How many are scored.
        windows: u64,
    },
    /// The place for the scores holds those of another evaluation.
    #[error(
        "{} holds scores of another evaluation: {difference}; finish that one, choose another \
         --out, or pass --overwrite to discard them",
        path.display()
    )]
    PartialOfOther {
        /// The file.
        path: PathBuf,
        /// What differs, with both values.
        difference: String,
    },
    /// A file of scores that has changed since it was written.
    #[error(
        "{}:{line}: the scores in it are damaged; delete the file, or pass --overwrite, to score \
         everything again",
        path.display()
    )]
    PartialDamaged {
        /// The file.
        path: PathBuf,
        /// The first damaged line, from 1.
        line: usize,
    },
    /// Something else has the name that the scores would have.
    #[error(
        "{} holds no scores of an evaluation, so nothing is written there; move it away, or choose \
         another --out",
        path.display()
    )]
    PartialForeign {
        /// The file.
        path: PathBuf,
    },
    /// Another process is at this very evaluation.
    #[error(
        "{}: another process is evaluating with this file; wait until it ends, or choose another \
         --out",
        path.display()
    )]
    PartialInUse {
        /// The file.
        path: PathBuf,
    },
    /// The file of scores could not be read or written.
    #[error(
        "cannot {action} {}, which holds the scores so far; see to it that it can be read and \
         written, or choose another --out",
        path.display()
    )]
    PartialIo {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
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

/// `1 word`, `2 words`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
