//! Sums over rows, in an order that does not depend on the threads.
//!
//! The gradient of a bias or a gain adds up all rows. Threads sum blocks of a fixed number of
//! rows, and the blocks' sums are added in their order, so that replicated parameters get
//! bit-identical gradients on every rank and in every run.

use rayon::prelude::*;

use super::buffers::{self, Buffer};
use super::vector::{Vector, add_slice, vectorized};

/// How many rows one task takes: the same for any number of threads.
pub(crate) const ROWS_PER_BLOCK: usize = 64;

/// The sums of the columns of `values`, `[rows, width]`.
#[must_use]
pub fn column_sums(vector: Vector, values: &[f32], width: usize) -> Buffer {
    let blocks = values.par_chunks(ROWS_PER_BLOCK * width);
    let mut partials = buffers::take(blocks.len() * width);
    blocks.zip(partials.par_chunks_mut(width)).for_each(|(block, sums)| {
        sums.fill(0.0);
        add_rows(vector, block, sums);
    });
    add_up(vector, partials.chunks_exact(width), width)
}

/// The sum of the blocks' sums, each of `width` numbers, in their order.
pub(crate) fn add_up<'a>(
    vector: Vector,
    partials: impl Iterator<Item = &'a [f32]>,
    width: usize,
) -> Buffer {
    let mut total = buffers::zeroed(width);
    partials.for_each(|partial| add_slice(vector, &mut total, partial));
    total
}

vectorized! {
    fn add_rows(values: &[f32], sums: &mut [f32]) {
        for row in values.chunks_exact(sums.len()) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}
