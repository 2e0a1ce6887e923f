//! Causal self-attention by heads.

use burn::module::Module;
use burn::tensor::Tensor;

use super::LayerConfig;
use crate::backend::{
    AttentionSettings, IncrementalKernels, KeyValueShape, TpBackend, VisibleKeys, attention,
    cached_attention,
};
use crate::error::TrainError;
use crate::parallel::random::{DropoutKey, DropoutSite, KeyedDropout};
use crate::parallel::{
    ColumnParallelLinear, ColumnParallelLinearConfig, RowParallelLinear, RowParallelLinearConfig,
};
use crate::parameters::{HeadRange, ParameterLoader};

/// `softmax(Q Kᵀ / √head_size) V` for each head, between two projections.
///
/// The first projection is split by column into whole heads, which then work on their own; the
/// second by row. Shoeybi et al., section 3.2 and figure 3b.
#[derive(Module, Debug)]
pub struct SelfAttention<B: TpBackend> {
    /// Queries, keys and values of all heads: `hidden_size` to `3 · hidden_size`.
    pub query_key_value: ColumnParallelLinear<B>,
    /// From the heads' outputs back to the residual stream.
    pub dense: RowParallelLinear<B>,
    head_size: usize,
    #[module(skip)]
    heads: HeadRange,
    #[module(skip)]
    attention_dropout: KeyedDropout,
    #[module(skip)]
    output_dropout: KeyedDropout,
}

impl<B: TpBackend> SelfAttention<B> {
    pub(super) fn init(
        config: &LayerConfig,
        layer: usize,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let hidden = config.hidden_size;
        let query_key_value =
            ColumnParallelLinearConfig::new("layer.attention", hidden, 3 * hidden);
        let dense = RowParallelLinearConfig::new("layer.attention", hidden, hidden);
        Ok(Self {
            query_key_value: query_key_value.init(&parameters.child("query_key_value"))?,
            dense: dense.init(&parameters.child("dense"))?,
            head_size: config.head_size(),
            heads: parameters.heads(config.num_attention_heads)?,
            attention_dropout: KeyedDropout {
                site: DropoutSite::AttentionProbabilities,
                layer,
                probability: config.attention_dropout,
            },
            output_dropout: KeyedDropout {
                site: DropoutSite::AttentionOutput,
                layer,
                probability: config.hidden_dropout,
            },
        })
    }

    /// `residual + dropout(attention(input))`, all `[batch, seq, hidden_size]`, where each query sees
    /// the keys `visible`.
    pub fn forward_onto(
        &self,
        residual: Tensor<B, 3>,
        input: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout_key: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        let query_key_value = self.query_key_value.forward(input);
        let mask = self.attention_dropout.mask(dropout_key);
        let settings = AttentionSettings {
            heads: self.heads.count,
            scale: self.scale(),
            visible: visible.clone(),
            mask: mask.map(|mask| mask.with_first_head(self.heads.first)),
        };
        let context = attention(query_key_value, settings);
        self.dense.forward_onto(residual, context, self.output_dropout.mask(dropout_key))
    }

    fn scale(&self) -> f64 {
        (self.head_size as f64).powf(-0.5)
    }
}

impl<B: IncrementalKernels> SelfAttention<B> {
    /// Room for the keys and values of `capacity` positions of `rows` texts.
    pub(super) fn key_values(
        &self,
        rows: usize,
        capacity: usize,
        device: &B::Device,
    ) -> B::KeyValues {
        let (heads, head_size) = (self.heads.count, self.head_size);
        B::key_values(KeyValueShape { rows, heads, head_size, capacity }, device)
    }

    /// `residual + attention(input)` for new positions, `[rows, seq, hidden_size]`, that also see
    /// those in `key_values` and are added to them; without dropout.
    pub fn forward_cached(
        &self,
        residual: Tensor<B, 3>,
        input: Tensor<B, 3>,
        key_values: &mut B::KeyValues,
    ) -> Tensor<B, 3> {
        let query_key_value = self.query_key_value.forward_by_row(input);
        let context = cached_attention(query_key_value, key_values, self.scale());
        self.dense.forward_onto_by_row(residual, context)
    }
}
