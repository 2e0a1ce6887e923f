//! Runs one thread per rank, and ends all of them when one fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::collective::{Collective, CollectiveError, ThreadCollective};
use super::group::TensorParallelGroup;
use crate::error::TrainError;

/// How long a rank waits for another before it gives the group up. Between two collectives a rank
/// may write a checkpoint, so this is long.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// A rank's stack: burn walks and frees graphs by recursion.
const STACK_BYTES: usize = 64 << 20;

/// What one of the launched threads knows of its place.
#[derive(Clone, Debug)]
pub struct Rank {
    /// The ranks that share one copy of the model.
    pub tensor_parallel: TensorParallelGroup,
}

impl Rank {
    /// The only rank of a run that is not split.
    #[must_use]
    pub fn single() -> Self {
        Self { tensor_parallel: TensorParallelGroup::single() }
    }

    /// This rank, counted from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.tensor_parallel.rank()
    }

    /// Whether this is the rank that writes what is written once.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.index() == 0
    }
}

/// Runs `work` on `size` ranks and returns their results in rank order.
///
/// A rank that fails or panics ends the group: the others leave their next collective with an
/// error. Every thread is joined. A thread cannot be ended from outside, so a rank that hangs is
/// waited for; why the others gave up is logged at once.
///
/// # Errors
///
/// The first cause, with its rank: what `work` returned, [`TrainError::RankPanicked`], or
/// [`TrainError::Collective`] when the ranks have come apart.
///
/// # Panics
///
/// When `size` is 0.
pub fn launch<T: Send>(
    size: usize,
    work: impl Fn(Rank) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>, TrainError> {
    launch_with_timeout(size, DEFAULT_TIMEOUT, work)
}

/// [`launch`] with ranks that wait no longer than `timeout` for each other.
///
/// # Errors
///
/// As [`launch`].
///
/// # Panics
///
/// When `size` is 0.
pub fn launch_with_timeout<T: Send>(
    size: usize,
    timeout: Duration,
    work: impl Fn(Rank) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>, TrainError> {
    let first_cause = FirstCause::default();
    let results: Vec<Option<T>> = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(size);
        for collective in ThreadCollective::group(size, timeout) {
            let collective: Arc<dyn Collective> = Arc::new(collective);
            let (run, first_cause) = (Arc::clone(&collective), &first_cause);
            let work = &work;
            let started = std::thread::Builder::new()
                .name(format!("rank-{}", collective.rank()))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || run_rank(run, work, first_cause));
            match started {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    let rank = collective.rank();
                    collective.fail(&source.to_string());
                    first_cause.record(TrainError::RankNotStarted { rank, source });
                    break;
                }
            }
        }
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank's panic is caught within its thread"))
            .collect()
    });
    first_cause.into_result()?;
    Ok(results.into_iter().map(|result| result.expect("no rank recorded a failure")).collect())
}

/// The body of one rank's thread.
fn run_rank<T>(
    collective: Arc<dyn Collective>,
    work: &(impl Fn(Rank) -> Result<T, TrainError> + Sync),
    first_cause: &FirstCause,
) -> Option<T> {
    let index = collective.rank();
    let rank = Rank { tensor_parallel: TensorParallelGroup::new(Arc::clone(&collective)) };
    let failure = match catch_unwind(AssertUnwindSafe(|| work(rank))) {
        Ok(Ok(result)) => return Some(result),
        Ok(Err(error)) => returned(index, error),
        Err(payload) => panicked(index, payload),
    };
    // The cause is recorded before the others can wake up with the news of it.
    let reason = failure.to_string();
    first_cause.record(failure);
    collective.fail(&reason);
    None
}

/// A lost group concerns all ranks alike; everything else is the failure of one.
fn returned(rank: usize, error: TrainError) -> TrainError {
    match error {
        TrainError::Collective(_) => error,
        other => TrainError::Rank { rank, source: Box::new(other) },
    }
}

fn panicked(rank: usize, payload: Box<dyn Any + Send>) -> TrainError {
    let payload = match payload.downcast::<CollectiveError>() {
        Ok(error) => return TrainError::Collective(*error),
        Err(payload) => payload,
    };
    let message = match payload.downcast_ref::<String>() {
        Some(message) => message.clone(),
        None => match payload.downcast_ref::<&str>() {
            Some(message) => (*message).to_owned(),
            None => "no message".to_owned(),
        },
    };
    TrainError::RankPanicked { rank, message }
}

/// The failure that all others follow from.
#[derive(Default)]
struct FirstCause(Mutex<Option<TrainError>>);

impl FirstCause {
    fn record(&self, error: TrainError) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            if let TrainError::Collective(error) = &error {
                // A rank that hangs keeps `launch` from returning this.
                tracing::error!("{error}; stopping all ranks");
            }
            *first = Some(error);
        }
    }

    fn into_result(self) -> Result<(), TrainError> {
        let first = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }
}
