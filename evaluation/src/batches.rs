//! Windows in batches of similar length.
//!
//! A batch is as long as its longest window, and what fills up the shorter ones is computed for
//! nothing. So windows are batched in the order of their lengths, longest first: a batch that does
//! not fit into memory then fails at once. Results go back to the order in which the windows were
//! given, so neither the batch size nor this order shows in a sum.

use std::cmp::Reverse;
use std::num::NonZeroUsize;

use training::inference::Window;

/// Windows, and the batches in which they go through the model.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    windows: &'a [Window<'a>],
    /// Indices of the windows, longest first.
    order: Vec<usize>,
    batch_size: usize,
}

/// Windows that go through the model together.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    /// Where they stand among all windows.
    pub indices: &'a [usize],
    /// The windows.
    pub windows: Vec<Window<'a>>,
}

impl<'a> AsRef<[Window<'a>]> for Batch<'a> {
    fn as_ref(&self) -> &[Window<'a>] {
        &self.windows
    }
}

impl<'a> Batches<'a> {
    /// Batches of at most `batch_size` of `windows`.
    #[must_use]
    pub fn new(windows: &'a [Window<'a>], batch_size: NonZeroUsize) -> Self {
        Self::of_some(windows, (0..windows.len()).collect(), batch_size)
    }

    /// Batches of at most `batch_size` of those of `windows` that stand at the places `order`.
    ///
    /// # Panics
    ///
    /// When there is no window at one of the places.
    #[must_use]
    pub fn of_some(
        windows: &'a [Window<'a>],
        mut order: Vec<usize>,
        batch_size: NonZeroUsize,
    ) -> Self {
        order.sort_by_key(|&index| Reverse(windows[index].scored.end));
        Self { windows, order, batch_size: batch_size.get() }
    }

    /// The batches, those with the longest windows first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Batch<'_>> {
        self.order.chunks(self.batch_size).map(|indices| Batch {
            indices,
            windows: indices.iter().map(|&index| self.windows[index].clone()).collect(),
        })
    }

    /// Positions that the model computes, padding included.
    #[must_use]
    pub fn token_positions(&self) -> usize {
        self.iter().map(|batch| batch.windows.len() * batch.windows[0].scored.end).sum()
    }
}
