//! What can go wrong in this crate, in the user's words.

use std::io;
use std::path::{Path, PathBuf};

use corpus::CorpusError;

use crate::backend::Precision;
use crate::checkpoint::CheckpointError;
use crate::data::DataError;
use crate::generation::GenerationError;
use crate::parallel::RankPlace;
use crate::parallel::collective::{CollectiveCall, CollectiveError};

/// An error of the `training` crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A field of the model's configuration has a value that no model can have.
    #[error("{field} = {value}: {expected}")]
    InvalidField {
        /// The field as it is written in the configuration.
        field: &'static str,
        /// The value that was given.
        value: String,
        /// What would be right.
        expected: String,
    },

    /// The attention heads do not divide over the tensor-parallel ranks.
    #[error(
        "{heads} attention heads cannot be split over --tp {tensor_parallel_size}; allowed: {}",
        list(allowed)
    )]
    HeadsIndivisible {
        /// `num_attention_heads`.
        heads: usize,
        /// The size that was asked for.
        tensor_parallel_size: usize,
        /// Every size that this model can be split over.
        allowed: Vec<usize>,
    },

    /// The feed-forward width does not divide over the tensor-parallel ranks.
    #[error(
        "ffn_hidden_size = {ffn_hidden_size} cannot be split over --tp {tensor_parallel_size}; \
         allowed: {}",
        list(allowed)
    )]
    FfnIndivisible {
        /// `ffn_hidden_size`.
        ffn_hidden_size: usize,
        /// The size that was asked for.
        tensor_parallel_size: usize,
        /// Every size that this model can be split over.
        allowed: Vec<usize>,
    },

    /// A model of one kind where one of another kind is needed.
    #[error("a {needed} model is needed here, and this is a {found} model")]
    OtherArchitecture {
        /// The kind that is needed, as configurations call it.
        needed: &'static str,
        /// The kind that it is.
        found: &'static str,
    },

    /// A dimension of a layer does not divide over the ranks of its group.
    #[error("{what} = {size} does not split over {ranks} tensor-parallel ranks")]
    Indivisible {
        /// What is split.
        what: String,
        /// Its size.
        size: usize,
        /// The size of the group.
        ranks: usize,
    },

    /// A layer asks for a parameter that the model's table does not list.
    #[error("the model has no parameter {path}")]
    UnknownParameter {
        /// The parameter's path in the model.
        path: String,
    },

    /// A parameter's values do not fill the shape that the model gives it.
    #[error("parameter {name}: the model needs shape {expected:?}, found {found:?}")]
    ParameterShape {
        /// The parameter's name in files.
        name: String,
        /// The shape that the model needs.
        expected: Vec<usize>,
        /// What was found instead.
        found: Vec<usize>,
    },

    /// The ranks of a group could not finish a collective.
    #[error(transparent)]
    Collective(#[from] CollectiveError),

    /// One rank failed; the others were stopped.
    #[error("{place}: {source}")]
    Rank {
        /// The first rank that failed.
        place: RankPlace,
        /// Why.
        source: Box<TrainError>,
    },

    /// One rank panicked; the others were stopped.
    #[error(
        "{place} panicked: {message}{}",
        last_call.as_ref().map_or_else(String::new, |call| format!(", after {call}"))
    )]
    RankPanicked {
        /// The first rank that failed.
        place: RankPlace,
        /// The panic's message.
        message: String,
        /// The last collective that it issued, if it ever issued one.
        last_call: Option<Box<CollectiveCall>>,
    },

    /// The operating system refused a thread for a rank.
    #[error("cannot start the thread of {place}")]
    RankNotStarted {
        /// The rank without a thread.
        place: RankPlace,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },

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

    /// A JSON file of a run or a checkpoint that does not read.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault, with line and column.
        #[source]
        source: serde_json::Error,
    },

    /// The data folder cannot be used.
    #[error(transparent)]
    Corpus(CorpusError),

    /// The data does not make a run.
    #[error(transparent)]
    Data(#[from] DataError),

    /// A checkpoint, or a model of another form, cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),

    /// A text cannot be continued.
    #[error(transparent)]
    Generation(#[from] GenerationError),

    /// The observer asked to stop before the first step.
    #[error(
        "stopped by a signal before the first step; nothing is lost, and the same command begins \
         again"
    )]
    Stopped,

    /// The weights that divide documents into training, validation and test are none.
    #[error("split \"{written}\": {reason}")]
    Split {
        /// The weights as they were written.
        written: String,
        /// What is wrong with them, and what would be right.
        reason: String,
    },

    /// The global batch is no whole number of micro-batches.
    #[error(
        "global_batch_size = {global_batch_size} cannot be cut into micro-batches of \
         micro_batch_size = {micro_batch_size}; allowed: {}",
        list(allowed)
    )]
    BatchIndivisible {
        /// `global_batch_size`.
        global_batch_size: usize,
        /// `micro_batch_size`.
        micro_batch_size: usize,
        /// Every size of a micro-batch that would do.
        allowed: Vec<usize>,
    },

    /// The micro-batches of a global batch do not divide over the copies of the model.
    #[error(
        "global_batch_size = {global_batch_size} in micro-batches of {micro_batch_size} cannot be \
         split over --dp {data_parallel_size}; allowed: {}",
        list(allowed)
    )]
    BatchesUnsplit {
        /// `global_batch_size`.
        global_batch_size: usize,
        /// `micro_batch_size`.
        micro_batch_size: usize,
        /// `data_parallel_size`.
        data_parallel_size: usize,
        /// Every number of copies that would do.
        allowed: Vec<usize>,
    },

    /// The run is longer than can be counted.
    #[error(
        "train_steps = {train_steps} of {global_batch_size} sequences are more tokens than can be \
         counted"
    )]
    RunTooLong {
        /// `train_steps`.
        train_steps: u64,
        /// `global_batch_size`.
        global_batch_size: usize,
    },

    /// The configuration's vocabulary is not the data's.
    #[error(
        "vocab_size = {written}, but the tokenizer of {} has {tokenizer} tokens; leave vocab_size out \
         to take it from there",
        path.display()
    )]
    VocabularyMismatch {
        /// The data folder or shard, or the model that is fine-tuned.
        path: PathBuf,
        /// `vocab_size` as it was written.
        written: usize,
        /// Tokens of the tokenizer that made the data.
        tokenizer: usize,
    },

    /// The length of a fine-tuning is written in two ways.
    #[error(
        "{field} = {value} and {derived} = {derived_value}: each says how many steps there are; \
         leave one of them out"
    )]
    TwoLengths {
        /// The field of the schedule.
        field: &'static str,
        /// Its steps.
        value: u64,
        /// The field that it follows from otherwise.
        derived: &'static str,
        /// The value of that.
        derived_value: f64,
    },

    /// The length of a fine-tuning follows from data that is not at hand.
    #[error(
        "finetune.race.epochs = {epochs}: how many steps that are follows from the number of \
         questions; give --data, or data.epoch_tokens for a plan without it"
    )]
    UnknownLength {
        /// Epochs.
        epochs: f64,
    },

    /// A plan without data has no vocabulary.
    #[error(
        "the model's vocabulary is not known; give --data, or write model.gpt2.vocab_size or \
         model.bert.vocab_size into the configuration (GPT-2: 50257, BERT: 30522)"
    )]
    NoVocabulary,

    /// The data folder holds less than one sample.
    #[error("corpus has {tokens} tokens, one sample needs {needed_tokens}")]
    CorpusTooSmall {
        /// Tokens of the folder.
        tokens: u64,
        /// `seq_length + 1`.
        needed_tokens: u64,
    },

    /// A part of the data that is needed holds less than one sample.
    #[error(
        "the {part} part of split \"{split}\" has {tokens} tokens, one sample needs \
         {needed_tokens}; give it more weight{}",
        if *part == "validation" { " or leave the [validation] section out" } else { "" }
    )]
    SplitTooSmall {
        /// The weights as they were written.
        split: String,
        /// Which part.
        part: &'static str,
        /// Its tokens.
        tokens: u64,
        /// `seq_length + 1`.
        needed_tokens: u64,
    },

    /// A fault for tests that is none.
    #[error("injected fault {written}: {reason}")]
    Fault {
        /// The fault as it was written.
        written: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },

    /// The run folder holds something that this run must not overwrite.
    #[error("{} is in use: {reason}; {remedy}", path.display())]
    RunFolderUsed {
        /// The run folder.
        path: PathBuf,
        /// What it holds, or who has it.
        reason: String,
        /// What can be done.
        remedy: &'static str,
    },

    /// The machine cannot hold what training keeps of the model and of a micro-batch.
    #[error(
        "weights, gradients, optimizer and activations take {} on {ranks} rank{}, and this machine \
         has {}; choose {}recompute = \"layer\", a smaller batch.micro_batch_size or a smaller model",
        gibibytes(*needed),
        if *ranks == 1 { "" } else { "s" },
        gibibytes(*present),
        if *has_copies { "fewer copies of the model (--dp), " } else { "" }
    )]
    ModelTooLarge {
        /// Bytes of all ranks together.
        needed: u64,
        /// Bytes of memory.
        present: u64,
        /// Ranks of the grid.
        ranks: usize,
        /// Whether there is more than one copy of the model.
        has_copies: bool,
    },

    /// A log of a run is no longer where the run writes it.
    #[error(
        "{} was moved or deleted while the run writes it; move it back, or what it logs is lost",
        path.display()
    )]
    LogGone {
        /// Where the log was.
        path: PathBuf,
    },

    /// A log of a run has a line that no run wrote.
    #[error(
        "{}:{line}: no log line of a step; mend it, or move the file away to go on without its \
         earlier lines",
        path.display()
    )]
    LogLine {
        /// The log.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },

    /// What training computes is no number any more.
    #[error(
        "step {step}: {found}; training cannot go on from here.{} The checkpoints before are kept",
        dump.as_ref().map(|dump| format!(" {} tells where.", dump.display())).unwrap_or_default()
    )]
    NonFinite {
        /// The step, counted from 1.
        step: u64,
        /// What was found in it.
        found: NonFinite,
        /// The file that says which samples it took and where the numbers were lost, if it could be
        /// written.
        dump: Option<PathBuf>,
    },

    /// A loss scale is configured for a precision that has none.
    #[error(
        "[loss_scale] is for precision = \"f16\", and this run's is {}; remove the section",
        serde_json::to_string(precision).unwrap_or_default()
    )]
    LossScaleUnused {
        /// The run's precision.
        precision: Precision,
    },
}

/// What is no number any more.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NonFinite {
    /// Loss or gradient of a step, which was not done.
    #[error("loss {loss}, gradient norm {grad_norm}")]
    Step {
        /// Loss of the global batch.
        loss: f64,
        /// Norm of the gradient.
        grad_norm: f64,
    },
    /// Steps in a row that were skipped though the loss scale is at its floor.
    #[error("the last {skipped} steps overflowed at the smallest loss scale, {scale}")]
    Stuck {
        /// How many.
        skipped: u64,
        /// The floor.
        scale: f64,
    },
    /// The loss on the validation documents after the step.
    #[error("validation loss {loss}")]
    Validation {
        /// Mean loss per target.
        loss: f64,
    },
    /// Weights that the step left; they are not saved.
    #[error("its update left weights that are no numbers")]
    Weights,
}

/// A request to stop is one error, wherever it was heard.
impl From<CorpusError> for TrainError {
    fn from(error: CorpusError) -> Self {
        match error {
            CorpusError::Stopped => Self::Stopped,
            other => Self::Corpus(other),
        }
    }
}

impl TrainError {
    /// Maker of [`TrainError::Io`] values for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// The error itself, where it concerns all ranks alike: every rank finds the same loss.
    pub(crate) fn without_rank(self) -> Self {
        match self {
            Self::Rank { source, .. } if source.is_of_all_ranks() => *source,
            other => other,
        }
    }

    /// Whether every rank finds this error for itself.
    pub(crate) fn is_of_all_ranks(&self) -> bool {
        match self {
            Self::Rank { source, .. } => source.is_of_all_ranks(),
            error => matches!(
                error,
                Self::NonFinite { .. } | Self::Checkpoint(CheckpointError::NotSaved { .. })
            ),
        }
    }
}

/// Whether the system says that there is no room: on the disk, in the quota, or in a file that may
/// not grow further.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// `24.0 GiB`.
pub(crate) fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// `1, 5, 25`.
fn list(values: &[usize]) -> String {
    values.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
