//! What long work reports to, and asks whether it should stop.
//!
//! Libraries do not print: they tell an [`Observer`] how far they are, and the program draws a
//! progress bar from it. The same object carries a request to stop back into every long loop.

use crate::CorpusError;

/// What the amounts of a stage count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input.
    Bytes,
    /// Documents.
    Documents,
    /// Tokens.
    Tokens,
    /// Optimizer steps.
    Steps,
    /// Evaluation windows.
    Windows,
    /// Examples of a test set.
    Examples,
    /// Samples of a training.
    Samples,
}

/// Listener of one long piece of work; its stages follow one another, never at the same time.
pub trait Observer: Sync {
    /// A stage begins: `total` units of work, where that is known.
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit);

    /// `amount` more units are done.
    fn advance(&self, amount: u64);

    /// `amount` units were done by an earlier process: they count as done, not towards the rate.
    fn skip(&self, amount: u64) {
        self.advance(amount);
    }

    /// The stage that began last has ended.
    fn finish(&self);

    /// Whether the work should stop at the next point where it can be resumed or leaves nothing
    /// half written.
    fn stop_requested(&self) -> bool {
        false
    }

    /// The work has failed, as `message` says, and a part of it hangs, so that it cannot return.
    /// Ends the process, or returns to wait for that part.
    fn hangs(&self, message: &str) {
        tracing::error!("{message}");
    }
}

/// Ends the work with an error where the observer asks to stop.
pub(crate) fn stop_if_asked(observer: &dyn Observer) -> Result<(), CorpusError> {
    if observer.stop_requested() { Err(CorpusError::Stopped) } else { Ok(()) }
}

/// An [`Observer`] that hears nothing and never stops the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}
}
