//! The left side of a tile: a packed panel, or rows as they lie in memory.
//!
//! A kernel reads one number after the other of the left operand, so rows that are each in one
//! piece serve as well as a panel of copies, but for strides of a multiple of 4 KiB: the rows of a
//! tile would push each other out of the first cache.

use super::super::matrix::Matrix;

/// Numbers of 4 KiB.
const PAGE: usize = 4096 / size_of::<f32>();

/// The numbers of a tile's rows along the depth.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left<'a> {
    /// As they were packed.
    Panel(&'a [f32]),
    /// By rows.
    Rows(Matrix<'a>),
}

/// Whether a kernel may read the rows of `left` where they lie.
pub(super) fn is_readable_in_place(left: Matrix<'_>) -> bool {
    left.column_stride == 1 && !left.row_stride.is_multiple_of(PAGE)
}

/// The left numbers of a tile of known height.
pub(super) trait Rows: Copy {
    /// Depth of all rows.
    fn depth(self) -> usize;

    /// The number of a row at a depth.
    ///
    /// # Safety
    ///
    /// `depth` must be less than [`Rows::depth`].
    unsafe fn get(self, row: usize, depth: usize) -> f32;
}

/// [`Left::Panel`], of `W` lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed<'a, const W: usize>(&'a [[f32; W]]);

impl<'a, const W: usize> Packed<'a, W> {
    /// Has `depth` depths, and `W` rows.
    pub(super) fn new(panel: &'a [f32], depth: usize) -> Self {
        Self(&panel.as_chunks().0[..depth])
    }
}

impl<const W: usize> Rows for Packed<'_, W> {
    #[inline(always)]
    fn depth(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    unsafe fn get(self, row: usize, depth: usize) -> f32 {
        // SAFETY: the slice is as long as `depth` says, and the caller stays below.
        unsafe { self.0.get_unchecked(depth)[row] }
    }
}

/// [`Left::Rows`], of `R` rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct InPlace<'a, const R: usize> {
    /// Each row has this depth.
    rows: [&'a [f32]; R],
    depth: usize,
}

impl<'a, const R: usize> InPlace<'a, R> {
    /// Has `depth` depths, and `R` rows.
    pub(super) fn new(matrix: Matrix<'a>, depth: usize) -> Self {
        assert!(matrix.column_stride == 1, "rows that are each in one piece");
        let row = |row| &matrix.values[row * matrix.row_stride..][..depth];
        Self { rows: std::array::from_fn(row), depth }
    }
}

impl<const R: usize> Rows for InPlace<'_, R> {
    #[inline(always)]
    fn depth(self) -> usize {
        self.depth
    }

    #[inline(always)]
    unsafe fn get(self, row: usize, depth: usize) -> f32 {
        // SAFETY: `new` made each slice as long as `depth` says, and the caller stays below.
        unsafe { *self.rows[row].get_unchecked(depth) }
    }
}
