//! What the training loop asks of a model, so that one loop trains every architecture.
//!
//! A [`Batch`] is host data; only here does it become tensors.

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};

use crate::backend::{TpBackend, TrainingBackend, VisibleKeys};
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

    /// What the parts of the loss are called, in order; their sum is the loss.
    const LOSSES: &'static [&'static str];

    /// Which keys the queries of a batch see, in every layer.
    fn visible_keys(batch: &Batch) -> VisibleKeys;

    /// What the first layer sees, `[num_samples, seq_length, hidden_size]`.
    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3>;

    /// The layers, which lie at `layers.0`, `layers.1` and so on in the model.
    fn layers(&self) -> &[Self::Layer];

    /// What a layer makes of `hidden`.
    fn layer(
        layer: &Self::Layer,
        hidden: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3>;

    /// The same numbers as [`layer`](Self::layer), with nothing kept for a backward pass.
    fn layer_without_graph(
        layer: &Self::Layer,
        hidden: Tensor<B::InnerBackend, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3>;

    /// The batch's weighted sums of losses, each `[1]`, from what the last layer returned: one for
    /// each of [`LOSSES`](Self::LOSSES).
    fn head_losses(&self, hidden: Tensor<B, 3>, batch: &Batch) -> Vec<Tensor<B, 1>>;

    /// The parameter that both the embedding and the loss have gradients for.
    fn tied_weight(&self) -> Tensor<B, 2>;

    /// [`head_losses`](Self::head_losses) with the graph of the whole model behind them.
    fn losses(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Vec<Tensor<B, 1>> {
        let visible = Self::visible_keys(batch);
        let embedded = self.embed(batch, dropout);
        let layers = self.layers().iter();
        self.head_losses(
            layers.fold(embedded, |hidden, layer| Self::layer(layer, hidden, &visible, dropout)),
            batch,
        )
    }
}

/// A model whose losses can be read without a graph.
pub trait Scored<B: Backend>: Module<B> {
    /// What the losses of a validation are called; the first is the one that runs are compared by.
    const LOSSES: &'static [&'static str];

    /// The losses of the batch's targets, added up: one sum for each of [`LOSSES`](Self::LOSSES).
    /// What the targets weigh in training is of no account beyond whether they weigh anything.
    fn score(&self, batch: &Batch) -> Vec<LossSum>;
}

/// Losses of several targets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossSum {
    /// Their sum in nats, of `f32` losses added in `f64` in the order of the targets.
    pub total: f64,
    /// How many targets.
    pub targets: u64,
}

impl LossSum {
    /// The sum of `losses`.
    pub(crate) fn of(losses: impl IntoIterator<Item = f32>) -> Self {
        losses.into_iter().fold(Self::default(), |sum, loss| Self {
            total: sum.total + f64::from(loss),
            targets: sum.targets + 1,
        })
    }
}

impl<B> Objective<B> for Gpt2<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B>,
    TransformerBlock<B>: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    type Layer = TransformerBlock<B>;

    const LOSSES: &'static [&'static str] = &["lm_loss"];

    fn visible_keys(_: &Batch) -> VisibleKeys {
        VisibleKeys::Causal
    }

    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        Gpt2::embed(self, input_tokens(batch, &self.devices()[0]), dropout)
    }

    fn layers(&self) -> &[TransformerBlock<B>] {
        &self.layers
    }

    fn layer(
        layer: &TransformerBlock<B>,
        hidden: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        layer.forward(hidden, visible, dropout)
    }

    fn layer_without_graph(
        layer: &TransformerBlock<B>,
        hidden: Tensor<B::InnerBackend, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3> {
        layer.valid().forward(hidden, visible, dropout)
    }

    fn head_losses(&self, hidden: Tensor<B, 3>, batch: &Batch) -> Vec<Tensor<B, 1>> {
        vec![self.head_loss(hidden, &batch.targets, &batch.loss_weights)]
    }

    fn tied_weight(&self) -> Tensor<B, 2> {
        self.embedding.word_embeddings.weight.val()
    }
}

impl<B: TpBackend> Scored<B> for Gpt2<B> {
    const LOSSES: &'static [&'static str] = &["validation_loss"];

    fn score(&self, batch: &Batch) -> Vec<LossSum> {
        let tokens = input_tokens(batch, &self.devices()[0]);
        let rows: Vec<usize> = (0..batch.targets.len()).collect();
        let scores = self.token_scores(tokens, &batch.targets, &rows);
        vec![LossSum::of(scores.iter().map(|score| score.loss))]
    }
}

/// The batch's inputs, `[num_samples, seq_length]`.
fn input_tokens<B: Backend>(batch: &Batch, device: &B::Device) -> Tensor<B, 2, Int> {
    let tokens: Vec<i64> = batch.tokens.iter().map(|&token| i64::from(token)).collect();
    Tensor::from_data(TensorData::new(tokens, [batch.num_samples, batch.seq_length]), device)
}
