//! One layer of the transformer.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{Arrangement, LayerConfig, LayerNorm, Mlp, SelfAttention};
use crate::backend::{IncrementalKernels, TpBackend, VisibleKeys};
use crate::error::TrainError;
use crate::parallel::random::DropoutKey;
use crate::parameters::ParameterLoader;

/// `x + attention(norm(x))`, then `x + mlp(norm(x))`; or, in the arrangement of figure 7a,
/// `norm(x)` in place of `x` in both sums.
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
    #[module(skip)]
    arrangement: Arrangement,
}

impl<B: TpBackend> TransformerBlock<B> {
    pub(super) fn init(
        config: &LayerConfig,
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
            arrangement: config.arrangement,
        })
    }

    /// `[batch, seq, hidden_size]` → the same, where each query sees the keys `visible`.
    pub fn forward(
        &self,
        hidden: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout_key: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        let normed = self.input_layernorm.forward(hidden.clone());
        let residual = self.residual(hidden, &normed);
        let hidden = self.attention.forward_onto(residual, normed, visible, dropout_key);
        let normed = self.post_attention_layernorm.forward(hidden.clone());
        self.mlp.forward_onto(self.residual(hidden, &normed), normed, dropout_key)
    }

    /// What a block's output is added to: what its norm got, or what that gave.
    fn residual(&self, hidden: Tensor<B, 3>, normed: &Tensor<B, 3>) -> Tensor<B, 3> {
        match self.arrangement {
            Arrangement::PreNorm => hidden,
            Arrangement::PostNorm => normed.clone(),
        }
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
        let residual = self.residual(hidden, &normed);
        let hidden = self.attention.forward_cached(residual, normed, key_values);
        let normed = self.post_attention_layernorm.forward(hidden.clone());
        self.mlp.forward_by_row(self.residual(hidden, &normed), normed)
    }
}
