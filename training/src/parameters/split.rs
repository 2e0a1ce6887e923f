//! Which numbers of a parameter each tensor-parallel rank holds.
//!
//! A split is told as runs of consecutive numbers: (where in the whole, where in the rank's part,
//! how many). Slicing, drawing initial values, saving and loading all walk the same runs.

use std::ops::Range;

/// Rows of the vocabulary come in multiples of this per rank, for fast matrix products (section
/// 5.1 of the paper).
const VOCABULARY_ROWS_MULTIPLE: usize = 128;

/// How the ranks of a tensor-parallel group share a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Every rank holds the whole.
    Replicated,
    /// One dimension is cut into equal parts, one for each rank.
    Dim {
        /// The dimension that is cut.
        dim: usize,
        /// Into how many equal blocks the dimension falls first, each of which is cut on its own:
        /// 3 for the query, key and value columns that stand side by side, otherwise 1.
        blocks: usize,
    },
    /// Dimension 0 is the vocabulary: padded to [`padded_vocab_size`] rows, then cut.
    Vocabulary,
}

/// A run of consecutive numbers of a parameter that one rank holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where it starts in the whole parameter, in numbers.
    pub logical_offset: usize,
    /// Where it starts in the rank's part, in numbers.
    pub local_offset: usize,
    /// How many numbers.
    pub len: usize,
}

impl Run {
    /// Its place in the whole parameter.
    #[must_use]
    pub fn logical_range(&self) -> Range<usize> {
        self.logical_offset..self.logical_offset + self.len
    }

    /// Its place in the rank's part.
    #[must_use]
    pub fn local_range(&self) -> Range<usize> {
        self.local_offset..self.local_offset + self.len
    }
}

/// The vocabulary rounded up, so that each of `ranks` holds a multiple of 128 rows.
///
/// 50,257 becomes 50,304 on one rank and 51,200 on eight.
#[must_use]
pub fn padded_vocab_size(vocab_size: usize, ranks: usize) -> usize {
    vocab_size.next_multiple_of(VOCABULARY_ROWS_MULTIPLE * ranks)
}

impl Split {
    pub(super) fn local_shape(self, shape: &[usize], rank: usize, size: usize) -> Vec<usize> {
        assert!(rank < size, "rank {rank} of {size}");
        let mut local = shape.to_vec();
        match self {
            Split::Replicated => {}
            Split::Dim { dim, blocks } => {
                assert!(
                    shape[dim].is_multiple_of(blocks * size),
                    "dimension {dim} of {shape:?} in {blocks} blocks does not split over {size}"
                );
                local[dim] = shape[dim] / size;
            }
            Split::Vocabulary => local[0] = padded_vocab_size(shape[0], size) / size,
        }
        local
    }

    pub(super) fn local_runs(
        self,
        shape: &[usize],
        rank: usize,
        size: usize,
    ) -> impl Iterator<Item = Run> + use<> {
        // Every split is `count` runs of `len` numbers at equal distances; see `Runs`.
        let local: usize = self.local_shape(shape, rank, size).iter().product();
        let runs = match self {
            Split::Replicated => Runs { count: 1, len: local, first: 0, stride: 0 },
            Split::Dim { dim, blocks } => {
                let outer: usize = shape[..dim].iter().product();
                let inner: usize = shape[dim + 1..].iter().product();
                let block = shape[dim] / blocks * inner;
                let part = block / size;
                Runs { count: outer * blocks, len: part, first: rank * part, stride: block }
            }
            Split::Vocabulary => {
                let row: usize = shape[1..].iter().product();
                let rows = padded_vocab_size(shape[0], size) / size;
                let first = (rank * rows).min(shape[0]);
                let end = (first + rows).min(shape[0]);
                Runs { count: 1, len: (end - first) * row, first: first * row, stride: 0 }
            }
        };
        (0..runs.count).filter(move |_| runs.len > 0).map(move |index| Run {
            logical_offset: runs.first + index * runs.stride,
            local_offset: index * runs.len,
            len: runs.len,
        })
    }
}

/// `count` runs of `len` numbers; run `i` starts at `first + i·stride` in the whole.
struct Runs {
    count: usize,
    len: usize,
    first: usize,
    stride: usize,
}
