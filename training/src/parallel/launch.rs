//! Runs one thread per rank, and ends all of them when one fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::collective::{CallLog, CollectiveError, Logged, ThreadCollective};
use super::dims::{ParallelDims, RankPlace};
use super::group::{DataParallelGroup, TensorParallelGroup};
use super::rank::Rank;
use crate::error::TrainError;

/// How long a rank waits in a collective for another before it gives up.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// How long ranks have to return after a failure, where they wait longer than that for each other.
const LONGEST_PATIENCE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// A rank's stack: burn walks and frees graphs by recursion.
const STACK_BYTES: usize = 64 << 20;

/// Runs `work` on every rank of the grid and returns the results in rank order.
///
/// A rank that fails or panics ends every group of the grid: all others leave their next collective
/// with an error. Every thread is joined. A thread cannot be ended from outside, so a rank that
/// hangs is waited for; why the others gave up is logged.
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
    launch_watched(dims, &Watch::default(), work)
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
    launch_watched(dims, &Watch { timeout, ..Watch::default() }, work)
}

/// How ranks are watched.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// How long a rank waits in a collective for another before it gives up; and after a failure,
    /// up to 30 seconds, how long ranks have to return.
    pub timeout: Duration,
    /// Called once, with all ranks and the first cause, before that rank ends the others: their
    /// logs show what each was waiting in.
    pub on_failure: &'a (dyn Fn(&[Rank], &TrainError) + Sync),
    /// Called once, when ranks do not return after a failure: the first cause, and who they are.
    pub on_hang: &'a (dyn Fn(&TrainError, &[RankPlace]) + Sync),
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            on_failure: &|_, _| {},
            on_hang: &|failure, places| tracing::error!("{}", hang_message(failure, places)),
        }
    }
}

/// `rank 0 waited 600 s in …; rank 1 hangs`.
pub(crate) fn hang_message(failure: &TrainError, places: &[RankPlace]) -> String {
    let names: Vec<_> = places.iter().map(RankPlace::to_string).collect();
    let verb = if places.len() == 1 { "hangs" } else { "hang" };
    format!("{failure}; {} {verb}", names.join(", "))
}

/// [`launch`] of ranks that are watched as `watch` says.
///
/// # Errors
///
/// As [`launch`].
///
/// # Panics
///
/// As [`launch`].
pub fn launch_watched<T: Send>(
    dims: ParallelDims,
    watch: &Watch<'_>,
    work: impl Fn(Rank) -> Result<T, TrainError> + Sync,
) -> Result<Vec<T>, TrainError> {
    let grid = Grid {
        ranks: ranks(dims, watch.timeout),
        watch,
        state: Mutex::new(GridState { first_cause: None, running: vec![false; dims.num_ranks()] }),
        changed: Condvar::new(),
    };
    let results: Vec<Option<T>> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(dims.num_ranks());
        for rank in &grid.ranks {
            let (grid, work) = (&grid, &work);
            grid.lock().running[rank.index()] = true;
            let started = thread::Builder::new()
                .name(format!("rank-{}", rank.index()))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || grid.run(rank, work));
            match started {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    let place = rank.place();
                    grid.lock().running[rank.index()] = false;
                    grid.end(place, TrainError::RankNotStarted { place, source });
                    break;
                }
            }
        }
        grid.watch();
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
    let origin = Instant::now();
    dims.places()
        .map(|place| {
            let calls = Arc::new(CallLog::new(origin));
            let logged = |group, handle: Option<ThreadCollective>| {
                let handle = handle.expect("one for each place");
                Arc::new(Logged::new(handle, group, Arc::clone(&calls)))
            };
            let tensor = logged("tensor", tensor_groups[place.data].next());
            let data = logged("data", data_groups[place.tensor].next());
            Rank {
                tensor_parallel: TensorParallelGroup::new(tensor),
                data_parallel: DataParallelGroup::new(data),
                calls,
            }
        })
        .collect()
}

/// All ranks, and how they do.
struct Grid<'a> {
    ranks: Vec<Rank>,
    watch: &'a Watch<'a>,
    state: Mutex<GridState>,
    changed: Condvar,
}

struct GridState {
    /// The failure that all others follow from.
    first_cause: Option<TrainError>,
    /// Which ranks have not returned.
    running: Vec<bool>,
}

impl Grid<'_> {
    /// The body of one rank's thread.
    fn run<T>(
        &self,
        rank: &Rank,
        work: &(impl Fn(Rank) -> Result<T, TrainError> + Sync),
    ) -> Option<T> {
        let place = rank.place();
        let result = match catch_unwind(AssertUnwindSafe(|| work(rank.clone()))) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(returned(place, error)),
            Err(payload) => Err(panicked(rank, payload)),
        };
        let result = result.map_err(|failure| self.end(place, failure)).ok();
        self.lock().running[place.rank()] = false;
        self.changed.notify_all();
        result
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
        let mut state = self.lock();
        if state.first_cause.is_none() {
            (self.watch.on_failure)(&self.ranks, &failure);
            state.first_cause = Some(failure);
            self.changed.notify_all();
        }
    }

    /// Waits until every rank has returned; tells of those that do not after a failure.
    fn watch(&self) {
        let patience = self.watch.timeout.min(LONGEST_PATIENCE_AFTER_FAILURE);
        let mut failed_at = None;
        let mut is_told = false;
        let mut state = self.lock();
        while state.running.contains(&true) {
            let failed_at: Option<&mut Instant> =
                state.first_cause.as_ref().map(|_| failed_at.get_or_insert_with(Instant::now));
            let Some(left) = failed_at.map(|at| patience.saturating_sub(at.elapsed())) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if left.is_zero() && !is_told {
                let hanging = self.ranks.iter().filter(|rank| state.running[rank.index()]);
                let hanging: Vec<_> = hanging.map(Rank::place).collect();
                let cause = state.first_cause.as_ref().expect("it is what ranks end for");
                (self.watch.on_hang)(cause, &hanging);
                is_told = true;
            }
            let wait = if is_told { LONGEST_PATIENCE_AFTER_FAILURE } else { left };
            let woken = self.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, GridState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_result(self) -> Result<(), TrainError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.first_cause.map_or(Ok(()), Err)
    }
}

/// A lost group concerns all ranks alike; everything else is the failure of one.
fn returned(place: RankPlace, error: TrainError) -> TrainError {
    match error {
        TrainError::Collective(_) => error,
        other => TrainError::Rank { place, source: Box::new(other) },
    }
}

fn panicked(rank: &Rank, payload: Box<dyn Any + Send>) -> TrainError {
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
    let last_call = rank.calls.recent().pop().map(|logged| Box::new(logged.call));
    TrainError::RankPanicked { place: rank.place(), message, last_call }
}
