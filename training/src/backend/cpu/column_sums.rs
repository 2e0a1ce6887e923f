//! Sums over rows, in an order that does not depend on the threads.
//!
//! The gradient of a bias or a gain adds up all rows. Threads sum blocks of a fixed number of
//! rows, and the blocks' sums are added in their order, so that replicated parameters get
//! bit-identical gradients on every rank and in every run.

use rayon::prelude::*;

use super::vector::{Vector, vectorized};

/// How many rows one task takes: the same for any number of threads.
pub(crate) const ROWS_PER_BLOCK: usize = 64;

/// The sums of the columns of `values`, `[rows, width]`.
#[must_use]
pub(crate) fn column_sums(vector: Vector, values: &[f32], width: usize) -> Vec<f32> {
    let partials: Vec<Vec<f32>> = values
        .par_chunks(ROWS_PER_BLOCK * width)
        .map(|block| {
            let mut sums = vec![0.0; width];
            add_rows(vector, block, &mut sums);
            sums
        })
        .collect();
    add_up(&partials, width)
}

/// The sum of the blocks' sums, in their order.
pub(crate) fn add_up(partials: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for partial in partials {
        for (total, value) in total.iter_mut().zip(partial) {
            *total += value;
        }
    }
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
