//! Numbers that are asked for before they are read.
//!
//! Packing reads its operand from far away, where a cache line takes as long as hundreds of
//! multiply-adds. So the block that is packed next is fetched into the second cache while the tiles
//! of this one are multiplied, a share with each tile.

use super::super::matrix::Matrix;

/// Numbers of a cache line.
pub(super) const CACHE_LINE: usize = 64 / size_of::<f32>();

/// What is left to fetch of a block.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    /// The block, its rows each in one piece of memory.
    pieces: Matrix<'a>,
    /// The first piece that is not fetched yet.
    next: usize,
    /// Pieces to fetch with each tile.
    share: usize,
}

impl<'a> Ahead<'a> {
    /// Fetches `block`, if there is one, in the course of `tiles` tiles.
    pub(super) fn new(block: Option<Matrix<'a>>, tiles: usize) -> Self {
        let block = block.unwrap_or(Matrix::strided(&[], 0, 0, 0));
        let pieces = if block.column_stride == 1 { block } else { block.transposed() };
        Self { pieces, next: 0, share: pieces.rows.div_ceil(tiles) }
    }

    /// Fetches the share of one tile.
    pub(super) fn fetch(&mut self) {
        let end = self.pieces.rows.min(self.next + self.share);
        for piece in self.next..end {
            let start = piece * self.pieces.row_stride;
            for number in (start..start + self.pieces.columns).step_by(CACHE_LINE) {
                prefetch(self.pieces.values, number);
            }
        }
        self.next = end;
    }
}

/// Asks for a number to come into the second cache.
#[inline(always)]
pub(super) fn prefetch(values: &[f32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing: an address that is not there is passed over.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().wrapping_add(index).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}
