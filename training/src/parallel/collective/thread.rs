//! Ranks that are threads of one process.
//!
//! A rank puts its numbers into a slot that all can read, meets the others, and combines the
//! slots in the order of the ranks, so that every rank gets bit-identical results. Long buffers
//! are combined in parts, one for each rank, which the ranks then copy from each other; short
//! ones each rank combines by itself and saves the second meeting. A long buffer that is a vector
//! of its own goes into the slot as it is and comes back after the second meeting, when nobody
//! reads it any more: its numbers are copied once, from the parts.
//!
//! Meetings are a mutex and a condition variable: `std::sync::Barrier` could neither time out nor
//! be broken by a rank that has died.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::{Duration, Instant};

use tracing::warn;

use super::{Collective, CollectiveCall, CollectiveError, CollectiveKind, Message, Numbers};
use super::{ReduceOp, share};
use crate::parallel::RankPlace;

/// From this many numbers on, each rank combines a part of the buffer: below it the second
/// meeting costs more than the arithmetic it saves.
const SHARED_WORK_NUMBERS: usize = 16 * 1024;

/// Numbers that are combined over all ranks before the next ones are.
const BLOCK_NUMBERS: usize = 4 * 1024;

/// Longest wait that is counted at once, and never more than a quarter of the time-out: a process
/// that was stopped and goes on, or a machine that slept, has waited for no longer than this.
const WAIT_SLICE: Duration = Duration::from_secs(1);

/// One rank's handle on a group whose ranks are threads of this process.
pub struct ThreadCollective {
    rank: usize,
    calls: AtomicU64,
    shared: Arc<Shared>,
}

/// What the threads of a group share.
struct Shared {
    /// The members' places in the grid, by rank.
    places: Vec<RankPlace>,
    timeout: Duration,
    meeting: Mutex<Meeting>,
    changed: Condvar,
    /// What each rank brings, for even and for odd calls: a rank can be one call ahead of another
    /// that still reads.
    slots: [Vec<RwLock<Vec<f32>>>; 2],
    /// The part that each rank has combined.
    parts: Vec<RwLock<Vec<f32>>>,
}

/// The ranks' current meeting.
struct Meeting {
    /// How many meetings have ended.
    ended: u64,
    /// Which ranks are here.
    present: Vec<bool>,
    /// The first rank that came, and what it issued.
    first: Option<(usize, CollectiveCall)>,
    /// Why there will be no further meeting.
    failure: Option<CollectiveError>,
}

impl ThreadCollective {
    /// The handles of a group whose members stand at `places` of the grid, in rank order. A rank
    /// that waits for longer than `timeout` ends the group.
    ///
    /// # Panics
    ///
    /// When there is no member.
    #[must_use]
    pub fn group(places: impl IntoIterator<Item = RankPlace>, timeout: Duration) -> Vec<Self> {
        let places: Vec<RankPlace> = places.into_iter().collect();
        let size = places.len();
        assert!(size > 0, "a group has at least one rank");
        let slots = || (0..size).map(|_| RwLock::default()).collect();
        let meeting = Meeting { ended: 0, present: vec![false; size], first: None, failure: None };
        let shared = Arc::new(Shared {
            places,
            timeout,
            meeting: Mutex::new(meeting),
            changed: Condvar::new(),
            slots: [slots(), slots()],
            parts: slots(),
        });
        (0..size)
            .map(|rank| Self { rank, calls: AtomicU64::new(0), shared: Arc::clone(&shared) })
            .collect()
    }

    /// Leaves a copy of `numbers` for the others to read, and meets them.
    fn bring(&self, call: &CollectiveCall, numbers: &[f32]) -> Result<(), CollectiveError> {
        self.copy_to_slot(call, numbers);
        self.meet(call)
    }

    fn copy_to_slot(&self, call: &CollectiveCall, numbers: &[f32]) {
        let mut slot = self.write_slot(call);
        slot.clear();
        slot.extend_from_slice(numbers);
    }

    /// Puts `numbers` into this rank's slot, or takes them back from there.
    fn swap_with_slot(&self, call: &CollectiveCall, numbers: &mut Vec<f32>) {
        std::mem::swap(&mut *self.write_slot(call), numbers);
    }

    /// Waits until every rank has issued `call`.
    fn meet(&self, call: &CollectiveCall) -> Result<(), CollectiveError> {
        let mut meeting = self.lock();
        if let Some(failure) = &meeting.failure {
            return Err(failure.clone());
        }
        match &meeting.first {
            None => meeting.first = Some((self.rank, call.clone())),
            Some((rank, first)) if first != call => {
                let failure = CollectiveError::Mismatch {
                    place: self.shared.places[*rank],
                    call: Box::new(first.clone()),
                    other_place: self.place(),
                    other: Box::new(call.clone()),
                };
                return Err(self.end_group(meeting, failure));
            }
            Some(_) => {}
        }
        meeting.present[self.rank] = true;
        if meeting.present.iter().all(|&present| present) {
            meeting.ended += 1;
            meeting.present.fill(false);
            meeting.first = None;
            self.shared.changed.notify_all();
            return Ok(());
        }
        self.wait(meeting, call)
    }

    /// Waits for the end of the meeting that this rank has joined.
    fn wait(
        &self,
        mut meeting: MutexGuard<'_, Meeting>,
        call: &CollectiveCall,
    ) -> Result<(), CollectiveError> {
        let joined = meeting.ended;
        // Work between barriers has no bound: a rank that waits there only tells of it.
        let has_bound = call.kind != CollectiveKind::Barrier;
        let mut waited = Duration::ZERO;
        loop {
            if meeting.ended > joined {
                return Ok(());
            }
            if let Some(failure) = &meeting.failure {
                return Err(failure.clone());
            }
            if waited >= self.shared.timeout {
                let late = self.timed_out(&meeting, call);
                if has_bound {
                    return Err(self.end_group(meeting, late));
                }
                warn!("{late}; still waiting");
                waited = Duration::ZERO;
            }
            let left = self.shared.timeout.saturating_sub(waited);
            let slice = WAIT_SLICE.min(self.shared.timeout / 4);
            let slice = if has_bound { left.min(slice) } else { WAIT_SLICE };
            let begun = Instant::now();
            let woken = self.shared.changed.wait_timeout(meeting, slice);
            meeting = woken.unwrap_or_else(PoisonError::into_inner).0;
            waited += begun.elapsed().min(slice);
        }
    }

    fn timed_out(&self, meeting: &Meeting, call: &CollectiveCall) -> CollectiveError {
        let members = self.shared.places.iter().zip(&meeting.present);
        CollectiveError::TimedOut {
            place: self.place(),
            call: Box::new(call.clone()),
            missing: members.filter(|(_, present)| !**present).map(|(place, _)| *place).collect(),
            waited: self.shared.timeout,
        }
    }

    /// Makes `failure` the group's end, unless it already has one, and wakes every rank.
    fn end_group(
        &self,
        mut meeting: MutexGuard<'_, Meeting>,
        failure: CollectiveError,
    ) -> CollectiveError {
        let failure = meeting.failure.get_or_insert(failure).clone();
        self.shared.changed.notify_all();
        failure
    }

    fn place(&self) -> RankPlace {
        self.shared.places[self.rank]
    }

    fn lock(&self) -> MutexGuard<'_, Meeting> {
        self.shared.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, call: &CollectiveCall, rank: usize) -> &RwLock<Vec<f32>> {
        &self.shared.slots[(call.sequence % 2) as usize][rank]
    }

    fn write_slot(&self, call: &CollectiveCall) -> RwLockWriteGuard<'_, Vec<f32>> {
        self.slot(call, self.rank).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_slot(&self, call: &CollectiveCall, rank: usize) -> RwLockReadGuard<'_, Vec<f32>> {
        self.slot(call, rank).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_call(
        &self,
        kind: CollectiveKind,
        message: Message<'_>,
        numbers: usize,
    ) -> CollectiveCall {
        message.call(self.calls.fetch_add(1, Ordering::Relaxed), kind, numbers)
    }

    /// The share of `rank` in the work on `numbers` numbers.
    fn share(&self, rank: usize, numbers: usize) -> Range<usize> {
        share(rank, self.size(), numbers)
    }

    /// Combines what all ranks brought at `range` into `result`, in rank order. Block by block, so
    /// that the result of a long buffer does not leave the processor's cache between two ranks.
    fn combine(
        &self,
        call: &CollectiveCall,
        range: Range<usize>,
        op: ReduceOp,
        result: &mut [f32],
    ) {
        let slots: Vec<_> = (0..self.size()).map(|rank| self.read_slot(call, rank)).collect();
        for (block, result) in result.chunks_mut(BLOCK_NUMBERS).enumerate() {
            let first = range.start + block * BLOCK_NUMBERS;
            for (rank, slot) in slots.iter().enumerate() {
                let numbers = &slot[first..][..result.len()];
                match rank {
                    0 => result.copy_from_slice(numbers),
                    _ => op.combine(result, numbers),
                }
            }
        }
    }

    /// Combines this rank's part of a long buffer for all.
    fn combine_part(&self, call: &CollectiveCall, op: ReduceOp) {
        let share = self.share(self.rank, call.numbers);
        let part = &self.shared.parts[self.rank];
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        part.resize(share.len(), 0.0);
        self.combine(call, share, op, &mut part);
    }

    /// Copies the parts that the ranks have combined into `result`.
    fn copy_parts(&self, result: &mut [f32]) {
        let numbers = result.len();
        for (rank, part) in self.shared.parts.iter().enumerate() {
            let part = part.read().unwrap_or_else(PoisonError::into_inner);
            result[self.share(rank, numbers)].copy_from_slice(&part);
        }
    }
}

impl ReduceOp {
    /// Combines the next rank's `numbers` into `result`.
    fn combine(self, result: &mut [f32], numbers: &[f32]) {
        let pairs = result.iter_mut().zip(numbers);
        match self {
            Self::Sum => pairs.for_each(|(sum, number)| *sum += number),
            // A comparison that keeps what is not a number: a diverged loss must be seen.
            Self::Max => pairs.for_each(|(max, &number)| {
                *max = if *max >= number || max.is_nan() { *max } else { number };
            }),
        }
    }
}

impl Collective for ThreadCollective {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.places.len()
    }

    fn all_reduce(
        &self,
        message: Message<'_>,
        mut numbers: Numbers<'_>,
        op: ReduceOp,
    ) -> Result<(), CollectiveError> {
        let count = numbers.len();
        let call = self.next_call(CollectiveKind::AllReduce(op), message, count);
        if self.size() == 1 {
            return Ok(());
        }
        if count < SHARED_WORK_NUMBERS {
            self.bring(&call, numbers.as_slice())?;
            self.combine(&call, 0..count, op, numbers.as_mut_slice());
            return Ok(());
        }
        match &mut numbers {
            Numbers::Vec(own) => self.swap_with_slot(&call, own),
            Numbers::Slice(own) => self.copy_to_slot(&call, own),
        }
        self.meet(&call)?;
        self.combine_part(&call, op);
        self.meet(&call)?; // from here on nobody reads this call's slots
        if let Numbers::Vec(own) = &mut numbers {
            self.swap_with_slot(&call, own);
        }
        self.copy_parts(numbers.as_mut_slice());
        Ok(())
    }

    fn all_gather(&self, message: Message<'_>, part: &[f32]) -> Result<Vec<f32>, CollectiveError> {
        let call = self.next_call(CollectiveKind::AllGather, message, part.len());
        if self.size() == 1 {
            return Ok(part.to_owned());
        }
        self.bring(&call, part)?;
        let mut gathered = Vec::with_capacity(self.size() * part.len());
        for rank in 0..self.size() {
            gathered.extend_from_slice(&self.read_slot(&call, rank));
        }
        Ok(gathered)
    }

    fn broadcast(
        &self,
        message: Message<'_>,
        buffer: &mut [f32],
        root: usize,
    ) -> Result<(), CollectiveError> {
        let call = self.next_call(CollectiveKind::Broadcast { root }, message, buffer.len());
        let brought = if self.rank == root { &*buffer } else { &[] };
        self.bring(&call, brought)?;
        buffer.copy_from_slice(&self.read_slot(&call, root));
        Ok(())
    }

    fn barrier(&self, name: &str) -> Result<(), CollectiveError> {
        let call = self.next_call(CollectiveKind::Barrier, name.into(), 0);
        self.meet(&call)
    }

    fn fail(&self, failure: &CollectiveError) {
        self.end_group(self.lock(), failure.clone());
    }
}

impl fmt::Debug for ThreadCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadCollective(rank {} of {})", self.rank, self.size())
    }
}
