//! The sizes of a GPT-2, checked before anything is allocated.

use serde::{Deserialize, Serialize};

use super::{Arrangement, LayerConfig};
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

impl Gpt2Config {
    /// What its layers need of it.
    #[must_use]
    pub fn layers(&self) -> LayerConfig {
        LayerConfig {
            num_layers: self.num_layers,
            hidden_size: self.hidden_size,
            num_attention_heads: self.num_attention_heads,
            ffn_hidden_size: self.ffn_size(),
            hidden_dropout: self.hidden_dropout,
            attention_dropout: self.attention_dropout,
            activation: self.activation,
            layer_norm_epsilon: self.layer_norm_epsilon,
            init_std: self.init_std,
            arrangement: Arrangement::PreNorm,
        }
    }

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

    /// Checks what concerns the model alone.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] for the first field with an impossible value.
    pub fn validate(&self) -> Result<(), TrainError> {
        self.layers().validate(self.seq_length, self.vocab_size)
    }
}
