//! `y = u · Φ(u)` with `u = x + bias`, Φ the normal distribution or its tanh approximation.
//!
//! Backward, exact: `dx = gradient · (Φ(u) + u · φ(u))` with the density `φ(u) = e^(-u²/2) / √2π`.
//! With `t = tanh(k·(u + c·u³))`, `k = √(2/π)`, `c = 0.044715`:
//! `dx = gradient · ((1 + t) / 2 + u · (1 - t²) · k · (1 + 3c·u²) / 2)`.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use rayon::prelude::*;

use super::column_sums::{ROWS_PER_BLOCK, add_up};
use super::vector::{Vector, fma, normal_cdf, tanh, vectorized};
use crate::backend::Activation;

/// `√(2/π)`.
const K: f32 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const C: f32 = 0.044_715;
/// `1 / √2π`.
const DENSITY_AT_0: f32 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// `values`, `[rows, bias.len()]`, becomes the output.
pub fn forward(vector: Vector, values: &mut [f32], bias: &[f32], activation: Activation) {
    values.par_chunks_mut(ROWS_PER_BLOCK * bias.len()).for_each(|values| match activation {
        Activation::Gelu => forward_exact(vector, values, bias),
        Activation::GeluTanh => forward_tanh(vector, values, bias),
    });
}

/// `gradient` becomes that of the input; returns that of the bias.
#[must_use]
pub fn backward(
    vector: Vector,
    input: &[f32],
    bias: &[f32],
    activation: Activation,
    gradient: &mut [f32],
) -> Vec<f32> {
    let block = ROWS_PER_BLOCK * bias.len();
    let partials: Vec<Vec<f32>> = input
        .par_chunks(block)
        .zip(gradient.par_chunks_mut(block))
        .map(|(input, gradient)| {
            let mut sums = vec![0.0; bias.len()];
            match activation {
                Activation::Gelu => backward_exact(vector, input, bias, gradient, &mut sums),
                Activation::GeluTanh => backward_tanh(vector, input, bias, gradient, &mut sums),
            }
            sums
        })
        .collect();
    add_up(&partials, bias.len())
}

/// `(y, dy/du)` of the exact form.
#[inline(always)]
fn exact<const FMA: bool>(u: f32) -> (f32, f32) {
    let (cdf, density) = normal_cdf::<FMA>(u);
    (u * cdf, fma::<FMA>(u * DENSITY_AT_0, density, cdf))
}

/// `(y, dy/du)` of the tanh form.
#[inline(always)]
fn tanh_form<const FMA: bool>(u: f32) -> (f32, f32) {
    let t = tanh::<FMA>(K * u * fma::<FMA>(C * u, u, 1.0));
    let half = 0.5 * (1.0 + t);
    (u * half, half + 0.5 * u * (1.0 - t * t) * K * fma::<FMA>(3.0 * C * u, u, 1.0))
}

vectorized! {
    fn forward_exact(values: &mut [f32], bias: &[f32]) {
        for row in values.chunks_exact_mut(bias.len()) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value = exact::<FMA>(*value + bias).0;
            }
        }
    }
}

vectorized! {
    fn forward_tanh(values: &mut [f32], bias: &[f32]) {
        for row in values.chunks_exact_mut(bias.len()) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value = tanh_form::<FMA>(*value + bias).0;
            }
        }
    }
}

vectorized! {
    fn backward_exact(input: &[f32], bias: &[f32], gradient: &mut [f32], sums: &mut [f32]) {
        let width = bias.len();
        let sums = &mut sums[..width];
        for (row, gradient) in input.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
            for j in 0..width {
                gradient[j] *= exact::<FMA>(row[j] + bias[j]).1;
                sums[j] += gradient[j];
            }
        }
    }
}

vectorized! {
    fn backward_tanh(input: &[f32], bias: &[f32], gradient: &mut [f32], sums: &mut [f32]) {
        let width = bias.len();
        let sums = &mut sums[..width];
        for (row, gradient) in input.chunks_exact(width).zip(gradient.chunks_exact_mut(width)) {
            for j in 0..width {
                gradient[j] *= tanh_form::<FMA>(row[j] + bias[j]).1;
                sums[j] += gradient[j];
            }
        }
    }
}
