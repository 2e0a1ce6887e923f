//! Where the time of a step goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::parallel::collective::CallLog;

/// What a rank does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading a batch.
    Data,
    /// The forward pass of a micro-batch.
    Forward,
    /// The backward pass of a micro-batch.
    Backward,
    /// Norm and clipping of the gradient, and the update.
    Optimizer,
    /// Saving a checkpoint.
    Save,
}

/// Sums of one rank's time by phase, from one [`take`](Self::take) to the next.
///
/// Time in collectives counts as communication and not as what the rank did then, so that the
/// phases of a step add up to its time. Saving alone counts whole, its meetings included.
#[derive(Debug)]
pub struct StepTimers {
    calls: Arc<CallLog>,
    times: StepTimes,
}

/// Time by phase; written down in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StepTimes {
    /// Reading batches.
    #[serde(serialize_with = "milliseconds")]
    pub data: Duration,
    /// Forward passes.
    #[serde(serialize_with = "milliseconds")]
    pub forward: Duration,
    /// Backward passes.
    #[serde(serialize_with = "milliseconds")]
    pub backward: Duration,
    /// Exchanges with other ranks, waiting for them included.
    #[serde(serialize_with = "milliseconds")]
    pub communication: Duration,
    /// Norm, clipping and update.
    #[serde(serialize_with = "milliseconds")]
    pub optimizer: Duration,
    /// Saving the checkpoint after the step before, if one was saved then.
    #[serde(serialize_with = "milliseconds")]
    pub save: Duration,
}

/// A phase that has begun.
#[derive(Debug)]
#[must_use = "a phase counts when it is stopped"]
pub struct Running {
    phase: Phase,
    began: Instant,
    /// What the rank had spent on communication by then.
    exchanged: Duration,
}

impl StepTimers {
    /// Timers at zero; `calls` is the log of the rank's collectives.
    #[must_use]
    pub fn new(calls: Arc<CallLog>) -> Self {
        Self { calls, times: StepTimes::default() }
    }

    /// Does `work`, whose time counts for `phase`.
    pub fn run<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let running = self.start(phase);
        let result = work();
        self.stop(running);
        result
    }

    /// Begins a phase.
    pub fn start(&self, phase: Phase) -> Running {
        Running { phase, began: Instant::now(), exchanged: self.calls.time_spent() }
    }

    /// Ends a phase.
    pub fn stop(&mut self, running: Running) {
        let Running { phase, began, exchanged } = running;
        let elapsed = began.elapsed();
        let times = &mut self.times;
        let sum = match phase {
            Phase::Data => &mut times.data,
            Phase::Forward => &mut times.forward,
            Phase::Backward => &mut times.backward,
            Phase::Optimizer => &mut times.optimizer,
            Phase::Save => {
                times.save += elapsed;
                return;
            }
        };
        let communication = self.calls.time_spent() - exchanged;
        *sum += elapsed.saturating_sub(communication);
        times.communication += communication;
    }

    /// The sums so far, which begin again at zero.
    pub fn take(&mut self) -> StepTimes {
        std::mem::take(&mut self.times)
    }
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}
