//! Rows of a table by token: `y_i = table[token_i]`, 0 where another rank holds the token.
//!
//! Backward: `dtable[token_i] += gradient_i`, in the order of the positions.

use rayon::prelude::*;

use crate::parallel::VocabularyRange;

/// `output`, `[tokens.len(), width]`, from `table`, `[vocabulary.rows, width]`.
pub fn forward(
    table: &[f32],
    tokens: &[usize],
    vocabulary: &VocabularyRange,
    width: usize,
    output: &mut [f32],
) {
    output.par_chunks_mut(width).zip(tokens).for_each(|(output, &token)| {
        match vocabulary.row(token) {
            Some(row) => output.copy_from_slice(&table[row * width..][..width]),
            None => output.fill(0.0),
        }
    });
}

/// Adds the rows of `gradient` to those of `table_gradient`.
pub fn backward(
    gradient: &[f32],
    tokens: &[usize],
    vocabulary: &VocabularyRange,
    width: usize,
    table_gradient: &mut [f32],
) {
    for (gradient, &token) in gradient.chunks_exact(width).zip(tokens) {
        let Some(row) = vocabulary.row(token) else { continue };
        let sums = &mut table_gradient[row * width..][..width];
        for (sum, value) in sums.iter_mut().zip(gradient) {
            *sum += value;
        }
    }
}
