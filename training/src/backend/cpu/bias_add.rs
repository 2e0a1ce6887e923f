//! A bias added to every row.

use rayon::prelude::*;

use super::column_sums::ROWS_PER_BLOCK;
use super::vector::{Vector, vectorized};

/// `values` `[rows, bias.len()]` plus `bias`, in place.
pub fn forward(vector: Vector, values: &mut [f32], bias: &[f32]) {
    let block = ROWS_PER_BLOCK * bias.len();
    values.par_chunks_mut(block).for_each(|values| add_to_rows(vector, values, bias));
}

vectorized! {
    fn add_to_rows(values: &mut [f32], bias: &[f32]) {
        for row in values.chunks_exact_mut(bias.len()) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value += bias;
            }
        }
    }
}
