//! What becomes of a panic: a line in the log, and for the user one message and exit code 1.
//!
//! A panic is a fault of the program, never of its input, and most are caught where they happen and
//! reported as what they mean: a rank that failed, a file whose decoder gave up. Rust's own report
//! on standard error would stand above such a message as if there were two faults.

use std::any::Any;
use std::backtrace::Backtrace;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

/// A panic that nobody caught.
#[derive(Debug)]
struct Fault {
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message } = self;
        write!(
            formatter,
            "a fault of this program, not of its input: {message}. With -v the log says where"
        )
    }
}

impl std::error::Error for Fault {}

/// Sends the report of every panic to the log, where `-v` shows it, with its trace where
/// `RUST_BACKTRACE` asks for one.
pub(crate) fn log() {
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("a thread");
        tracing::debug!("{thread}: {panic}\n{}", Backtrace::capture());
    }));
}

/// What `work` answers; a panic becomes an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(Fault { message: message_of(payload) }.into()))
}

fn message_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => match payload.downcast::<&str>() {
            Ok(message) => (*message).to_owned(),
            Err(_) => "a panic without a message".to_owned(),
        },
    }
}
