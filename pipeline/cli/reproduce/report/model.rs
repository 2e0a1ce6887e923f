//! A model and how it was trained.

use serde::{Deserialize, Serialize};

use super::curve::CurvePoint;

/// The sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelShape {
    /// Transformer layers.
    pub(crate) num_layers: usize,
    /// Width.
    pub(crate) hidden_size: usize,
    /// Attention heads of a layer.
    pub(crate) num_attention_heads: usize,
    /// Tokens that the model sees at most.
    pub(crate) seq_length: usize,
    /// Tokens of the vocabulary, without padding.
    pub(crate) vocab_size: usize,
    /// Rows of its table, with padding.
    pub(crate) padded_vocab_size: u64,
}

/// How a model was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Training {
    /// Tokens that it has seen, repeated ones counted each time.
    pub(crate) tokens: u64,
    /// How often it has seen each training document, on average.
    pub(crate) epochs: Option<f64>,
    /// Optimizer steps.
    pub(crate) steps: u64,
    /// Sequences of a step.
    pub(crate) global_batch_size: usize,
    /// Highest learning rate.
    pub(crate) lr: f64,
    /// Ranks that shared a copy of the model.
    pub(crate) tensor_parallel_size: usize,
    /// Copies of the model.
    pub(crate) data_parallel_size: usize,
    /// Mean loss of the last steps, in nats a token.
    pub(crate) final_loss: Option<f64>,
    /// Loss on the held-out documents at the end, in nats a token.
    pub(crate) validation_loss: Option<f64>,
    /// Loss in training, as [`thinned`](super::thinned) leaves it.
    pub(crate) loss_curve: Vec<CurvePoint>,
    /// Loss on the held-out documents, each time it was taken.
    pub(crate) validation_curve: Vec<CurvePoint>,
    /// Wall time, in seconds, all calls together where that is known.
    pub(crate) seconds: f64,
}

impl Training {
    /// Training speed over the whole wall time.
    pub(crate) fn tokens_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.tokens as f64 / self.seconds)
    }
}
