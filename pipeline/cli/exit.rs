//! Exit codes, and the one error of the program itself: wrong usage.

use std::fmt;
use std::process::ExitCode;

/// Training was stopped by its own guard.
const GUARD: u8 = 3;
/// A signal stopped the work; what was done is saved and can be resumed.
pub(crate) const STOPPED: u8 = 75;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// An error in what the user wrote: a flag, a configuration, a path.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit code that tells what kind of error `error` is.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    let code = error.chain().find_map(|cause| {
        if cause.is::<Usage>() {
            return Some(USAGE);
        }
        None
    });
    ExitCode::from(code.unwrap_or(FAILED))
}
