//! The sizes of a BERT, checked before anything is allocated.

use serde::{Deserialize, Serialize};

use crate::backend::Activation;
use crate::error::TrainError;
use crate::model::{Arrangement, LayerConfig};

/// Segments that a token can be of.
pub(super) const TOKEN_TYPES: usize = 2;

/// The sizes of a BERT, as a checkpoint's manifest has them: what a configuration's `[model.bert]`
/// comes to with the vocabulary of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BertConfig {
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
    /// What a block's output is added to: figure 7 of the paper.
    pub arrangement: Arrangement,
}

impl BertConfig {
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
            arrangement: self.arrangement,
        }
    }

    /// Width of the MLP's inner layer.
    #[must_use]
    pub fn ffn_size(&self) -> usize {
        self.ffn_hidden_size.unwrap_or(self.hidden_size.saturating_mul(4))
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
