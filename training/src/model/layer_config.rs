//! What the layers of a transformer need to know, whatever model they are of.

use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::backend::Activation;

/// Where the residual stream passes the layer norms: figure 7 of the paper.
///
/// Both own the same parameters and cost the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// Figure 7b: a block's output is added to what its norm got, so that the stream carries the
    /// raw signal from the embedding to the last norm. The paper trains with it at every size.
    #[default]
    PreNorm,
    /// Figure 7a: a block's output is added to what its norm gave. That is the original BERT, whose
    /// norms stand behind the sums, with each norm named for the block that it now comes before.
    PostNorm,
}

/// The sizes of a stack of layers, and what they compute.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerConfig {
    /// Layers.
    pub num_layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Attention heads in a layer.
    pub num_attention_heads: usize,
    /// Width of the MLP's inner layer.
    pub ffn_hidden_size: usize,
    /// Probability of dropout on the embeddings and on the output of every block.
    pub hidden_dropout: f64,
    /// Probability of dropout on the attention probabilities.
    pub attention_dropout: f64,
    /// The form of GELU.
    pub activation: Activation,
    /// Added to the variance in layer norms.
    pub layer_norm_epsilon: f64,
    /// Standard deviation of initial weights; those that write to the residual stream start with
    /// `init_std / √(2 · num_layers)`.
    pub init_std: f64,
    /// What a block's output is added to.
    pub arrangement: Arrangement,
}

/// Layers and heads that can be told apart: dropout's keys have 16 bits for each.
const MOST_LAYERS_OR_HEADS: usize = u16::MAX as usize;

/// Parameters of the largest model that sizes are computed for, 2.8e14.
const MOST_PARAMETERS: u128 = 1 << 48;

impl LayerConfig {
    /// Width of an attention head.
    #[must_use]
    pub fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Parameters of the weight matrices with an embedding of `rows` rows, for sizes of any kind.
    fn estimated_parameters(&self, rows: u128) -> u128 {
        let (hidden, ffn) = (self.hidden_size as u128, self.ffn_hidden_size as u128);
        let layer = hidden.saturating_mul(4 * hidden + 2 * ffn);
        let layers = layer.saturating_mul(self.num_layers as u128);
        hidden.saturating_mul(rows).saturating_add(layers)
    }

    /// Checks the sizes of a model of such layers, of a table of `vocab_size` tokens and one of
    /// `seq_length` positions.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] for the first field with an impossible value.
    pub(super) fn validate(&self, seq_length: usize, vocab_size: usize) -> Result<(), TrainError> {
        let sizes = [
            ("num_layers", self.num_layers),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
            ("seq_length", seq_length),
            ("vocab_size", vocab_size),
            ("ffn_hidden_size", self.ffn_hidden_size),
        ];
        for (field, size) in sizes {
            check(field, size, size > 0, || "must be at least 1".to_owned())?;
        }
        for (field, size) in
            [("num_layers", self.num_layers), ("num_attention_heads", self.num_attention_heads)]
        {
            check(field, size, size <= MOST_LAYERS_OR_HEADS, || {
                format!("must be at most {MOST_LAYERS_OR_HEADS}")
            })?;
        }
        let estimate = self.estimated_parameters(vocab_size as u128 + seq_length as u128);
        check("hidden_size", self.hidden_size, estimate <= MOST_PARAMETERS, || {
            format!("the model would have {estimate} parameters, more than can be computed with")
        })?;
        let heads = self.num_attention_heads;
        check("hidden_size", self.hidden_size, self.hidden_size.is_multiple_of(heads), || {
            format!("must be a multiple of num_attention_heads = {heads}")
        })?;
        for (field, probability) in
            [("hidden_dropout", self.hidden_dropout), ("attention_dropout", self.attention_dropout)]
        {
            check(field, probability, (0.0..1.0).contains(&probability), || {
                "must be at least 0 and less than 1".to_owned()
            })?;
        }
        for (field, value) in
            [("layer_norm_epsilon", self.layer_norm_epsilon), ("init_std", self.init_std)]
        {
            check(field, value, value.is_finite() && value > 0.0, || {
                "must be a number above 0".to_owned()
            })?;
        }
        Ok(())
    }
}

pub(super) fn check(
    field: &'static str,
    value: impl std::fmt::Display,
    holds: bool,
    expected: impl FnOnce() -> String,
) -> Result<(), TrainError> {
    if holds {
        return Ok(());
    }
    Err(TrainError::InvalidField { field, value: value.to_string(), expected: expected() })
}
