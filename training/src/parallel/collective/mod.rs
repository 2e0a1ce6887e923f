//! What the ranks of a group do together, without gradients.
//!
//! Every call carries a name, so that a group whose ranks have come apart can say where: two ranks
//! that disagree on what they do next, a rank that has died and a rank that does not come end the
//! whole group with one [`CollectiveError`]. A group of one returns every buffer as it is.

mod call_log;
mod exact;
mod thread;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

pub use call_log::{CallLog, CallTotal, CallTotals, Logged, LoggedCall, REMEMBERED_CALLS};
pub use exact::{sum_all_exactly, sum_exactly};
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

/// What a call is for, and what its numbers take on the way.
///
/// Numbers are `f32` in memory, and sums are taken in `f32`. In mixed precision they carry no more
/// than a 16-bit number each, which is what is sent where ranks have to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What the call is for: `layer.mlp.g`.
    pub name: &'a str,
    /// Bytes of each number: 4 in `f32`, 2 in `bf16` and `f16`.
    pub number_bytes: usize,
}

impl Message<'_> {
    fn call(&self, sequence: u64, kind: CollectiveKind, numbers: usize) -> CollectiveCall {
        let Self { name, number_bytes } = *self;
        CollectiveCall { sequence, kind, name: name.to_owned(), numbers, number_bytes }
    }
}

/// A message of `f32`.
impl<'a> From<&'a str> for Message<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, number_bytes: size_of::<f32>() }
    }
}

/// The numbers that a rank brings to an all-reduce, and finds the result in.
#[derive(Debug)]
pub enum Numbers<'a> {
    /// A vector of its own: ranks that are threads show it to each other without a copy. After a
    /// call that failed it holds any numbers.
    Vec(&'a mut Vec<f32>),
    /// A piece of something larger: it is copied.
    Slice(&'a mut [f32]),
}

impl Numbers<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn as_slice(&self) -> &[f32] {
        match self {
            Self::Vec(numbers) => numbers,
            Self::Slice(numbers) => numbers,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [f32] {
        match self {
            Self::Vec(numbers) => numbers,
            Self::Slice(numbers) => numbers,
        }
    }
}

impl<'a> From<&'a mut Vec<f32>> for Numbers<'a> {
    fn from(numbers: &'a mut Vec<f32>) -> Self {
        Self::Vec(numbers)
    }
}

impl<'a> From<&'a mut [f32]> for Numbers<'a> {
    fn from(numbers: &'a mut [f32]) -> Self {
        Self::Slice(numbers)
    }
}

impl<'a, const N: usize> From<&'a mut [f32; N]> for Numbers<'a> {
    fn from(numbers: &'a mut [f32; N]) -> Self {
        Self::Slice(numbers)
    }
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

    /// Replaces each of `numbers` by the sum or the maximum over all ranks.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn all_reduce(
        &self,
        message: Message<'_>,
        numbers: Numbers<'_>,
        op: ReduceOp,
    ) -> Result<(), CollectiveError>;

    /// The parts of all ranks one after the other; all parts have the same length.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn all_gather(&self, message: Message<'_>, part: &[f32]) -> Result<Vec<f32>, CollectiveError>;

    /// Replaces `buffer` by that of rank `root`.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    fn broadcast(
        &self,
        message: Message<'_>,
        buffer: &mut [f32],
        root: usize,
    ) -> Result<(), CollectiveError>;

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
    /// Bytes of each number in the message.
    pub number_bytes: usize,
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllReduce(ReduceOp::Sum) => "all_reduce(sum)",
            Self::AllReduce(ReduceOp::Max) => "all_reduce(max)",
            Self::AllGather => "all_gather",
            Self::Broadcast { .. } => "broadcast",
            Self::Barrier => "barrier",
        })
    }
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence, kind, name, numbers, .. } = self;
        write!(f, "{kind} \"{name}\" (call {sequence}, {numbers} numbers")?;
        if let CollectiveKind::Broadcast { root } = self.kind {
            write!(f, ", from rank {root}")?;
        }
        if self.number_bytes != size_of::<f32>() {
            write!(f, ", {} bytes each", self.number_bytes)?;
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
