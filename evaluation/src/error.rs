//! What can go wrong in an evaluation.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use corpus::{CorpusError, Provenance};
use thiserror::Error;
use training::TrainError;
use training::architecture::Architecture;

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
    /// The machine has no room for the model, or for so many copies of it.
    #[error(
        "data_parallel_size = {copies} needs about {} of memory, {} for a copy of the model with its \
         batch, and {} are there: {}",
        binary_size(of_copy.saturating_mul(*copies as u64)), binary_size(*of_copy), binary_size(*present),
        match most {
            Some(most) => format!("allowed: --dp 1 to {most}"),
            None => "take a smaller micro_batch_size, or a machine with more".to_owned(),
        }
    )]
    Memory {
        /// Copies that were asked for.
        copies: usize,
        /// Bytes of one.
        of_copy: u64,
        /// Bytes of memory that there are.
        present: u64,
        /// Copies that there is room for.
        most: Option<NonZeroUsize>,
    },
    /// Nothing to evaluate.
    #[error("no task is given; allowed: wikitext103, lambada, validation, race")]
    NoTask,
    /// One model that would vote twice.
    #[error(
        "--checkpoint {}: is the model that --checkpoint {} names, too ({}): each has one vote; give \
         it once",
        again.display(), first.display(), folder.display()
    )]
    ModelTwice {
        /// What named it first.
        first: PathBuf,
        /// What names it again.
        again: PathBuf,
        /// The folder of its checkpoint, without links.
        folder: PathBuf,
    },
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
    /// Corpora in which nothing can be found, so that a share of 0 would say nothing.
    #[error(
        "the corpus ({}) holds no word in {}{}: an overlap with nothing says \
         nothing. Give one with text in it",
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        counted(*documents as usize, "document"),
        if *null_texts > 0 { format!(", {null_texts} of them null") } else { String::new() }
    )]
    EmptyCorpus {
        /// The corpora.
        paths: Vec<PathBuf>,
        /// Documents that they have.
        documents: u64,
        /// How many of them have no text at all.
        null_texts: u64,
    },
    /// A corpus whose form its name does not tell.
    #[error(
        "{source}; a file that --corpus names by itself is read as text, whatever it is called"
    )]
    CorpusForm {
        /// What was found.
        source: CorpusError,
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
    /// A test file breaks off.
    #[error("{problem}. Get the file anew: part of a test set is no test set")]
    BrokenTestFile {
        /// The file, and where it breaks off.
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
        "{}: no tokenizer.json there, nor its older files, and the vocabulary of {vocab_size} tokens is \
         not {whose} of {usual}; put the tokenizer there, or import the folder with `pipeline \
         checkpoint import --tokenizer`",
        path.display()
    )]
    UnknownTokenizer {
        /// The folder.
        path: PathBuf,
        /// Tokens of the model.
        vocab_size: usize,
        /// Whose tokenizer models of the kind usually have.
        whose: &'static str,
        /// Tokens of that.
        usual: usize,
    },
    /// A task that the model cannot be asked.
    #[error("{}: {task} is nothing for a {found}: {measured_by}", checkpoint.display())]
    OtherModel {
        /// The task, or the command.
        task: String,
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What model it holds, as configurations call it.
        found: &'static str,
        /// What such a model can be asked.
        measured_by: &'static str,
    },
    /// Models that were not asked the same, so that they cannot vote.
    #[error("{model}: {difference}; have all models answer the same split of the same RACE")]
    EnsembleDiffers {
        /// The model at fault.
        model: String,
        /// What differs from the first model.
        difference: String,
    },
    /// Samples of which no token is masked, so that there is no loss.
    #[error(
        "{}: none of its {samples} samples has a token to predict: with mask_prob = {mask_prob}, samples \
         aimed at {seq_length} tokens are too short; take a model with a longer seq_length",
        path.display()
    )]
    NothingMasked {
        /// The data.
        path: PathBuf,
        /// Samples that were looked at.
        samples: u64,
        /// Share of tokens that are to be predicted.
        mask_prob: f64,
        /// Tokens of a sample at most.
        seq_length: usize,
    },
    /// The model gives a loss that is no number.
    #[error(
        "the model gives a loss of {loss} at position {position} of window {window} of {stage}, both \
         counted from 0: its logits are no numbers there, and its weights not usable"
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
    /// The model gives what is no number for a sample.
    #[error(
        "the model gives {value} for {what} of {sample} of {stage}: that is no number, and its weights \
         are not usable"
    )]
    NonFiniteSample {
        /// The value.
        value: f64,
        /// What it should be.
        what: String,
        /// Which sample: its number from 0, or its name.
        sample: String,
        /// What was scored.
        stage: String,
    },
    /// Asked to stop before the end, and nothing more is kept than was.
    #[error(
        "stopped by a signal before more was scored: there is no result, and nothing was written. \
         The same command begins again, or goes on from what an earlier one has kept"
    )]
    Stopped,
    /// Asked to stop before the end; another call goes on from what is kept.
    #[error(
        "stopped by a signal: {} scored, and kept in {}; the same command goes on from there",
        windows_are(*windows), path.display()
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
    Corpus(CorpusError),
    /// The checkpoint or the model failed.
    #[error(transparent)]
    Model(TrainError),
}

/// A request to stop is one error, wherever it was heard.
impl From<TrainError> for EvalError {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Stopped | TrainError::Corpus(CorpusError::Stopped) => Self::Stopped,
            other => Self::Model(other),
        }
    }
}

/// The same of what reads test sets and corpora.
impl From<CorpusError> for EvalError {
    fn from(error: CorpusError) -> Self {
        match error {
            CorpusError::Stopped => Self::Stopped,
            other => Self::Corpus(other),
        }
    }
}

impl EvalError {
    /// Whether it is that an observer asked to stop, whatever heard of it.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::StoppedWithScores { .. }
                | Self::Corpus(CorpusError::Stopped)
                | Self::Model(TrainError::Stopped | TrainError::Corpus(CorpusError::Stopped))
        )
    }

    /// The error of a task that a model of `checkpoint` cannot be asked.
    pub(crate) fn other_model(task: &str, checkpoint: &Path, model: &Architecture) -> Self {
        Self::OtherModel {
            task: task.to_owned(),
            checkpoint: checkpoint.to_owned(),
            found: model.name(),
            measured_by: match model {
                Architecture::Gpt2(_) => {
                    "a gpt2 is measured by wikitext103, lambada and validation, and goes on with text"
                }
                Architecture::Bert(_) => {
                    "a bert is measured by validation or, once fine-tuned on RACE (`pipeline train` \
                     with [finetune.race]), by race"
                }
                Architecture::BertChoice(_) => {
                    "a bert that was fine-tuned to choose among answers is measured by race"
                }
            },
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

/// `1.2 GiB`, or `12 MiB` of what is less.
fn binary_size(bytes: u64) -> String {
    match bytes >= 1 << 30 {
        true => format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64),
        false => format!("{} MiB", bytes.div_ceil(1 << 20)),
    }
}

/// `1 window or example is`, `2 windows or examples are`.
pub(crate) fn windows_are(windows: u64) -> String {
    match windows {
        1 => "1 window or example is".to_owned(),
        _ => format!("{windows} windows or examples are"),
    }
}
