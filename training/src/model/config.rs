//! The sizes of a GPT-2, checked before anything is allocated.

use serde::{Deserialize, Serialize};

use crate::backend::Activation;
use crate::error::TrainError;

/// The sizes of a GPT-2, as a checkpoint's manifest has them: what a configuration's `[model.gpt2]`
/// comes to with the vocabulary of the data.
///
/// How it splits is asked of it in [`architecture`](crate::architecture).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt2Config {
    /// Transformer layers.
    pub num_layers: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Attention heads in a layer; each is `hidden_size / num_attention_heads` wide.
    pub num_attention_heads: usize,
    /// The longest sequence, in tokens: so many positions are learned.
    pub seq_length: usize,
    /// Tokens in the vocabulary, without padding.
    pub vocab_size: usize,
    /// Width of the MLP's inner layer; `4 · hidden_size` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn_hidden_size: Option<usize>,
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
}

/// Layers and heads that can be told apart: dropout's keys have 16 bits for each.
const MOST_LAYERS_OR_HEADS: usize = u16::MAX as usize;

/// Parameters of the largest model that sizes are computed for, 2.8e14.
const MOST_PARAMETERS: u128 = 1 << 48;

impl Gpt2Config {
    /// Width of the MLP's inner layer.
    #[must_use]
    pub fn ffn_size(&self) -> usize {
        self.ffn_hidden_size.unwrap_or(self.hidden_size.saturating_mul(4))
    }

    /// Width of an attention head.
    #[must_use]
    pub fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Parameters of the weight matrices, for sizes of any kind.
    fn estimated_parameters(&self) -> u128 {
        let wide = |size: usize| size as u128;
        let (hidden, ffn) = (wide(self.hidden_size), wide(self.ffn_size()));
        let embeddings = hidden.saturating_mul(wide(self.vocab_size) + wide(self.seq_length));
        let layer = hidden.saturating_mul(4 * hidden + 2 * ffn);
        embeddings.saturating_add(layer.saturating_mul(wide(self.num_layers)))
    }

    /// Checks what concerns the model alone.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] for the first field with an impossible value.
    pub fn validate(&self) -> Result<(), TrainError> {
        let sizes = [
            ("num_layers", self.num_layers),
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
            ("seq_length", self.seq_length),
            ("vocab_size", self.vocab_size),
            ("ffn_hidden_size", self.ffn_size()),
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
        let estimate = self.estimated_parameters();
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

fn check(
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
