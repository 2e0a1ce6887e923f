//! What the ranks of a group do together, without gradients.
//!
//! Every call carries a name, so that a group whose ranks have come apart can say where: two ranks
//! that disagree on what they do next, a rank that has died and a rank that does not come end the
//! whole group with one [`CollectiveError`]. A group of one returns every buffer as it is.

mod exact;
mod thread;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

pub use exact::sum_exactly;
pub use thread::ThreadCollective;

use super::dims::RankPlace;

/// How an all-reduce combines the ranks' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum, added in the order of the ranks.
    Sum,
    /// The largest.
    Max,
}

/// The operations of a group of ranks, as one of them sees it.
///
/// All ranks must issue the same calls in the same order. Results are bit-identical on every rank.
/// Every call fails with a [`CollectiveError`] when the ranks have come apart; the group is then
/// of no further use.
pub trait Collective: Send + Sync + fmt::Debug {
    /// This rank, counted from 0.
    fn rank(&self) -> usize;

    /// How many ranks the group has.
    fn size(&self) -> usize;

    /// Replaces each number of `buffer` by the sum or the maximum over all ranks.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn all_reduce(
        &self,
        name: &str,
        buffer: &mut [f32],
        op: ReduceOp,
    ) -> Result<(), CollectiveError>;

    /// The parts of all ranks one after the other; all parts have the same length.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn all_gather(&self, name: &str, part: &[f32]) -> Result<Vec<f32>, CollectiveError>;

    /// Replaces `buffer` by that of rank `root`.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn broadcast(&self, name: &str, buffer: &mut [f32], root: usize)
    -> Result<(), CollectiveError>;

    /// Returns when every rank has come here, however long that takes: between barriers, ranks
    /// read and write files, in a time that grows with the model. One that fails ends the wait.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn barrier(&self, name: &str) -> Result<(), CollectiveError>;

    /// Ends the group, unless it has ended already: every pending and later call of any rank fails
    /// with `failure`.
    fn fail(&self, failure: &CollectiveError);
}

/// The part of `count` things that rank `rank` of `size` takes: consecutive ones, each is taken
/// once, and no two ranks' numbers of them differ by more than one.
pub(crate) fn share(rank: usize, size: usize, count: usize) -> Range<usize> {
    rank * count / size..(rank + 1) * count / size
}

/// What a collective does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveKind {
    /// [`Collective::all_reduce`].
    AllReduce(ReduceOp),
    /// [`Collective::all_gather`].
    AllGather,
    /// [`Collective::broadcast`].
    Broadcast {
        /// The rank whose numbers all receive.
        root: usize,
    },
    /// [`Collective::barrier`].
    Barrier,
}

/// One call of a collective, as it appears in errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveCall {
    /// How many calls the rank had issued before.
    pub sequence: u64,
    /// What it does.
    pub kind: CollectiveKind,
    /// What it is for.
    pub name: String,
    /// How many numbers the rank brings.
    pub numbers: usize,
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CollectiveKind::AllReduce(ReduceOp::Sum) => "all_reduce(sum)",
            CollectiveKind::AllReduce(ReduceOp::Max) => "all_reduce(max)",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::Broadcast { .. } => "broadcast",
            CollectiveKind::Barrier => "barrier",
        };
        let Self { sequence, name, numbers, .. } = self;
        write!(f, "{kind} \"{name}\" (call {sequence}, {numbers} numbers")?;
        if let CollectiveKind::Broadcast { root } = self.kind {
            write!(f, ", from rank {root}")?;
        }
        write!(f, ")")
    }
}

/// Why the ranks of a group cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Two ranks issued different collectives.
    #[error("ranks issued different collectives: {place} {call}, {other_place} {other}")]
    Mismatch {
        /// The rank that came first.
        place: RankPlace,
        /// What it issued.
        call: Box<CollectiveCall>,
        /// The rank that disagrees.
        other_place: RankPlace,
        /// What that one issued.
        other: Box<CollectiveCall>,
    },
    /// Ranks did not come to a collective in time.
    #[error(
        "{place} waited {} s in {call} for {}",
        waited.as_secs_f64(),
        missing.iter().map(RankPlace::to_string).collect::<Vec<_>>().join(", ")
    )]
    TimedOut {
        /// A rank that waited.
        place: RankPlace,
        /// What it issued.
        call: Box<CollectiveCall>,
        /// The ranks that did not come.
        missing: Vec<RankPlace>,
        /// How long it waited.
        waited: Duration,
    },
    /// A rank failed outside of a collective.
    #[error("{place} failed: {reason}")]
    RankFailed {
        /// The rank that failed.
        place: RankPlace,
        /// Why it failed.
        reason: String,
    },
}

impl CollectiveError {
    /// Unwinds the calling rank up to [`launch`](crate::parallel::launch()), which returns this
    /// error.
    ///
    /// A forward or backward pass returns tensors, not results; a lost group leaves it this way.
    /// The process's panic hook does not run, so nothing is printed.
    pub fn unwind(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}
