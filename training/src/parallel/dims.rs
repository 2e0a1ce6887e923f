//! The grid of ranks: how many share a model, and how many copies of it train side by side.

use std::fmt;

/// The sizes of the grid of ranks.
///
/// Ranks are counted with the tensor-parallel place running fastest, so that those who exchange
/// most are neighbors: with `tensor = 2` and `data = 2`, ranks 0 and 1 are the first copy of the
/// model, ranks 2 and 3 the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelDims {
    /// Ranks that share the layers of one copy of the model.
    pub tensor: usize,
    /// Copies of the model, each of which takes a part of every global batch.
    pub data: usize,
}

impl ParallelDims {
    /// One copy of the model, shared by `tensor` ranks.
    #[must_use]
    pub fn one_replica(tensor: usize) -> Self {
        Self { tensor, data: 1 }
    }

    /// Ranks of the whole grid.
    #[must_use]
    pub fn num_ranks(self) -> usize {
        self.tensor * self.data
    }

    /// The places of the grid, in the order of the ranks.
    pub fn places(self) -> impl Iterator<Item = RankPlace> {
        (0..self.num_ranks()).map(move |rank| RankPlace {
            tensor: rank % self.tensor,
            data: rank / self.tensor,
            dims: self,
        })
    }
}

/// A rank's place in the grid, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPlace {
    /// Place among the ranks of its copy of the model.
    pub tensor: usize,
    /// Which copy of the model.
    pub data: usize,
    /// The grid.
    pub dims: ParallelDims,
}

impl RankPlace {
    /// The rank, counted from 0 over the whole grid.
    #[must_use]
    pub fn rank(self) -> usize {
        self.data * self.dims.tensor + self.tensor
    }
}

/// `rank 3 (tensor 1 of 2, data 1 of 2)`, counted from 0; just `rank 3` where one of the sizes is
/// 1.
impl fmt::Display for RankPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, data, dims } = self;
        write!(f, "rank {}", self.rank())?;
        if dims.tensor > 1 && dims.data > 1 {
            write!(f, " (tensor {tensor} of {}, data {data} of {})", dims.tensor, dims.data)?;
        }
        Ok(())
    }
}
