//! One rank's place in the grid, and what it decides together with all others.

use std::sync::Arc;
use std::time::Instant;

use super::collective::{CallLog, CollectiveError};
use super::dims::{ParallelDims, RankPlace};
use super::group::{DataParallelGroup, TensorParallelGroup, any};

/// What one of the launched threads knows of its place.
#[derive(Clone, Debug)]
pub struct Rank {
    /// The ranks that share one copy of the model.
    pub tensor_parallel: TensorParallelGroup,
    /// The ranks that hold the same part of every copy.
    pub data_parallel: DataParallelGroup,
    /// What the rank has exchanged in both groups.
    pub calls: Arc<CallLog>,
}

impl Rank {
    /// The only rank of a run that is not split.
    #[must_use]
    pub fn single() -> Self {
        Self {
            tensor_parallel: TensorParallelGroup::single(),
            data_parallel: DataParallelGroup::single(),
            calls: Arc::new(CallLog::new(Instant::now())),
        }
    }

    /// Where this rank stands in the grid.
    #[must_use]
    pub fn place(&self) -> RankPlace {
        RankPlace {
            tensor: self.tensor_parallel.rank(),
            data: self.data_parallel.rank(),
            dims: ParallelDims {
                tensor: self.tensor_parallel.size(),
                data: self.data_parallel.size(),
            },
        }
    }

    /// This rank, counted from 0 over the whole grid.
    #[must_use]
    pub fn index(&self) -> usize {
        self.place().rank()
    }

    /// Whether this is the rank that writes what is written once.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.index() == 0
    }

    /// Whether `is_so` holds on any rank of the grid: a decision that all take alike.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    pub fn any(&self, name: &str, is_so: bool) -> Result<bool, CollectiveError> {
        let on_this_copy = self.tensor_parallel.any(name, is_so)?;
        any(self.data_parallel.collective(), name, on_this_copy)
    }

    /// [`any`](Self::any) behind work whose time has no bound, such as that on files: waits until
    /// every rank of the grid has come here.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    pub fn any_at_last(&self, name: &str, is_so: bool) -> Result<bool, CollectiveError> {
        self.tensor_parallel.collective().barrier(name)?;
        self.data_parallel.collective().barrier(name)?;
        self.any(name, is_so)
    }
}
