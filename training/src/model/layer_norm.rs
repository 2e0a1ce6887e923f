//! Layer norm with a learned gain and bias.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::backend::{TpBackend, layer_norm};
use crate::error::TrainError;
use crate::parameters::ParameterLoader;

/// `(x - mean) / √(variance + ε) · weight + bias` over the last dimension.
#[derive(Module, Debug)]
pub struct LayerNorm<B: TpBackend> {
    /// The gain, `[hidden_size]`.
    pub weight: Param<Tensor<B, 1>>,
    /// The bias, `[hidden_size]`.
    pub bias: Param<Tensor<B, 1>>,
    epsilon: f64,
}

impl<B: TpBackend> LayerNorm<B> {
    pub(super) fn init(
        hidden_size: usize,
        epsilon: f64,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            weight: parameters.load("weight", [hidden_size])?,
            bias: parameters.load("bias", [hidden_size])?,
            epsilon,
        })
    }

    /// `[batch, seq, hidden_size]` → the same.
    pub fn forward(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        layer_norm(input, self.weight.val(), self.bias.val(), self.epsilon)
    }
}
