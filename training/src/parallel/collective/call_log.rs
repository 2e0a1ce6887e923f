//! What one rank has exchanged: its latest calls, sums by name, and the time that it spent in them.
//!
//! Both groups of a rank write into one log, through [`Logged`], which stands in front of any
//! [`Collective`]. A group of one exchanges nothing and is not logged. The latest calls are what
//! one wants to see when the ranks have come apart: the last entry of each rank says where it was.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{
    Collective, CollectiveCall, CollectiveError, CollectiveKind, Message, Numbers, ReduceOp,
};

/// How many of the latest calls a rank remembers.
pub const REMEMBERED_CALLS: usize = 64;

/// The log of one rank.
#[derive(Debug)]
pub struct CallLog {
    /// What times are counted from: the same moment for all ranks.
    origin: Instant,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    step: u64,
    /// How many calls were begun.
    begun: u64,
    /// The latest of them, oldest first.
    recent: VecDeque<LoggedCall>,
    totals: CallTotals,
    spent: Duration,
}

/// What calls of each name came to.
pub type CallTotals = BTreeMap<String, CallTotal>;

/// What the calls of one name came to, on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallTotal {
    /// Calls.
    pub calls: u64,
    /// Numbers that the rank brought.
    pub numbers: u64,
    /// Bytes of these numbers in the precision that messages have.
    pub bytes: u64,
}

/// One call, as a rank remembers it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedCall {
    /// The step in which it was begun, counted from 1; 0 before the first.
    pub step: u64,
    /// Which of the rank's groups it belongs to: `tensor` or `data`.
    pub group: &'static str,
    /// The call.
    pub call: CollectiveCall,
    /// When it began, from the start of the ranks.
    pub started: Duration,
    /// When it ended; none while it is pending.
    pub ended: Option<Duration>,
}

impl CallLog {
    /// An empty log whose times count from `origin`.
    #[must_use]
    pub fn new(origin: Instant) -> Self {
        Self { origin, notes: Mutex::default() }
    }

    /// The latest calls, oldest first: [`REMEMBERED_CALLS`] of them at most.
    #[must_use]
    pub fn recent(&self) -> Vec<LoggedCall> {
        self.lock().recent.iter().cloned().collect()
    }

    /// Notes that step `step` begins, and counts from here on.
    pub fn begin_step(&self, step: u64) {
        let mut notes = self.lock();
        notes.step = step;
        notes.totals.clear();
    }

    /// What was exchanged since the step began.
    #[must_use]
    pub fn take_totals(&self) -> CallTotals {
        std::mem::take(&mut self.lock().totals)
    }

    /// Time spent in collectives so far, waiting for other ranks included.
    #[must_use]
    pub fn time_spent(&self) -> Duration {
        self.lock().spent
    }

    /// Notes the beginning of a call; returns its number in this log.
    fn begin(&self, group: &'static str, call: CollectiveCall) -> u64 {
        let started = self.origin.elapsed();
        let mut notes = self.lock();
        if notes.recent.len() == REMEMBERED_CALLS {
            notes.recent.pop_front();
        }
        notes.totals_of(&call.name).add(&call);
        let step = notes.step;
        notes.recent.push_back(LoggedCall { step, group, call, started, ended: None });
        notes.begun += 1;
        notes.begun - 1
    }

    /// Notes the end of call number `number`.
    fn end(&self, number: u64) {
        let ended = self.origin.elapsed();
        let mut notes = self.lock();
        let age = (notes.begun - number) as usize; // 1 for the latest
        let Some(place) = notes.recent.len().checked_sub(age) else { return };
        let call = &mut notes.recent[place];
        call.ended = Some(ended);
        let spent = ended - call.started;
        notes.spent += spent;
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    fn totals_of(&mut self, name: &str) -> &mut CallTotal {
        if !self.totals.contains_key(name) {
            self.totals.insert(name.to_owned(), CallTotal::default());
        }
        self.totals.get_mut(name).expect("it is there now")
    }
}

impl CallTotal {
    fn add(&mut self, call: &CollectiveCall) {
        self.calls += 1;
        self.numbers += call.numbers as u64;
        self.bytes += (call.numbers * call.number_bytes) as u64;
    }
}

/// A group's collective, each of whose calls is noted in a rank's log.
#[derive(Debug)]
pub struct Logged<C> {
    inner: C,
    group: &'static str,
    log: Arc<CallLog>,
    calls: AtomicU64,
}

impl<C: Collective> Logged<C> {
    /// `inner`, the collective of the rank's `group` (`tensor` or `data`), noted in `log`.
    pub fn new(inner: C, group: &'static str, log: Arc<CallLog>) -> Self {
        Self { inner, group, log, calls: AtomicU64::new(0) }
    }

    /// Does `work`, the call that the other arguments tell of. One that fails never ends.
    fn noted<T>(
        &self,
        kind: CollectiveKind,
        message: Message<'_>,
        numbers: usize,
        work: impl FnOnce(&C) -> Result<T, CollectiveError>,
    ) -> Result<T, CollectiveError> {
        if self.inner.size() == 1 {
            return work(&self.inner);
        }
        let sequence = self.calls.fetch_add(1, Ordering::Relaxed);
        let number = self.log.begin(self.group, message.call(sequence, kind, numbers));
        let result = work(&self.inner)?;
        self.log.end(number);
        Ok(result)
    }
}

impl<C: Collective> Collective for Logged<C> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn all_reduce(
        &self,
        message: Message<'_>,
        numbers: Numbers<'_>,
        op: ReduceOp,
    ) -> Result<(), CollectiveError> {
        let kind = CollectiveKind::AllReduce(op);
        self.noted(kind, message, numbers.len(), |inner| inner.all_reduce(message, numbers, op))
    }

    fn all_gather(&self, message: Message<'_>, part: &[f32]) -> Result<Vec<f32>, CollectiveError> {
        let kind = CollectiveKind::AllGather;
        self.noted(kind, message, part.len(), |inner| inner.all_gather(message, part))
    }

    fn broadcast(
        &self,
        message: Message<'_>,
        buffer: &mut [f32],
        root: usize,
    ) -> Result<(), CollectiveError> {
        let kind = CollectiveKind::Broadcast { root };
        self.noted(kind, message, buffer.len(), |inner| inner.broadcast(message, buffer, root))
    }

    fn barrier(&self, name: &str) -> Result<(), CollectiveError> {
        self.noted(CollectiveKind::Barrier, name.into(), 0, |inner| inner.barrier(name))
    }

    fn fail(&self, failure: &CollectiveError) {
        self.inner.fail(failure);
    }
}
