//! Matrices on slices, and their products.

use std::marker::PhantomData;
use std::ops::Range;

use super::gemm;
use super::vector::Vector;

/// A matrix that borrows its numbers, by rows, transposed, or as a part of a wider one.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `values` as rows of `columns` numbers.
    ///
    /// # Panics
    ///
    /// When `values` is no whole number of rows.
    #[must_use]
    pub fn new(values: &'a [f32], columns: usize) -> Self {
        assert!(values.len().is_multiple_of(columns), "whole rows of {columns}");
        let rows = values.len() / columns;
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// `rows` rows of `columns` numbers, of which each begins `row_stride` after the one before;
    /// the first begins with `values`.
    ///
    /// # Panics
    ///
    /// When the last row does not lie within `values`.
    #[must_use]
    pub fn strided(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert!(holds_rows(values.len(), rows, columns, row_stride), "{rows} rows of {columns}");
        Self { values, rows, columns, row_stride, column_stride: 1 }
    }

    /// A part of it.
    ///
    /// # Panics
    ///
    /// When the part goes over the edge.
    #[must_use]
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?}");
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns {columns:?}");
        let first = rows.start * self.row_stride + columns.start * self.column_stride;
        let values = self.values.get(first..).unwrap_or_default();
        Self { values, rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The same numbers with rows and columns swapped.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// A matrix to write to, by rows, which may be a part of a wider one.
///
/// It is a borrow of `rows` pieces of `columns` numbers, so that parts of the same rows can be
/// written by different threads.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    /// Where the first row begins; only its rows' numbers may be touched.
    first: *mut f32,
    rows: usize,
    columns: usize,
    row_stride: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is a `&mut [f32]`, less what lies between its rows.
unsafe impl Send for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// `values` as rows of `columns` numbers.
    ///
    /// # Panics
    ///
    /// When `values` is no whole number of rows.
    #[must_use]
    pub fn new(values: &'a mut [f32], columns: usize) -> Self {
        assert!(values.len().is_multiple_of(columns), "whole rows of {columns}");
        let rows = values.len() / columns;
        Self::strided(values, rows, columns, columns)
    }

    /// `rows` rows of `columns` numbers, of which each begins `row_stride` after the one before;
    /// the first begins with `values`.
    ///
    /// # Panics
    ///
    /// When the last row does not lie within `values`, or rows overlap.
    #[must_use]
    pub fn strided(values: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert!(holds_rows(values.len(), rows, columns, row_stride), "{rows} rows of {columns}");
        assert!(rows <= 1 || columns <= row_stride, "rows that do not overlap");
        Self { first: values.as_mut_ptr(), rows, columns, row_stride, borrow: PhantomData }
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The numbers of a row.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    #[inline]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the constructors checked that all rows lie within what is borrowed, for as long
        // as `self` lives; no other `MatrixMut` has these numbers, and `self` gives out one row
        // at a time.
        unsafe {
            std::slice::from_raw_parts_mut(self.first.add(row * self.row_stride), self.columns)
        }
    }

    /// The first `at` rows, and the others.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[must_use]
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        assert!(at <= self.rows, "{at} of {} rows", self.rows);
        let second = self.first.wrapping_add(at * self.row_stride);
        (Self { rows: at, ..self }, Self { first: second, rows: self.rows - at, ..self })
    }

    /// The first `at` columns, and the others.
    ///
    /// # Panics
    ///
    /// When there are fewer.
    #[must_use]
    pub fn split_columns(self, at: usize) -> (Self, Self) {
        assert!(at <= self.columns, "{at} of {} columns", self.columns);
        let second = self.first.wrapping_add(at);
        (Self { columns: at, ..self }, Self { first: second, columns: self.columns - at, ..self })
    }

    /// A part of it, for as long as it is not used otherwise.
    ///
    /// # Panics
    ///
    /// When the part goes over the edge.
    #[inline]
    pub fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> MatrixMut<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?}");
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns {columns:?}");
        let first = self.first.wrapping_add(rows.start * self.row_stride + columns.start);
        MatrixMut { first, rows: rows.len(), columns: columns.len(), ..*self }
    }
}

/// Whether `len` numbers hold `rows` rows of `columns`, each `row_stride` after the one before.
fn holds_rows(len: usize, rows: usize, columns: usize, row_stride: usize) -> bool {
    let end = rows.saturating_sub(1).checked_mul(row_stride).and_then(|n| n.checked_add(columns));
    rows == 0 || end.is_some_and(|end| end <= len)
}

/// What happens to the numbers that a product is written to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Write<'a> {
    /// They are replaced.
    Replace,
    /// The product is added to them.
    Add,
    /// They are replaced by the product plus this row, which every row gets.
    Bias(&'a [f32]),
}

impl Write<'_> {
    /// The same for some of the columns.
    pub(super) fn columns(self, columns: &Range<usize>) -> Self {
        match self {
            Self::Bias(bias) => Self::Bias(&bias[columns.clone()]),
            other => other,
        }
    }
}

/// `output` = `left · right`, or what [`Write`] says; `output` is stored by rows. All threads of
/// the pool share the work.
///
/// The result does not depend on the number of threads: each number of it is summed by one, in the
/// order that [`gemm`] says.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply(left: Matrix<'_>, right: Matrix<'_>, output: &mut [f32], write: Write<'_>) {
    assert_eq!(output.len(), left.rows * right.columns, "output of all rows and columns");
    let output = MatrixMut::strided(output, left.rows, right.columns, right.columns);
    gemm::multiply(Vector::best(), left, right, output, write);
}

/// [`multiply`] on the thread that calls it alone, for one of many products.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply_here(left: Matrix<'_>, right: Matrix<'_>, output: MatrixMut<'_>, write: Write<'_>) {
    gemm::multiply_here(Vector::best(), left, right, output, write);
}
