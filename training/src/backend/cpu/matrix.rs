//! Matrix products on slices, through the `gemm` crate.

use gemm::Parallelism;

/// A matrix that borrows its numbers, by rows or transposed.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
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

/// What happens to the numbers that a product is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// They are replaced.
    Replace,
    /// The product is added to them.
    Add,
}

/// `output` = `left · right`, or with [`Write::Add`] plus what it held; `output` is stored by rows.
///
/// The result does not depend on the number of threads: each number of it is summed by one.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply(left: Matrix<'_>, right: Matrix<'_>, output: &mut [f32], write: Write) {
    let (m, k, n) = (left.rows, left.columns, right.columns);
    assert_eq!(k, right.rows, "inner dimensions");
    assert_eq!(output.len(), m * n, "output of {m} × {n}");
    // SAFETY: `Matrix::new` and the assertions above make every index that the strides reach lie
    // within the slices, and `output` is borrowed alone.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            output.as_mut_ptr(),
            1,
            n as isize,
            write == Write::Add,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::Rayon(0),
        );
    }
}
