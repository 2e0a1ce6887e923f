//! What the training loop asks of a model, so that one loop trains every architecture.
//!
//! A [`Batch`] is host data; only here does it become tensors.

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};

use crate::backend::{TpBackend, TrainingBackend};
use crate::data::Batch;
use crate::model::{Gpt2, TransformerBlock};
use crate::parallel::random::DropoutKey;

/// A model that training can improve: an embedding, layers one after the other, and a loss.
///
/// The pieces are asked for one by one so that a pass can run a layer again
/// ([`pass`](crate::pass)). Without a key nothing is dropped.
pub trait Objective<B: AutodiffBackend>: AutodiffModule<B> {
    /// One layer.
    type Layer: AutodiffModule<B>;

    /// What the first layer sees, `[num_samples, seq_length, hidden_size]`.
    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3>;

    /// The layers, which lie at `layers.0`, `layers.1` and so on in the model.
    fn layers(&self) -> &[Self::Layer];

    /// What a layer makes of `hidden`.
    fn layer(
        layer: &Self::Layer,
        hidden: Tensor<B, 3>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3>;

    /// The same numbers as [`layer`](Self::layer), with nothing kept for a backward pass.
    fn layer_without_graph(
        layer: &Self::Layer,
        hidden: Tensor<B::InnerBackend, 3>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3>;

    /// The batch's weighted sum of losses, `[1]`, from what the last layer returned.
    fn head_loss(&self, hidden: Tensor<B, 3>, batch: &Batch) -> Tensor<B, 1>;

    /// The parameter that both the embedding and the loss have gradients for.
    fn tied_weight(&self) -> Tensor<B, 2>;

    /// The batch's weighted sum of losses, `[1]`, with the graph of the whole model behind it.
    fn loss(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 1> {
        let embedded = self.embed(batch, dropout);
        let layers = self.layers().iter();
        self.head_loss(
            layers.fold(embedded, |hidden, layer| Self::layer(layer, hidden, dropout)),
            batch,
        )
    }
}

/// A model whose losses can be read without a graph.
pub trait Scored<B: Backend>: Module<B> {
    /// The loss of each target of the batch in nats, row by row; weights are ignored.
    fn token_losses(&self, batch: &Batch) -> Vec<f32>;
}

impl<B> Objective<B> for Gpt2<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B>,
    TransformerBlock<B>: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    type Layer = TransformerBlock<B>;

    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        Gpt2::embed(self, input_tokens(batch, &self.devices()[0]), dropout)
    }

    fn layers(&self) -> &[TransformerBlock<B>] {
        &self.layers
    }

    fn layer(
        layer: &TransformerBlock<B>,
        hidden: Tensor<B, 3>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        layer.forward(hidden, dropout)
    }

    fn layer_without_graph(
        layer: &TransformerBlock<B>,
        hidden: Tensor<B::InnerBackend, 3>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3> {
        layer.valid().forward(hidden, dropout)
    }

    fn head_loss(&self, hidden: Tensor<B, 3>, batch: &Batch) -> Tensor<B, 1> {
        Gpt2::head_loss(self, hidden, &batch.targets, &batch.loss_weights)
    }

    fn tied_weight(&self) -> Tensor<B, 2> {
        self.embedding.word_embeddings.weight.val()
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
