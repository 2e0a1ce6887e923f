//! A linear layer on rows: `Y = X W + b`.
//!
//! Backward: `dX = dY Wᵀ`, `dW = Xᵀ dY`, and `db` is the sum of the rows of `dY`
//! (module `column_sums`). All rows of a batch are one product: sample by sample,
//! `dW` would be as many matrices to add up. A gradient that is there already is added to in place.

use super::matrix::{Matrix, Write, multiply};

/// `output` `[rows, n]` from `input` `[rows, k]` and `weight` `[k, n]`.
pub fn forward(input: &[f32], weight: &[f32], n: usize, bias: Option<&[f32]>, output: &mut [f32]) {
    let k = weight.len() / n;
    let write = bias.map_or(Write::Replace, Write::Bias);
    multiply(Matrix::new(input, k), Matrix::new(weight, n), output, write);
}

/// `input_gradient` `[rows, k]` from `gradient` `[rows, n]` and `weight` `[k, n]`.
pub fn input_gradient(gradient: &[f32], weight: &[f32], n: usize, input_gradient: &mut [f32]) {
    let weight = Matrix::new(weight, n).transposed();
    multiply(Matrix::new(gradient, n), weight, input_gradient, Write::Replace);
}

/// `weight_gradient` `[k, n]` from `input` `[rows, k]` and `gradient` `[rows, n]`.
pub fn weight_gradient(
    input: &[f32],
    gradient: &[f32],
    n: usize,
    weight_gradient: &mut [f32],
    write: Write<'_>,
) {
    let k = weight_gradient.len() / n;
    let input = Matrix::new(input, k).transposed();
    multiply(input, Matrix::new(gradient, n), weight_gradient, write);
}
