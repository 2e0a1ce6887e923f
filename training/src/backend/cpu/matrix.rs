//! Matrix products on slices, through the `gemm` crate.

use gemm::Parallelism;

/// A matrix that borrows its numbers, by rows, transposed, or as a part of a wider one.
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
#[derive(Debug)]
pub struct MatrixMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

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
        Self { values, rows, columns, row_stride: columns }
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
        Self { values, rows, columns, row_stride }
    }
}

/// Whether `len` numbers hold `rows` rows of `columns`, each `row_stride` after the one before.
fn holds_rows(len: usize, rows: usize, columns: usize, row_stride: usize) -> bool {
    rows == 0 || (rows - 1) * row_stride + columns <= len
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

/// `output` = `left · right`, or what [`Write`] says; `output` is stored by rows. All threads of
/// the pool share the work.
///
/// The result does not depend on the number of threads: each number of it is summed by one.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply(left: Matrix<'_>, right: Matrix<'_>, output: &mut [f32], write: Write<'_>) {
    assert_eq!(output.len(), left.rows * right.columns, "output of all rows and columns");
    let output = MatrixMut::strided(output, left.rows, right.columns, right.columns);
    multiply_with(left, right, output, write, Parallelism::Rayon(0));
}

/// [`multiply`] on the thread that calls it alone, for one of many products.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply_here(left: Matrix<'_>, right: Matrix<'_>, output: MatrixMut<'_>, write: Write<'_>) {
    multiply_with(left, right, output, write, Parallelism::None);
}

fn multiply_with(
    left: Matrix<'_>,
    right: Matrix<'_>,
    output: MatrixMut<'_>,
    write: Write<'_>,
    parallelism: Parallelism,
) {
    let (m, k, n) = (left.rows, left.columns, right.columns);
    assert_eq!(k, right.rows, "inner dimensions");
    assert_eq!([output.rows, output.columns], [m, n], "output of {m} × {n}");
    if let Write::Bias(bias) = write {
        assert_eq!(bias.len(), n, "a bias for each column");
        for row in output.values.chunks_mut(output.row_stride.max(1)).take(m) {
            row[..n].copy_from_slice(bias);
        }
    }
    // SAFETY: the constructors of `Matrix` and `MatrixMut` and the assertions above make every
    // index that the strides reach lie within the slices, and `output` is borrowed alone.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            output.values.as_mut_ptr(),
            1,
            output.row_stride as isize,
            write != Write::Replace,
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
            parallelism,
        );
    }
}
