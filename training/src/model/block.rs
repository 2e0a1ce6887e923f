//! One layer of the transformer.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{Gpt2Config, LayerNorm, Mlp, SelfAttention};
use crate::backend::{IncrementalKernels, TpBackend};
use crate::error::TrainError;
use crate::parallel::random::DropoutKey;
use crate::parameters::ParameterLoader;

/// `x + attention(norm(x))`, then `x + mlp(norm(x))`.
#[derive(Module, Debug)]
pub struct TransformerBlock<B: TpBackend> {
    /// Before attention.
    pub input_layernorm: LayerNorm<B>,
    /// Tokens exchange information.
    pub attention: SelfAttention<B>,
    /// Before the MLP.
    pub post_attention_layernorm: LayerNorm<B>,
    /// Each token by itself.
    pub mlp: Mlp<B>,
}

impl<B: TpBackend> TransformerBlock<B> {
    pub(super) fn init(
        config: &Gpt2Config,
        layer: usize,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let norm = |name: &str| {
            let parameters = parameters.child(name);
            LayerNorm::init(config.hidden_size, config.layer_norm_epsilon, &parameters)
        };
        Ok(Self {
            input_layernorm: norm("input_layernorm")?,
            attention: SelfAttention::init(config, layer, &parameters.child("attention"))?,
            post_attention_layernorm: norm("post_attention_layernorm")?,
            mlp: Mlp::init(config, layer, &parameters.child("mlp"))?,
        })
    }

    /// `[batch, seq, hidden_size]` → the same.
    pub fn forward(&self, hidden: Tensor<B, 3>, dropout_key: Option<&DropoutKey>) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(hidden.clone());
        let hidden = self.attention.forward_onto(hidden, normed, dropout_key);
        let normed = self.post_attention_layernorm.forward(hidden.clone());
        self.mlp.forward_onto(hidden, normed, dropout_key)
    }
}

impl<B: IncrementalKernels> TransformerBlock<B> {
    /// [`forward`](Self::forward) for new positions that also see those in `key_values` and are
    /// added to them; without dropout.
    pub fn forward_cached(
        &self,
        hidden: Tensor<B, 3>,
        key_values: &mut B::KeyValues,
    ) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(hidden.clone());
        let hidden = self.attention.forward_cached(hidden, normed, key_values);
        let normed = self.post_attention_layernorm.forward(hidden.clone());
        self.mlp.forward_by_row(hidden, normed)
    }
}
