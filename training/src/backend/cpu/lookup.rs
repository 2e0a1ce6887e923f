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
///
/// Each task looks for the tokens of its own rows of the table: most rows have none, and what a row
/// gets is added in the same order by any number of threads.
pub fn backward(
    gradient: &[f32],
    tokens: &[usize],
    vocabulary: &VocabularyRange,
    width: usize,
    table_gradient: &mut [f32],
) {
    /// Tasks for each call.
    const TASKS: usize = 16;
    let rows: Vec<Option<usize>> = tokens.iter().map(|&token| vocabulary.row(token)).collect();
    let rows_per_task = vocabulary.rows.div_ceil(TASKS).max(1);
    let tasks = table_gradient.par_chunks_mut(rows_per_task * width).enumerate();
    tasks.for_each(|(task, sums)| {
        let own = task * rows_per_task..(task + 1) * rows_per_task;
        for (gradient, row) in gradient.chunks_exact(width).zip(&rows) {
            let Some(row) = row.filter(|row| own.contains(row)) else { continue };
            let sums = &mut sums[(row - own.start) * width..][..width];
            for (sum, value) in sums.iter_mut().zip(gradient) {
                *sum += value;
            }
        }
    });
}
