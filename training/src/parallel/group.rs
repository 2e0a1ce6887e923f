//! A tensor-parallel group as one rank sees it.

use std::sync::Arc;
use std::time::Duration;

use super::collective::{Collective, ReduceOp, ThreadCollective};

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
        let mut group = ThreadCollective::group(1, Duration::MAX);
        Self::new(Arc::new(group.remove(0)))
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

    /// [`Collective::all_reduce`] inside a forward or backward pass.
    ///
    /// # Panics
    ///
    /// When the ranks have come apart: unwinds to [`launch`](super::launch()), which returns the
    /// [`CollectiveError`](super::collective::CollectiveError).
    pub fn all_reduce(&self, name: &str, buffer: &mut [f32], op: ReduceOp) {
        if let Err(error) = self.collective.all_reduce(name, buffer, op) {
            error.unwind();
        }
    }

    /// [`Collective::all_gather`] inside a forward or backward pass.
    ///
    /// # Panics
    ///
    /// As [`all_reduce`](Self::all_reduce).
    #[must_use]
    pub fn all_gather(&self, name: &str, part: &[f32]) -> Vec<f32> {
        match self.collective.all_gather(name, part) {
            Ok(gathered) => gathered,
            Err(error) => error.unwind(),
        }
    }
}
