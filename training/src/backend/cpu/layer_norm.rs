//! Layer norm over rows: `y = (x - mean) · r · gain + bias` with `r = 1 / √(variance + ε)`.
//!
//! Backward, with `n = (x - mean) · r` and `h = gradient · gain`:
//! `dx = r · (h - mean(h) - n · mean(h · n))`, `dgain = Σ gradient · n`, `dbias = Σ gradient`.
//! Mean and `r` are computed again in the backward pass: the row is in the cache anyway.

use rayon::prelude::*;

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

/// The gradients of (input, gain, bias); `gradient` becomes that of the input.
pub fn backward(
    vector: Vector,
    input: &[f32],
    gain: &[f32],
    epsilon: f32,
    gradient: &mut [f32],
) -> (Vec<f32>, Vec<f32>) {
    let width = gain.len();
    let block = ROWS_PER_BLOCK * width;
    let partials: Vec<Vec<f32>> = input
        .par_chunks(block)
        .zip(gradient.par_chunks_mut(block))
        .map(|(input, gradient)| {
            let mut sums = vec![0.0; 2 * width];
            let (gain_sums, bias_sums) = sums.split_at_mut(width);
            backward_rows(vector, input, gain, epsilon, gradient, gain_sums, bias_sums);
            sums
        })
        .collect();
    let mut gain_gradient = add_up(&partials, 2 * width);
    let bias_gradient = gain_gradient.split_off(width);
    (gain_gradient, bias_gradient)
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
    ) {
        let width = gain.len();
        let (gain_sums, bias_sums) = (&mut gain_sums[..width], &mut bias_sums[..width]);
        let (mut n, mut h) = (vec![0.0; width], vec![0.0; width]);
        let (n, h) = (&mut n[..width], &mut h[..width]);
        for (row, gradient) in input.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
            let r = center::<FMA>(row, epsilon, n);
            for j in 0..width {
                n[j] *= r;
                h[j] = gradient[j] * gain[j];
                gain_sums[j] = fma::<FMA>(gradient[j], n[j], gain_sums[j]);
                bias_sums[j] += gradient[j];
            }
            let mean_h = sum(h) / width as f32;
            let mean_hn = dot::<FMA>(h, n) / width as f32;
            for j in 0..width {
                gradient[j] = r * (h[j] - mean_h - n[j] * mean_hn);
            }
        }
    }
}
