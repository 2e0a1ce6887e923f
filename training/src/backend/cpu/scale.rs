//! A tensor times one number: `x_i ← s x_i`.

use rayon::prelude::*;

use super::vector::{Vector, vectorized};

/// Numbers per task.
const CHUNK: usize = 1 << 16;

/// Multiplies `values` by `factor`.
pub fn scale(vector: Vector, values: &mut [f32], factor: f32) {
    values.par_chunks_mut(CHUNK).for_each(|values| scale_chunk(vector, values, factor));
}

vectorized! {
    fn scale_chunk(values: &mut [f32], factor: f32) {
        for value in values {
            *value *= factor;
        }
    }
}
