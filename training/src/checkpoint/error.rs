//! What can go wrong with checkpoints, and with models of another form.

use std::path::PathBuf;

use corpus::CorpusError;

use super::Room;
use crate::TrainError;
use crate::error::is_no_room;

/// A reason why a checkpoint or a model cannot be read, gone on from, or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// No checkpoint where one was asked for.
    #[error(
        "{}: {found}; give a run folder, its checkpoints folder or a step-N folder",
        path.display()
    )]
    NoCheckpoint {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },

    /// A run has checkpoints, but each is broken or another run's.
    #[error(
        "{}: none of the checkpoints there can be gone on from; the newest: {source}. \
         Mend one, or pass --overwrite to begin the run again",
        path.display()
    )]
    NoUsableCheckpoint {
        /// The folder of checkpoints.
        path: PathBuf,
        /// What is wrong with the newest.
        #[source]
        source: Box<TrainError>,
    },

    /// A checkpoint has weights and nothing to go on training them with.
    #[error(
        "{} holds weights without a state of training; a run can begin with them (--init-from), \
         not go on from them",
        path.display()
    )]
    NoTrainingState {
        /// The checkpoint.
        path: PathBuf,
    },

    /// A checkpoint is of another model, tokenizer or run than the one that is to go on.
    #[error("{}: {difference}; {remedy}", path.display())]
    CheckpointDiffers {
        /// The checkpoint.
        path: PathBuf,
        /// What differs, with both values.
        difference: String,
        /// What can be done.
        remedy: &'static str,
    },

    /// A run stands behind the last step of its schedule.
    #[error(
        "{} stands at step {step}, and schedule.train_steps = {train_steps} lies before it; give \
         it more steps, or go on from an earlier checkpoint with --resume PATH",
        path.display()
    )]
    BehindLastStep {
        /// The checkpoint.
        path: PathBuf,
        /// Steps done.
        step: u64,
        /// `train_steps`
        train_steps: u64,
    },

    /// The disk has no room for a checkpoint, as the system says before anything is written.
    #[error("{} has no room for a checkpoint", path.display())]
    NoRoom {
        /// The folder of checkpoints.
        path: PathBuf,
    },

    /// The last save of a run, or the one before it stops, failed.
    #[error(
        "step {step} is not saved: {source}{}; {}, then call again: {}",
        room_where_it_matters(source, *room),
        save_remedy(source),
        match kept {
            Some(kept) => format!("the run goes on from step {kept}, which is kept"),
            None => "the run begins again, for it has no checkpoint yet".to_owned(),
        }
    )]
    NotSaved {
        /// Optimizer steps done.
        step: u64,
        /// Why.
        #[source]
        source: Box<TrainError>,
        /// What the save needs, and what there was.
        room: Room,
        /// Step of the newest checkpoint.
        kept: Option<u64>,
    },

    /// A folder that is to be written holds something that must stay.
    #[error("{} is there already: {reason}; {remedy}", path.display())]
    OutputFolderUsed {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        reason: String,
        /// What can be done.
        remedy: &'static str,
    },

    /// A folder is no model that this program reads.
    #[error("{}: {found}", path.display())]
    NoForeignModel {
        /// The folder.
        path: PathBuf,
        /// What is there instead, and what can be done.
        found: &'static str,
    },

    /// Another program's configuration of a model asks for what this program does not do.
    #[error("{}: {field} = {value}: {expected}", path.display())]
    ForeignConfig {
        /// The file.
        path: PathBuf,
        /// The field as the file has it.
        field: String,
        /// Its value.
        value: String,
        /// What would be right.
        expected: String,
    },

    /// A model's head is not its embedding.
    #[error(
        "{}: lm_head.weight is not wte.weight, and the head of a GPT-2 here is its embedding",
        path.display()
    )]
    HeadUntied {
        /// The folder.
        path: PathBuf,
    },

    /// A folder's tokenizer is not its model's.
    #[error(
        "{}: the model has {model} tokens and the tokenizer {tokenizer}; name the right one with \
         `pipeline checkpoint import --tokenizer`",
        path.display()
    )]
    ForeignTokenizer {
        /// The folder.
        path: PathBuf,
        /// Tokens of the model.
        model: usize,
        /// Tokens of the tokenizer.
        tokenizer: usize,
    },

    /// A fine-tuning has nothing to begin with.
    #[error("fine-tuning starts from a pre-trained model: name its folder by --init-from")]
    NoPretrained,

    /// Nothing lies where weights to begin with were said to be.
    #[error(
        "{}: there is no such folder; --init-from names a run, a checkpoint, or a folder in Hugging \
         Face's form",
        path.display()
    )]
    NoSuchFolder {
        /// The path.
        path: PathBuf,
    },

    /// Weights to begin with do not tell the tokenizer that they were trained by.
    #[error(
        "--init-from {}: no tokenizer there, by which texts are encoded; set data.tokenizer to bert \
         or the tokenizer.json of these weights, as in --set data.tokenizer=bert",
        path.display()
    )]
    NoPretrainedTokenizer {
        /// The folder that holds them.
        path: PathBuf,
    },

    /// Weights to begin with are those of another model.
    #[error(
        "--init-from {}: {}; set the configuration to that model, or choose other weights",
        path.display(),
        differences.join(", ")
    )]
    InitDiffers {
        /// The folder that holds them.
        path: PathBuf,
        /// Each value that differs.
        differences: Vec<String>,
    },

    /// A file of a checkpoint is not the one that was written, or the checkpoint is another run's.
    #[error("{}: {what}: expected {expected}, found {found}", path.display())]
    CheckpointFile {
        /// The file, or the checkpoint's folder.
        path: PathBuf,
        /// What differs: `bytes`, `xxh3-128`, `version`, `files`, `step`, `seed`, `samples consumed`.
        what: &'static str,
        /// What the manifest says.
        expected: String,
        /// What is there.
        found: String,
    },

    /// A tensor file that does not read.
    #[error(
        "{}: no whole safetensors file ({source}): {bytes} bytes are there{}; get it anew",
        path.display(),
        announced.map_or_else(String::new, |it| format!(", and its header announces {it}"))
    )]
    SafeTensors {
        /// The file.
        path: PathBuf,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes that its header announces, where that can be read.
        announced: Option<u64>,
        /// The fault.
        #[source]
        source: safetensors::SafeTensorError,
    },

    /// The tensors of a file are not those of the model.
    #[error("{}: {}", path.display(), told(faults))]
    Tensors {
        /// The file, or the first of several.
        path: PathBuf,
        /// Everything that differs; at least one.
        faults: Vec<TensorFault>,
    },

    /// Two tensors of a model's files have one name.
    #[error("{}: tensor {name} is there twice", path.display())]
    TensorTwice {
        /// The file in which the second lies.
        path: PathBuf,
        /// The tensor.
        name: String,
    },

    /// A tensor does not hold floating-point numbers of a type that is read.
    #[error(
        "{}: tensor {name} has type {found}; floating-point tensors are read: F32, and from other \
         programs F16 and BF16",
        path.display()
    )]
    TensorType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
    },
}

/// What is wrong with a tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorFault {
    /// The file lacks it.
    #[error("tensor {name} is missing")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// The model has none of that name.
    #[error("tensor {name} is none of the model's")]
    Unexpected {
        /// The tensor.
        name: String,
    },
    /// It has another shape than the model's.
    #[error("tensor {name} has shape {found:?}, the model needs {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// The model's shape.
        expected: Vec<usize>,
        /// The file's.
        found: Vec<usize>,
    },
}

/// Faults that a message names one by one.
const FAULTS_TOLD: usize = 12;

/// The faults in one sentence; of many the first, and how many more there are.
fn told(faults: &[TensorFault]) -> String {
    let mut told: Vec<String> = faults.iter().take(FAULTS_TOLD).map(ToString::to_string).collect();
    if let Some(more) = faults.len().checked_sub(FAULTS_TOLD).filter(|&more| more > 0) {
        told.push(format!("and {more} more tensors that differ"));
    }
    told.join("; ")
}

/// Whether a save failed with `error` for want of room.
fn wants_room(error: &TrainError) -> bool {
    match error {
        TrainError::Checkpoint(CheckpointError::NoRoom { .. }) => true,
        TrainError::Io { source, .. } | TrainError::Corpus(CorpusError::Io { source, .. }) => {
            is_no_room(source)
        }
        _ => false,
    }
}

/// What a save that failed with `error` needs and what there is, where that is why it failed.
pub(crate) fn room_where_it_matters(error: &TrainError, room: Room) -> String {
    if wants_room(error) { format!("; {room}") } else { String::new() }
}

/// What to do about a save that failed with `error`.
fn save_remedy(error: &TrainError) -> &'static str {
    if wants_room(error) {
        "make room on the disk, or raise its quota or the limit on the size of files (ulimit -f)"
    } else {
        "mend what the message names"
    }
}
