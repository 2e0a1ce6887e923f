//! The two groups of a rank, as it sees them: who shares its model, and who trains a copy of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::collective::{
    Collective, CollectiveError, Message, Numbers, ReduceOp, ThreadCollective, share,
};
use super::dims::ParallelDims;

/// The ranks that share the layers of one copy of the model.
///
/// A value that is handed down when a model is built: there is no global group. Cloning is cheap.
/// In a group of one, every operation of this crate is the identity.
#[derive(Clone, Debug)]
pub struct TensorParallelGroup {
    collective: Arc<dyn Collective>,
}

impl TensorParallelGroup {
    /// The group whose ranks speak through `collective`.
    #[must_use]
    pub fn new(collective: Arc<dyn Collective>) -> Self {
        Self { collective }
    }

    /// The group of one: the model is not split.
    #[must_use]
    pub fn single() -> Self {
        Self::new(group_of_one())
    }

    /// This rank, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// How many ranks the group has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.collective.size()
    }

    /// What the ranks can do together, with errors as results.
    #[must_use]
    pub fn collective(&self) -> &dyn Collective {
        &*self.collective
    }

    /// Whether `is_so` holds on any rank of the group: a decision that all take alike.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    pub fn any(&self, name: &str, is_so: bool) -> Result<bool, CollectiveError> {
        any(self.collective(), name, is_so)
    }

    /// [`Collective::all_reduce`] inside a forward or backward pass.
    ///
    /// # Panics
    ///
    /// When the ranks have come apart: unwinds to [`launch`](super::launch()), which returns the
    /// [`CollectiveError`].
    pub fn all_reduce<'a>(
        &self,
        message: impl Into<Message<'a>>,
        numbers: impl Into<Numbers<'a>>,
        op: ReduceOp,
    ) {
        if let Err(error) = self.collective.all_reduce(message.into(), numbers.into(), op) {
            error.unwind();
        }
    }

    /// [`Collective::all_gather`] inside a forward or backward pass.
    ///
    /// # Panics
    ///
    /// As [`all_reduce`](Self::all_reduce).
    #[must_use]
    pub fn all_gather<'a>(&self, message: impl Into<Message<'a>>, part: &[f32]) -> Vec<f32> {
        match self.collective.all_gather(message.into(), part) {
            Ok(gathered) => gathered,
            Err(error) => error.unwind(),
        }
    }
}

/// The ranks that hold the same part of every copy of the model.
///
/// Their weights are the same bits. Each takes its share of a global batch, and what comes of it is
/// summed over the group before anything is decided by it. Layers know nothing of this group.
#[derive(Clone, Debug)]
pub struct DataParallelGroup {
    collective: Arc<dyn Collective>,
}

impl DataParallelGroup {
    /// The group whose ranks speak through `collective`.
    #[must_use]
    pub fn new(collective: Arc<dyn Collective>) -> Self {
        Self { collective }
    }

    /// The group of one: there is one copy of the model.
    #[must_use]
    pub fn single() -> Self {
        Self::new(group_of_one())
    }

    /// This rank, counted from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// How many ranks the group has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.collective.size()
    }

    /// What the ranks can do together.
    #[must_use]
    pub fn collective(&self) -> &dyn Collective {
        &*self.collective
    }

    /// Which of `count` samples this rank takes: consecutive ones, and each is taken once.
    #[must_use]
    pub fn share(&self, count: u64) -> Range<u64> {
        let taken = share(self.rank(), self.size(), count as usize);
        taken.start as u64..taken.end as u64
    }
}

/// Whether `is_so` holds on any rank behind `collective`.
pub(super) fn any(
    collective: &dyn Collective,
    name: &str,
    is_so: bool,
) -> Result<bool, CollectiveError> {
    let mut flag = [if is_so { 1.0 } else { 0.0 }];
    collective.all_reduce(name.into(), (&mut flag).into(), ReduceOp::Max)?;
    Ok(flag[0] > 0.0)
}

fn group_of_one() -> Arc<dyn Collective> {
    let mut group = ThreadCollective::group(ParallelDims::one_replica(1).places(), Duration::MAX);
    Arc::new(group.remove(0))
}
