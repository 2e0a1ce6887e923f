//! The MLP of a transformer layer.

use burn::module::Module;
use burn::tensor::Tensor;

use super::LayerConfig;
use crate::backend::{Activation, IncrementalKernels, TpBackend, bias_gelu};
use crate::error::TrainError;
use crate::parallel::random::{DropoutKey, DropoutSite, KeyedDropout};
use crate::parallel::{
    ColumnParallelLinear, ColumnParallelLinearConfig, RowParallelLinear, RowParallelLinearConfig,
};
use crate::parameters::ParameterLoader;

/// `GELU(X A + b) B + c`, four times as wide inside.
///
/// `A` is split by column, so that GELU applies to whole units, and `B` by row. Shoeybi et al.,
/// section 3.1 and figure 3a.
#[derive(Module, Debug)]
pub struct Mlp<B: TpBackend> {
    /// `hidden_size` to `ffn_hidden_size`.
    pub dense_h_to_4h: ColumnParallelLinear<B>,
    /// `ffn_hidden_size` back to the residual stream.
    pub dense_4h_to_h: RowParallelLinear<B>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    dropout: KeyedDropout,
}

impl<B: TpBackend> Mlp<B> {
    pub(super) fn init(
        config: &LayerConfig,
        layer: usize,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let (hidden, ffn) = (config.hidden_size, config.ffn_hidden_size);
        let up = ColumnParallelLinearConfig::new("layer.mlp", hidden, ffn);
        let down = RowParallelLinearConfig::new("layer.mlp", ffn, hidden);
        Ok(Self {
            dense_h_to_4h: up.init(&parameters.child("dense_h_to_4h"))?,
            dense_4h_to_h: down.init(&parameters.child("dense_4h_to_h"))?,
            activation: config.activation,
            dropout: KeyedDropout {
                site: DropoutSite::MlpOutput,
                layer,
                probability: config.hidden_dropout,
            },
        })
    }

    /// `residual + dropout(mlp(input))`, all `[batch, seq, hidden_size]`.
    pub fn forward_onto(
        &self,
        residual: Tensor<B, 3>,
        input: Tensor<B, 3>,
        dropout_key: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        let product = self.dense_h_to_4h.product(input);
        let units = bias_gelu(product, self.dense_h_to_4h.bias.val(), self.activation);
        self.dense_4h_to_h.forward_onto(residual, units, self.dropout.mask(dropout_key))
    }
}

impl<B: IncrementalKernels> Mlp<B> {
    /// `residual + mlp(input)`, each position by itself; without dropout.
    pub fn forward_by_row(&self, residual: Tensor<B, 3>, input: Tensor<B, 3>) -> Tensor<B, 3> {
        let product = self.dense_h_to_4h.product_by_row(input);
        let units = bias_gelu(product, self.dense_h_to_4h.bias.val(), self.activation);
        self.dense_4h_to_h.forward_onto_by_row(residual, units)
    }
}
