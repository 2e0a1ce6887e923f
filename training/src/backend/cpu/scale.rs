//! A tensor times one number: `x_i ← s x_i`.

use rayon::prelude::*;

use super::vector::{CHUNK, Vector, scale_slice};

/// Multiplies `values` by `factor`.
pub fn scale(vector: Vector, values: &mut [f32], factor: f32) {
    values.par_chunks_mut(CHUNK).for_each(|values| scale_slice(vector, values, factor));
}
