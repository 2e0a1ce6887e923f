//! What the training loop asks of a model, so that one loop trains every architecture.
//!
//! A [`Batch`] is host data; only here does it become tensors.

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};

use crate::backend::TpBackend;
use crate::data::Batch;
use crate::model::Gpt2;
use crate::parallel::random::DropoutKey;

/// A model that training can improve.
pub trait Objective<B: AutodiffBackend>: AutodiffModule<B> {
    /// The batch's weighted sum of losses, `[1]`, with a graph behind it. Without a key nothing is
    /// dropped.
    fn loss(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 1>;
}

/// A model whose losses can be read without a graph.
pub trait Scored<B: Backend>: Module<B> {
    /// The loss of each target of the batch in nats, row by row; weights are ignored.
    fn token_losses(&self, batch: &Batch) -> Vec<f32>;
}

impl<B: AutodiffBackend + TpBackend> Objective<B> for Gpt2<B>
where
    Self: AutodiffModule<B>,
{
    fn loss(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 1> {
        let tokens = input_tokens(batch, &self.devices()[0]);
        Gpt2::loss(self, tokens, &batch.targets, &batch.loss_weights, dropout)
    }
}

impl<B: TpBackend> Scored<B> for Gpt2<B> {
    fn token_losses(&self, batch: &Batch) -> Vec<f32> {
        let tokens = input_tokens(batch, &self.devices()[0]);
        let rows: Vec<usize> = (0..batch.targets.len()).collect();
        let scores = self.token_scores(tokens, &batch.targets, &rows);
        scores.iter().map(|score| score.loss).collect()
    }
}

/// The batch's inputs, `[num_samples, seq_length]`.
fn input_tokens<B: Backend>(batch: &Batch, device: &B::Device) -> Tensor<B, 2, Int> {
    let tokens: Vec<i64> = batch.tokens.iter().map(|&token| i64::from(token)).collect();
    Tensor::from_data(TensorData::new(tokens, [batch.num_samples, batch.seq_length]), device)
}
