//! Runs one thread per rank, and ends all of them when one fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::collective::{CollectiveError, ThreadCollective};
use super::dims::{ParallelDims, RankPlace};
use super::group::{DataParallelGroup, TensorParallelGroup};
use super::rank::Rank;
use crate::error::TrainError;

/// How long a rank waits in a collective for another before it gives up.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// A rank's stack: burn walks and frees graphs by recursion.
const STACK_BYTES: usize = 64 << 20;

/// Runs `work` on every rank of the grid and returns the results in rank order.
///
/// A rank that fails or panics ends every group of the grid: all others leave their next collective
/// with an error. Every thread is joined. A thread cannot be ended from outside, so a rank that
/// hangs is waited for; why the others gave up is logged at once.
///
/// # Errors
///
/// The first cause, with its rank: what `work` returned, [`TrainError::RankPanicked`], or
/// [`TrainError::Collective`] when the ranks have come apart.
///
/// # Panics
///
/// When the grid has no rank.
pub fn launch<T: Send>(
    dims: ParallelDims,
    work: impl Fn(Rank) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>, TrainError> {
    launch_with_timeout(dims, DEFAULT_TIMEOUT, work)
}

/// [`launch`] with ranks that wait no longer than `timeout` for each other.
///
/// # Errors
///
/// As [`launch`].
///
/// # Panics
///
/// As [`launch`].
pub fn launch_with_timeout<T: Send>(
    dims: ParallelDims,
    timeout: Duration,
    work: impl Fn(Rank) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>, TrainError> {
    let grid = Grid { ranks: ranks(dims, timeout), first_cause: Mutex::default() };
    let results: Vec<Option<T>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(dims.num_ranks());
        for rank in &grid.ranks {
            let (grid, work) = (&grid, &work);
            let started = thread::Builder::new()
                .name(format!("rank-{}", rank.index()))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || grid.run(rank, work));
            match started {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    let place = rank.place();
                    grid.end(place, TrainError::RankNotStarted { place, source });
                    break;
                }
            }
        }
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a rank's panic is caught within its thread"))
            .collect()
    });
    grid.into_result()?;
    Ok(results.into_iter().map(|result| result.expect("no rank recorded a failure")).collect())
}

/// The ranks of the grid: those of one copy of the model are a tensor-parallel group, those with
/// the same part of every copy a data-parallel one.
fn ranks(dims: ParallelDims, timeout: Duration) -> Vec<Rank> {
    assert!(dims.num_ranks() > 0, "a grid has at least one rank");
    let group = |is_member: &dyn Fn(&RankPlace) -> bool| {
        ThreadCollective::group(dims.places().filter(is_member), timeout)
    };
    let mut tensor_groups: Vec<_> =
        (0..dims.data).map(|data| group(&|place| place.data == data).into_iter()).collect();
    let mut data_groups: Vec<_> =
        (0..dims.tensor).map(|tensor| group(&|place| place.tensor == tensor).into_iter()).collect();
    let member = |handle: Option<ThreadCollective>| Arc::new(handle.expect("one for each place"));
    dims.places()
        .map(|place| Rank {
            tensor_parallel: TensorParallelGroup::new(member(tensor_groups[place.data].next())),
            data_parallel: DataParallelGroup::new(member(data_groups[place.tensor].next())),
        })
        .collect()
}

/// All ranks, and the failure that all others follow from.
struct Grid {
    ranks: Vec<Rank>,
    first_cause: Mutex<Option<TrainError>>,
}

impl Grid {
    /// The body of one rank's thread.
    fn run<T>(
        &self,
        rank: &Rank,
        work: &(impl Fn(Rank) -> Result<T, TrainError> + Sync),
    ) -> Option<T> {
        let place = rank.place();
        let failure = match catch_unwind(AssertUnwindSafe(|| work(rank.clone()))) {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => returned(place, error),
            Err(payload) => panicked(place, payload),
        };
        self.end(place, failure);
        None
    }

    /// Ends every group because the rank at `place` has failed.
    fn end(&self, place: RankPlace, failure: TrainError) {
        let reason = failure.to_string();
        // The cause is recorded before the others can wake up with the news of it.
        self.record(failure);
        let failure = CollectiveError::RankFailed { place, reason };
        for rank in &self.ranks {
            rank.tensor_parallel.collective().fail(&failure);
            rank.data_parallel.collective().fail(&failure);
        }
    }

    fn record(&self, failure: TrainError) {
        let mut first = self.first_cause.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            if let TrainError::Collective(error) = &failure {
                // A rank that hangs keeps `launch` from returning this.
                tracing::error!("{error}; stopping all ranks");
            }
            *first = Some(failure);
        }
    }

    fn into_result(self) -> Result<(), TrainError> {
        let first = self.first_cause.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }
}

/// A lost group concerns all ranks alike; everything else is the failure of one.
fn returned(place: RankPlace, error: TrainError) -> TrainError {
    match error {
        TrainError::Collective(_) => error,
        other => TrainError::Rank { place, source: Box::new(other) },
    }
}

fn panicked(place: RankPlace, payload: Box<dyn Any + Send>) -> TrainError {
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
    TrainError::RankPanicked { place, message }
}
