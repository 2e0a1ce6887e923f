//! Exit codes, and the one error of the program itself: wrong usage.
//!
//! Scripts tell by the code whether to mend the call (2), look at the machine (1), look at the
//! training (3) or just call again (75).

use std::process::ExitCode;
use std::{fmt, io};

use corpus::CorpusError;
use curation::CurationError;
use evaluation::EvalError;
use training::TrainError;
use training::checkpoint::CheckpointError;

/// The work failed though the call was right.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage, configuration or input.
const USAGE: u8 = 2;
/// Training was stopped by its own guard.
const GUARD: u8 = 3;
/// A signal stopped the work; what was done is saved and can be resumed.
pub(crate) const STOPPED: u8 = 75;

/// An error in what the user wrote: a flag, a configuration, a path.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(String::new(), &self.0))
    }
}

impl std::error::Error for Usage {}

/// The error with its causes, each said once: a message that holds its cause's is not followed by
/// it.
pub(crate) fn message_of(error: &anyhow::Error) -> String {
    joined(String::from("error"), error)
}

/// `start`, then the error with those of its causes that are not in it yet.
fn joined(start: String, error: &anyhow::Error) -> String {
    let mut message = start;
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(&cause) {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(&cause);
        }
    }
    message
}

/// The exit code that tells what kind of error `error` is.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    let code = error.chain().find_map(|cause| {
        let usage = cause.downcast_ref::<Usage>().map(|_| USAGE);
        usage
            .or_else(|| cause.downcast_ref().map(corpus_code))
            .or_else(|| cause.downcast_ref().map(curation_code))
            .or_else(|| cause.downcast_ref().map(train_code))
            .or_else(|| cause.downcast_ref().map(eval_code))
    });
    ExitCode::from(code.unwrap_or(FAILED))
}

fn corpus_code(error: &CorpusError) -> u8 {
    match error {
        CorpusError::Io { action, source, .. } => io_code(action, source),
        CorpusError::Stopped => FAILED,
        _ => USAGE,
    }
}

fn curation_code(error: &CurationError) -> u8 {
    match error {
        CurationError::Corpus(error) => corpus_code(error),
        CurationError::Io { action, source, .. } => io_code(action, source),
        CurationError::StageFile { .. } => FAILED,
        CurationError::Stopped { stages: Some(_) } => STOPPED,
        CurationError::Stopped { stages: None } => FAILED,
        _ => USAGE,
    }
}

fn train_code(error: &TrainError) -> u8 {
    match error {
        TrainError::Corpus(error) => corpus_code(error),
        TrainError::Io { action, source, .. } => io_code(action, source),
        TrainError::Rank { source, .. } => train_code(source),
        TrainError::NonFinite { .. } => GUARD,
        TrainError::Stopped => STOPPED,
        TrainError::Checkpoint(CheckpointError::NotSaved { .. })
        | TrainError::LogGone { .. }
        | TrainError::Checkpoint(CheckpointError::NoRoom { .. })
        | TrainError::Collective(_)
        | TrainError::RankPanicked { .. }
        | TrainError::RankNotStarted { .. } => FAILED,
        _ => USAGE,
    }
}

fn eval_code(error: &EvalError) -> u8 {
    match error {
        EvalError::Corpus(error) => corpus_code(error),
        EvalError::Model(error) => train_code(error),
        EvalError::PartialIo { action, source, .. } => io_code(action, source),
        // Where nothing is kept yet, nothing is lost either: the same call does it all.
        EvalError::Stopped | EvalError::StoppedWithScores { .. } => STOPPED,
        EvalError::NonFinite { .. } => FAILED,
        _ => USAGE,
    }
}

/// What cannot be read was named wrongly, and so was a place where nothing can be made; that a file
/// cannot be written is the machine's trouble.
fn io_code(action: &str, error: &io::Error) -> u8 {
    let is_no_place = matches!(
        error.kind(),
        io::ErrorKind::NotADirectory | io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    );
    match action {
        "read" | "open" | "list" => USAGE,
        "create" if is_no_place => USAGE,
        _ => FAILED,
    }
}
