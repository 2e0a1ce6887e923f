//! Matrix products in which a row's result does not depend on how many rows there are.
//!
//! Text that is generated must not depend on how many rows are generated together, so one row alone
//! has to come out in the same bits as the same row among others. Here every number of the output is
//! one chain of multiply-adds over the inner dimension, first to last, however rows and columns are
//! shared out to caches and threads; or, for a transposed right side, one product of two rows, taken
//! by lanes.
//!
//! The products of [`matrix`](super::matrix) sum in an order that rows do not change either, but
//! they copy the right side into panels first. That pays where many rows share it; with the few
//! rows of generation each weight is used a few times, and here is read where it lies.

use rayon::prelude::*;

use super::vector::{Vector, dot, fma, vectorized};

/// Columns that a task takes at least: rows of a weight are read in runs of so many numbers.
const FEWEST_COLUMNS: usize = 128;
/// Columns that a task takes at most: so many of [`DEPTH`] rows fit into the first cache.
const MOST_COLUMNS: usize = 512;
/// Rows of the right side that are added at a time.
const DEPTH: usize = 8;
/// Multiply-adds below which threads cost more than they save.
const FEWEST_FOR_THREADS: usize = 1 << 15;

/// `left` `[rows, k]` times `right` `[k, n]`, where neither `k` nor `n` is 0: `[rows, n]`.
///
/// # Panics
///
/// When `left` or `right` is no whole number of rows, or they disagree on `k`.
#[must_use]
pub fn multiply(vector: Vector, left: &[f32], right: &[f32], k: usize, n: usize) -> Vec<f32> {
    assert_eq!(right.len(), k * n, "a right side of {k} rows of {n}");
    by_columns(left, k, n, |left, first, count, output| {
        let right = &right[first..];
        if left.len() == k {
            add_rows(vector, left, right, n, output);
            return;
        }
        for depth in (0..k).step_by(DEPTH) {
            let end = k.min(depth + DEPTH);
            let right = &right[depth * n..];
            for (left, output) in left.chunks_exact(k).zip(output.chunks_exact_mut(count)) {
                add_rows(vector, &left[depth..end], right, n, output);
            }
        }
    })
}

/// `left` `[rows, k]` times the transpose of `right` `[n, k]`: `[rows, n]`.
///
/// # Panics
///
/// As [`multiply`].
#[must_use]
pub fn multiply_transposed(
    vector: Vector,
    left: &[f32],
    right: &[f32],
    k: usize,
    n: usize,
) -> Vec<f32> {
    assert_eq!(right.len(), k * n, "a right side of {n} rows of {k}");
    by_columns(left, k, n, |left, first, count, output| {
        dot_rows(vector, left, &right[first * k..(first + count) * k], k, output);
    })
}

/// Makes a product `[rows, n]` column block by column block: `product` gets the left side, the
/// block's first column and their number, and fills `[rows, number]`, which is 0 before.
fn by_columns(
    left: &[f32],
    k: usize,
    n: usize,
    product: impl Fn(&[f32], usize, usize, &mut [f32]) + Sync,
) -> Vec<f32> {
    assert!(left.len().is_multiple_of(k), "whole rows of {k}");
    let rows = left.len() / k;
    let mut output = vec![0.0; rows * n];
    // Some blocks for each thread, so that one that is late holds up little.
    let columns = n.div_ceil(4 * rayon::current_num_threads()).next_multiple_of(16);
    let columns = columns.clamp(FEWEST_COLUMNS, MOST_COLUMNS);
    if rows * k * n < FEWEST_FOR_THREADS {
        product(left, 0, n, &mut output);
    } else if rows == 1 {
        let blocks = output.par_chunks_mut(columns).enumerate();
        blocks.for_each(|(block, output)| {
            product(left, block * columns, output.len(), output);
        });
    } else {
        let blocks: Vec<Vec<f32>> = (0..n.div_ceil(columns))
            .into_par_iter()
            .map(|block| {
                let count = columns.min(n - block * columns);
                let mut part = vec![0.0; rows * count];
                product(left, block * columns, count, &mut part);
                part
            })
            .collect();
        for (row, output) in output.chunks_exact_mut(n).enumerate() {
            for (output, part) in output.chunks_mut(columns).zip(&blocks) {
                output.copy_from_slice(&part[row * output.len()..][..output.len()]);
            }
        }
    }
    output
}

vectorized! {
    /// Adds to `output` the rows of `right`, `stride` apart and cut to the width of `output`, each
    /// times its number in `left`: one multiply-add after the other.
    pub(super) fn add_rows(left: &[f32], right: &[f32], stride: usize, output: &mut [f32]) {
        let width = output.len();
        let (chunks, rest) = left.as_chunks::<DEPTH>();
        for (chunk, x) in chunks.iter().enumerate() {
            let row = |i: usize| &right[(chunk * DEPTH + i) * stride..][..width];
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (r4, r5, r6, r7) = (row(4), row(5), row(6), row(7));
            for j in 0..width {
                let mut sum = output[j];
                sum = fma::<FMA>(x[0], r0[j], sum);
                sum = fma::<FMA>(x[1], r1[j], sum);
                sum = fma::<FMA>(x[2], r2[j], sum);
                sum = fma::<FMA>(x[3], r3[j], sum);
                sum = fma::<FMA>(x[4], r4[j], sum);
                sum = fma::<FMA>(x[5], r5[j], sum);
                sum = fma::<FMA>(x[6], r6[j], sum);
                sum = fma::<FMA>(x[7], r7[j], sum);
                output[j] = sum;
            }
        }
        let done = left.len() - rest.len();
        for (i, &x) in rest.iter().enumerate() {
            let row = &right[(done + i) * stride..][..width];
            for (output, &value) in output.iter_mut().zip(row) {
                *output = fma::<FMA>(x, value, *output);
            }
        }
    }
}

vectorized! {
    /// `output` `[rows, n]`, the products of the rows of `left` with those of `right`.
    fn dot_rows(left: &[f32], right: &[f32], k: usize, output: &mut [f32]) {
        let n = right.len() / k;
        for (column, right) in right.chunks_exact(k).enumerate() {
            for (row, left) in left.chunks_exact(k).enumerate() {
                output[row * n + column] = dot::<FMA>(left, right);
            }
        }
    }
}
