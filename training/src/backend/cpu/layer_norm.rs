//! Layer norm over rows: `y = (x - mean) · r · gain + bias` with `r = 1 / √(variance + ε)`.
//!
//! Backward, with `n = (x - mean) · r` and `h = gradient · gain`:
//! `dx = r · (h - mean(h) - n · mean(h · n))`, `dgain = Σ gradient · n`, `dbias = Σ gradient`.
//! Mean and `r` are computed again in the backward pass: the row is in the cache anyway.

use rayon::prelude::*;

use super::buffers::{self, Buffer};
use super::column_sums::{ROWS_PER_BLOCK, add_up};
use super::vector::{Vector, dot, fma, sum, vectorized};

/// `output` from `input`, both `[rows, gain.len()]`.
pub fn forward(
    vector: Vector,
    input: &[f32],
    gain: &[f32],
    bias: &[f32],
    epsilon: f32,
    output: &mut [f32],
) {
    let block = ROWS_PER_BLOCK * gain.len();
    input.par_chunks(block).zip(output.par_chunks_mut(block)).for_each(|(input, output)| {
        forward_rows(vector, input, gain, bias, epsilon, output);
    });
}

/// `gradient` becomes that of the input; returns those of (gain, bias).
#[must_use]
pub fn backward(
    vector: Vector,
    input: &[f32],
    gain: &[f32],
    epsilon: f32,
    gradient: &mut [f32],
) -> [Buffer; 2] {
    /// Of a block: the sums for the gain, those for the bias, and room for a row.
    const PARTS: usize = 3;
    let width = gain.len();
    let block = ROWS_PER_BLOCK * width;
    let blocks = input.par_chunks(block).zip(gradient.par_chunks_mut(block));
    let mut partials = buffers::take(blocks.len() * PARTS * width);
    blocks.zip(partials.par_chunks_mut(PARTS * width)).for_each(|((input, gradient), partial)| {
        partial.fill(0.0);
        let (gain_sums, partial) = partial.split_at_mut(width);
        let (bias_sums, row) = partial.split_at_mut(width);
        backward_rows(vector, input, gain, epsilon, gradient, gain_sums, bias_sums, row);
    });
    [0, 1].map(|part| {
        let sums = partials.chunks_exact(PARTS * width);
        add_up(vector, sums.map(|partial| &partial[part * width..][..width]), width)
    })
}

/// Mean and `1 / √(variance + ε)` of a row; `centered` receives the row minus its mean.
#[inline(always)]
fn center<const FMA: bool>(row: &[f32], epsilon: f32, centered: &mut [f32]) -> f32 {
    let width = row.len() as f32;
    let mean = sum(row) / width;
    for (centered, x) in centered.iter_mut().zip(row) {
        *centered = x - mean;
    }
    let variance = dot::<FMA>(centered, centered) / width;
    1.0 / (variance + epsilon).sqrt()
}

vectorized! {
    fn forward_rows(
        input: &[f32],
        gain: &[f32],
        bias: &[f32],
        epsilon: f32,
        output: &mut [f32],
    ) {
        let width = gain.len();
        for (row, output) in input.chunks_exact(width).zip(output.chunks_exact_mut(width)) {
            let r = center::<FMA>(row, epsilon, output);
            for ((y, gain), bias) in output.iter_mut().zip(gain).zip(bias) {
                *y = fma::<FMA>(*y * r, *gain, *bias);
            }
        }
    }
}

vectorized! {
    fn backward_rows(
        input: &[f32],
        gain: &[f32],
        epsilon: f32,
        gradient: &mut [f32],
        gain_sums: &mut [f32],
        bias_sums: &mut [f32],
        n: &mut [f32],
    ) {
        let width = gain.len();
        let (gain_sums, bias_sums) = (&mut gain_sums[..width], &mut bias_sums[..width]);
        let n = &mut n[..width];
        for (row, gradient) in input.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
            let r = center::<FMA>(row, epsilon, n);
            for j in 0..width {
                n[j] *= r;
                gain_sums[j] = fma::<FMA>(gradient[j], n[j], gain_sums[j]);
                bias_sums[j] += gradient[j];
                gradient[j] *= gain[j];
            }
            let h = gradient;
            let mean_h = sum(h) / width as f32;
            let mean_hn = dot::<FMA>(h, n) / width as f32;
            for j in 0..width {
                h[j] = r * (h[j] - mean_h - n[j] * mean_hn);
            }
        }
    }
}
