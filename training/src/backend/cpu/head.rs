//! Output layer and cross-entropy in one pass over chunks of rows.
//!
//! For a row with hidden state `h`, target `t` and weight `w`, and this rank's rows `E` of the
//! table and `b` of the bias, the logits are `x = E h + b`, the loss is `w · (ln Z - x_t)` with
//! `Z = Σ e^x` over all ranks, and with `d = w · (e^x / Z - onehot(t))` the gradients are
//! `dh = Eᵀ d`, `dE = Σ d hᵀ` and `db = Σ d`. All are ready in the forward pass, while the chunk's logits are at hand: all logits of a batch
//! would take many times the memory of the model.
//!
//! Each rank takes the exponentials relative to its own largest logit, in the same trip through
//! memory that finds it. The ranks then exchange three numbers for each row, and what remains to
//! be multiplied, `w · e^(max_rank - max) / Z`, is one factor for the row: it goes on the row's
//! hidden state before `dE` and on the product `Eᵀ d` after it, never over the logits again.
//!
//! Predictions, where they are asked for, take one more trip over the logits and one more number
//! for each row: the token of the rank's largest logit.

use std::ops::Range;

use rayon::prelude::*;

use super::buffers::{self, Buffer};
use super::matrix::{Matrix, Write, multiply};
use super::vector::{Vector, exp_and_sum, max, vectorized};
use crate::backend::HeadExtras;
use crate::parallel::collective::ReduceOp;
use crate::parallel::{Targets, TensorParallelGroup, VocabularyRange};

/// Rows whose logits exist at the same time: enough for the matrix products to run at full speed.
pub(crate) const CHUNK_ROWS: usize = 512;

/// The inputs of the head on one rank.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// `[rows, width]`.
    pub hidden: &'a [f32],
    /// This rank's part of the table, `[vocabulary.rows, width]`.
    pub table: &'a [f32],
    /// What is added to the logits, `[vocabulary.rows]`, if anything is.
    pub bias: Option<&'a [f32]>,
    /// Width of a hidden state.
    pub width: usize,
    /// Target and weight of every row.
    pub targets: &'a Targets,
    /// Which tokens the rank's part of the table scores.
    pub vocabulary: &'a VocabularyRange,
}

/// What the head returns.
#[derive(Debug)]
pub struct HeadResult {
    /// `ln Z - x_t` of every row.
    pub row_losses: Vec<f32>,
    /// The token with the largest logit of every row, the lowest of several.
    pub predictions: Option<Vec<u32>>,
    /// This rank's share of the weighted sum's gradient for the hidden states.
    pub hidden_gradient: Option<Buffer>,
    /// The weighted sum's gradient for the table.
    pub table_gradient: Option<Buffer>,
    /// The weighted sum's gradient for the bias.
    pub bias_gradient: Option<Buffer>,
}

/// Losses of all rows, and the extras that are asked for.
#[must_use]
pub fn head(
    vector: Vector,
    head: Head<'_>,
    group: &TensorParallelGroup,
    extras: HeadExtras,
) -> HeadResult {
    let rows = head.targets.tokens.len();
    // Rows of the table that pad the vocabulary are not even scored.
    let scored = head.vocabulary.tokens;
    let table = &head.table[..scored * head.width];
    let mut result = HeadResult {
        row_losses: Vec::with_capacity(rows),
        predictions: extras.predictions.then(|| Vec::with_capacity(rows)),
        hidden_gradient: extras.hidden_gradient.then(|| buffers::take(rows * head.width)),
        table_gradient: extras.weight_gradient.then(|| buffers::take(head.table.len())),
        bias_gradient: extras.bias_gradient.then(|| buffers::take(head.vocabulary.rows)),
    };
    let mut logits = buffers::take(CHUNK_ROWS.min(rows) * scored);
    let mut scaled = buffers::take(CHUNK_ROWS.min(rows) * head.width);
    if let Some(gradient) = &mut result.table_gradient {
        // No row of the batch writes to what is only padding; without a row, nothing to anything.
        let written = if rows == 0 { 0 } else { table.len() };
        gradient[written..].fill(0.0);
    }
    if let Some(gradient) = &mut result.bias_gradient {
        gradient.fill(0.0);
    }

    for first in (0..rows).step_by(CHUNK_ROWS) {
        let chunk = Chunk::of(head, first..rows.min(first + CHUNK_ROWS));
        let logits = &mut logits[..chunk.targets.len() * scored];
        let write = head.bias.map_or(Write::Replace, |bias| Write::Bias(&bias[..scored]));
        score(chunk.hidden, table, head.width, logits, write);
        // Before the logits give way to their exponentials.
        let own_largest =
            result.predictions.is_some().then(|| largest_tokens(vector, logits, head.vocabulary));
        let mut softmax = exponentials(vector, logits, chunk.targets, head.vocabulary);
        softmax.exchange(group);
        result.row_losses.extend(softmax.losses());
        if let (Some(predictions), Some(own_largest)) = (&mut result.predictions, own_largest) {
            predictions.extend(softmax.predictions(own_largest, group));
        }
        if extras.hidden_gradient || extras.weight_gradient || extras.bias_gradient {
            let factors =
                softmax.subtract_targets(logits, chunk.targets, chunk.weights, head.vocabulary);
            result.write_gradients(&chunk, table, logits, &factors, &mut scaled);
        }
    }
    result
}

/// Some of the rows.
struct Chunk<'a> {
    rows: Range<usize>,
    width: usize,
    hidden: &'a [f32],
    targets: &'a [u32],
    weights: &'a [f32],
}

impl<'a> Chunk<'a> {
    fn of(head: Head<'a>, rows: Range<usize>) -> Self {
        let Head { hidden, width, targets, .. } = head;
        Self {
            hidden: &hidden[rows.start * width..rows.end * width],
            targets: &targets.tokens[rows.clone()],
            weights: &targets.weights[rows.clone()],
            rows,
            width,
        }
    }
}

impl HeadResult {
    /// Writes what the rows of `chunk` are to the gradients, from `d / factor` of each row. `scaled`
    /// has room for their hidden states.
    fn write_gradients(
        &mut self,
        chunk: &Chunk<'_>,
        table: &[f32],
        d: &[f32],
        factors: &[f32],
        scaled: &mut [f32],
    ) {
        let Chunk { rows, width, hidden, .. } = chunk;
        if let Some(gradient) = &mut self.hidden_gradient {
            let gradient = &mut gradient[rows.start * width..rows.end * width];
            hidden_gradient(d, table, *width, gradient);
            scale_rows(gradient, factors, *width);
        }
        if let Some(gradient) = &mut self.table_gradient {
            let scaled = &mut scaled[..hidden.len()];
            scaled.copy_from_slice(hidden);
            scale_rows(scaled, factors, *width);
            let write = if rows.start == 0 { Write::Replace } else { Write::Add };
            table_gradient(d, scaled, *width, &mut gradient[..table.len()], write);
        }
        if let Some(gradient) = &mut self.bias_gradient {
            bias_gradient(d, factors, &mut gradient[..table.len() / width]);
        }
    }
}

/// `logits` = `hidden · tableᵀ`, with or without a bias.
fn score(hidden: &[f32], table: &[f32], width: usize, logits: &mut [f32], write: Write<'_>) {
    if !table.is_empty() {
        let table = Matrix::new(table, width).transposed();
        multiply(Matrix::new(hidden, width), table, logits, write);
    }
}

/// `gradient` = `d · table`.
fn hidden_gradient(d: &[f32], table: &[f32], width: usize, gradient: &mut [f32]) {
    if table.is_empty() {
        gradient.fill(0.0);
    } else {
        let d = Matrix::new(d, table.len() / width);
        multiply(d, Matrix::new(table, width), gradient, Write::Replace);
    }
}

/// `gradient` (+)= `dᵀ · hidden`.
fn table_gradient(d: &[f32], hidden: &[f32], width: usize, gradient: &mut [f32], write: Write<'_>) {
    if !gradient.is_empty() {
        let d = Matrix::new(d, gradient.len() / width).transposed();
        multiply(d, Matrix::new(hidden, width), gradient, write);
    }
}

/// `gradient` += the sum of the rows of `d`, each times its factor. Each thread takes some of the
/// tokens, and all rows in their order.
fn bias_gradient(d: &[f32], factors: &[f32], gradient: &mut [f32]) {
    const TOKENS_PER_TASK: usize = 1 << 10;
    let tokens = gradient.len();
    gradient.par_chunks_mut(TOKENS_PER_TASK).enumerate().for_each(|(task, sums)| {
        for (row, factor) in d.chunks_exact(tokens).zip(factors) {
            let row = &row[task * TOKENS_PER_TASK..];
            sums.iter_mut().zip(row).for_each(|(sum, d)| *sum += factor * d);
        }
    });
}

/// The token of the largest logit of each row on this rank, the lowest of several; 0 where the rank
/// holds nothing but padding.
fn largest_tokens(vector: Vector, logits: &[f32], vocabulary: &VocabularyRange) -> Vec<u32> {
    let token = |row: &[f32]| (vocabulary.first + first_largest(vector, row)) as u32;
    logits.par_chunks(vocabulary.tokens.max(1)).map(token).collect()
}

/// What is known of the softmax of each row of a chunk.
struct Softmax {
    /// The largest logit of this rank's part.
    local_max: Vec<f32>,
    /// The largest logit of all.
    max: Vec<f32>,
    /// The target's logit.
    target: Vec<f32>,
    /// `Σ e^(x - max)`.
    sum: Vec<f32>,
}

/// Replaces the logits by exponentials relative to the row's largest logit on this rank.
fn exponentials(
    vector: Vector,
    logits: &mut [f32],
    targets: &[u32],
    vocabulary: &VocabularyRange,
) -> Softmax {
    let rows = targets.len();
    if vocabulary.tokens == 0 {
        // This rank holds nothing but padding.
        let none = vec![f32::NEG_INFINITY; rows];
        let (target, sum) = (vec![0.0; rows], vec![0.0; rows]);
        return Softmax { local_max: none.clone(), max: none, target, sum };
    }
    let each: Vec<(f32, (f32, f32))> = logits
        .par_chunks_mut(vocabulary.tokens)
        .zip(targets)
        .map(|(row, &target)| {
            let target = vocabulary.row(target as usize).map_or(0.0, |target| row[target]);
            (target, max_and_exponentials(vector, row))
        })
        .collect();
    let (target, (local_max, sum)): (Vec<f32>, (Vec<f32>, Vec<f32>)) = each.into_iter().unzip();
    Softmax { max: local_max.clone(), local_max, target, sum }
}

impl Softmax {
    /// Makes `max`, `target` and `sum` those of the whole vocabulary.
    fn exchange(&mut self, group: &TensorParallelGroup) {
        group.all_reduce("loss.max", &mut self.max, ReduceOp::Max);
        group.all_reduce("loss.target", &mut self.target, ReduceOp::Sum);
        for ((sum, local_max), max) in self.sum.iter_mut().zip(&self.local_max).zip(&self.max) {
            *sum *= (local_max - max).exp();
        }
        group.all_reduce("loss.sum", &mut self.sum, ReduceOp::Sum);
    }

    /// `ln Z - x_t` of every row.
    fn losses(&self) -> impl Iterator<Item = f32> {
        let rows = self.sum.iter().zip(&self.max).zip(&self.target);
        rows.map(|((sum, max), target)| sum.ln() + (max - target))
    }

    /// The token of the largest logit of each row on all ranks, the lowest of several.
    ///
    /// Of the ranks that hold the largest logit the one with the lowest token wins: the largest of
    /// the negated tokens. `f32` holds whole numbers up to 2^24 exactly, far above any vocabulary.
    fn predictions(&self, own_largest: Vec<u32>, group: &TensorParallelGroup) -> Vec<u32> {
        let mut negated = vec![f32::NEG_INFINITY; self.max.len()];
        for (i, token) in own_largest.into_iter().enumerate() {
            if self.local_max[i] == self.max[i] {
                negated[i] = -(token as f32);
            }
        }
        group.all_reduce("loss.predicted", &mut negated, ReduceOp::Max);
        // Where no rank has the largest, because it is no number, there is no token.
        negated.into_iter().map(|token| if token.is_finite() { -token as u32 } else { 0 }).collect()
    }

    /// Turns the exponentials into `d / factor` and returns each row's `factor`.
    fn subtract_targets(
        &self,
        exponentials: &mut [f32],
        targets: &[u32],
        weights: &[f32],
        vocabulary: &VocabularyRange,
    ) -> Vec<f32> {
        (0..targets.len())
            .map(|i| {
                // e^(max_rank - max) / Z: what makes an exponential of this rank a probability.
                let share = (self.local_max[i] - self.max[i]).exp() / self.sum[i];
                let Some(target) = vocabulary.row(targets[i] as usize) else {
                    return weights[i] * share;
                };
                let row = &mut exponentials[i * vocabulary.tokens..][..vocabulary.tokens];
                if share < f32::MIN_POSITIVE * 1e8 {
                    // 1 / share would overflow; the row's other numbers are nothing beside 1.
                    row.iter_mut().for_each(|value| *value *= share);
                    row[target] -= 1.0;
                    return weights[i];
                }
                row[target] -= 1.0 / share;
                weights[i] * share
            })
            .collect()
    }
}

/// Multiplies each row of `values` by its factor.
fn scale_rows(values: &mut [f32], factors: &[f32], width: usize) {
    values.par_chunks_mut(width).zip(factors).for_each(|(row, factor)| {
        row.iter_mut().for_each(|value| *value *= factor);
    });
}

vectorized! {
    /// The index of the first largest value of `row`; 0 where one is no number.
    fn first_largest(row: &[f32]) -> usize {
        let largest = max(row);
        // By blocks, which compare as vectors, then within the block.
        const BLOCK: usize = 64;
        let holds = |block: &[f32]| block.iter().fold(false, |any, &value| any | (value == largest));
        let block = row.chunks(BLOCK).position(holds).unwrap_or(0) * BLOCK;
        let within = row[block..].iter().position(|&value| value == largest);
        block + within.unwrap_or(0)
    }
}

vectorized! {
    /// Replaces `row` by `e^(row - max)`; returns (max, sum).
    fn max_and_exponentials(row: &mut [f32]) -> (f32, f32) {
        let largest = max(row);
        (largest, exp_and_sum::<FMA>(row, largest, 1.0))
    }
}
