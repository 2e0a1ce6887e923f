//! One tensor added to another: `x_i ← x_i + y_i`.

use rayon::prelude::*;

use super::vector::{CHUNK, Vector, add_slice};

/// Adds `addends` to `sums`, of the same length.
///
/// # Panics
///
/// When the lengths differ.
pub fn add(vector: Vector, sums: &mut [f32], addends: &[f32]) {
    assert_eq!(sums.len(), addends.len(), "one addend for each sum");
    let chunks = sums.par_chunks_mut(CHUNK).zip(addends.par_chunks(CHUNK));
    chunks.for_each(|(sums, addends)| add_slice(vector, sums, addends));
}
