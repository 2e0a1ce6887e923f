//! One tensor added to another: `x_i ← x_i + y_i`.

use rayon::prelude::*;

use super::vector::{Vector, vectorized};

/// Numbers per task.
const CHUNK: usize = 1 << 16;

/// Adds `addends` to `sums`, of the same length.
///
/// # Panics
///
/// When the lengths differ.
pub fn add(vector: Vector, sums: &mut [f32], addends: &[f32]) {
    assert_eq!(sums.len(), addends.len(), "one addend for each sum");
    let chunks = sums.par_chunks_mut(CHUNK).zip(addends.par_chunks(CHUNK));
    chunks.for_each(|(sums, addends)| add_chunk(vector, sums, addends));
}

vectorized! {
    fn add_chunk(sums: &mut [f32], addends: &[f32]) {
        for (sum, addend) in sums.iter_mut().zip(addends) {
            *sum += addend;
        }
    }
}
