//! Dropout by key: each element is multiplied by 0 or by `1 / (1 - probability)`, as a
//! counter-based generator says for the element's place. Nothing is stored; the backward pass draws
//! the mask again.

use rayon::prelude::*;

use super::buffers::Buffer;
use super::column_sums::{ROWS_PER_BLOCK, column_sums};
use super::vector::{Vector, add_slice, vectorized};
use crate::parallel::random::DropoutMask;

/// How many elements are drawn at once.
const TILE: usize = 64;

/// `values` `[batch, seq, width]` times the mask, in place; `sample_len` is `seq · width`.
pub fn apply(vector: Vector, values: &mut [f32], sample_len: usize, mask: &DropoutMask) {
    const ELEMENTS_PER_TASK: usize = 4096;
    values.par_chunks_mut(sample_len).enumerate().for_each(|(sample, values)| {
        values.par_chunks_mut(ELEMENTS_PER_TASK).enumerate().for_each(|(task, values)| {
            multiply_by_mask(vector, mask, sample, 0, task * ELEMENTS_PER_TASK, values);
        });
    });
}

/// `values + bias`, dropped out, plus `residual`; in place. All but the bias are `[rows,
/// bias.len()]`, with `seq` rows for each sample.
pub fn bias_dropout_add(
    vector: Vector,
    values: &mut [f32],
    bias: &[f32],
    residual: &[f32],
    seq: usize,
    mask: Option<&DropoutMask>,
) {
    let width = bias.len();
    let block = ROWS_PER_BLOCK * width;
    let blocks = values.par_chunks_mut(block).zip(residual.par_chunks(block)).enumerate();
    blocks.for_each(|(block, (values, residual))| {
        let rows = values.chunks_exact_mut(width).zip(residual.chunks_exact(width)).enumerate();
        for (row, (values, residual)) in rows {
            let row = block * ROWS_PER_BLOCK + row;
            add_slice(vector, values, bias);
            if let Some(mask) = mask {
                multiply_by_mask(vector, mask, row / seq, 0, row % seq * width, values);
            }
            add_slice(vector, values, residual);
        }
    });
}

/// `gradient` of [`bias_dropout_add`]'s result becomes that of its input; returns the bias's.
#[must_use]
pub fn bias_dropout_add_backward(
    vector: Vector,
    gradient: &mut [f32],
    width: usize,
    seq: usize,
    mask: Option<&DropoutMask>,
) -> Buffer {
    if let Some(mask) = mask {
        apply(vector, gradient, seq * width, mask);
    }
    column_sums(vector, gradient, width)
}

vectorized! {
    /// Multiplies elements `first .. first + values.len()` of a sample and head by the mask.
    pub fn multiply_by_mask(
        mask: &DropoutMask,
        sample: usize,
        head: usize,
        first: usize,
        values: &mut [f32],
    ) {
        // Elements before the first whole block of four, whole tiles, and what is left.
        let lead = (first.next_multiple_of(4) - first).min(values.len());
        let (start, aligned) = values.split_at_mut(lead);
        if !start.is_empty() {
            let factors = mask.factors(sample, head, (first / 4) as u32);
            for (value, factor) in start.iter_mut().zip(&factors[first % 4..]) {
                *value *= factor;
            }
        }
        let mut block = ((first + lead) / 4) as u32;
        let (tiles, rest) = aligned.as_chunks_mut::<TILE>();
        for tile in tiles {
            let mut factors = [[0.0; 4]; TILE / 4];
            for (i, factors) in factors.iter_mut().enumerate() {
                *factors = mask.factors(sample, head, block + i as u32);
            }
            for (value, factor) in tile.iter_mut().zip(factors.as_flattened()) {
                *value *= factor;
            }
            block += (TILE / 4) as u32;
        }
        for values in rest.chunks_mut(4) {
            for (value, factor) in values.iter_mut().zip(mask.factors(sample, head, block)) {
                *value *= factor;
            }
            block += 1;
        }
    }
}
