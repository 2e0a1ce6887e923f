//! Softmax over the keys at or before each query: `p_k = e^(scale·(x_k - max)) / Σ`, 0 after it.
//!
//! Backward: `dx_k = scale · p_k · (g_k - Σ_j p_j g_j)`, where `g` is the gradient of the
//! probabilities, times the dropout mask if there is one. The scores of later keys are never read.

use rayon::prelude::*;

use super::dropout::multiply_by_mask;
use super::vector::{Vector, dot, exp_and_sum, max, vectorized};
use crate::parallel::random::DropoutMask;

/// `scores`, any number of `[seq, seq]` matrices, become probabilities.
pub fn forward(vector: Vector, scores: &mut [f32], seq: usize, scale: f32) {
    scores.par_chunks_mut(seq * seq).for_each(|scores| {
        for (query, row) in scores.chunks_exact_mut(seq).enumerate() {
            let (row, later) = row.split_at_mut(query + 1);
            softmax(vector, row, scale);
            later.fill(0.0);
        }
    });
}

/// `gradient`, of the probabilities after dropout, becomes that of the scores.
pub fn backward(
    vector: Vector,
    probabilities: &[f32],
    shape: AttentionShape,
    scale: f32,
    mask: Option<&DropoutMask>,
    gradient: &mut [f32],
) {
    let AttentionShape { heads, seq } = shape;
    let matrices = probabilities.par_chunks(seq * seq).zip(gradient.par_chunks_mut(seq * seq));
    matrices.enumerate().for_each(|(matrix, (probabilities, gradient))| {
        let rows = probabilities.chunks_exact(seq).zip(gradient.chunks_exact_mut(seq));
        for (query, (probabilities, gradient)) in rows.enumerate() {
            let (gradient, later) = gradient.split_at_mut(query + 1);
            if let Some(mask) = mask {
                let (sample, head) = (matrix / heads, matrix % heads);
                multiply_by_mask(vector, mask, sample, head, query * seq, gradient);
            }
            softmax_backward(vector, &probabilities[..=query], scale, gradient);
            later.fill(0.0);
        }
    });
}

/// Dropout of `probabilities` by `mask`, in place.
pub fn dropout(
    vector: Vector,
    probabilities: &mut [f32],
    shape: AttentionShape,
    mask: &DropoutMask,
) {
    let AttentionShape { heads, seq } = shape;
    probabilities.par_chunks_mut(seq * seq).enumerate().for_each(|(matrix, probabilities)| {
        let (sample, head) = (matrix / heads, matrix % heads);
        for (query, row) in probabilities.chunks_exact_mut(seq).enumerate() {
            multiply_by_mask(vector, mask, sample, head, query * seq, &mut row[..=query]);
        }
    });
}

/// The inner dimensions of attention probabilities `[batch, heads, seq, seq]`.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Heads that this rank holds.
    pub heads: usize,
    /// Queries, and keys.
    pub seq: usize,
}

vectorized! {
    pub(super) fn softmax(row: &mut [f32], scale: f32) {
        let largest = max(row);
        let factor = 1.0 / exp_and_sum::<FMA>(row, largest, scale);
        for value in row {
            *value *= factor;
        }
    }
}

vectorized! {
    fn softmax_backward(probabilities: &[f32], scale: f32, gradient: &mut [f32]) {
        let mean = dot::<FMA>(probabilities, gradient);
        for (gradient, probability) in gradient.iter_mut().zip(probabilities) {
            *gradient = scale * probability * (*gradient - mean);
        }
    }
}
