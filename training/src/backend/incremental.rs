//! The operations of a forward pass that goes on where an earlier one ended.
//!
//! To generate text, a model is asked for one token after another. What its layers made of earlier
//! positions does not change, so keys and values are kept and only new positions are computed.

use std::fmt::Debug;

use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};

use super::TpBackend;
use crate::parallel::VocabularyRange;

/// The sizes of one layer's keys and values on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValueShape {
    /// Texts side by side.
    pub rows: usize,
    /// Attention heads of the rank.
    pub heads: usize,
    /// Width of a head.
    pub head_size: usize,
    /// Positions that there is room for.
    pub capacity: usize,
}

/// What a device implements to generate text, beside a forward pass.
///
/// The numbers of a position do not depend, to the last bit, on how many rows or positions are
/// computed at a time. That makes a text the same with the cache as without it, alone as among
/// others.
pub trait IncrementalKernels: TpBackend {
    /// Keys and values of one layer.
    type KeyValues: Debug + Send;

    /// Room for `shape`, with no position in it.
    fn key_values(shape: KeyValueShape, device: &Self::Device) -> Self::KeyValues;

    /// Makes row `i` go on from what row `rows[i]` was.
    fn select_rows(key_values: &mut Self::KeyValues, rows: &[usize]);

    /// `[rows, seq, k]` times `[k, n]`.
    fn row_product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Appends the keys and values of new positions, and lets their queries look at all positions
    /// up to their own: `softmax(scale · Q Kᵀ) V` by heads.
    ///
    /// `query_key_value` is `[rows, seq, 3 · heads · head_size]`, queries, keys and values side by
    /// side; the result `[rows, seq, heads · head_size]`.
    fn cached_attention(
        query_key_value: FloatTensor<Self>,
        key_values: &mut Self::KeyValues,
        scale: f64,
    ) -> FloatTensor<Self>;

    /// The logits of `hidden` `[rows, hidden]` by the rank's part of the table, `[vocabulary.rows,
    /// hidden]`: `[rows, vocabulary.rows]`, -∞ for rows that pad the vocabulary.
    fn logits(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> Vec<f32>;
}

/// [`IncrementalKernels::row_product`] on burn's tensors.
pub fn row_product<B: IncrementalKernels>(
    input: Tensor<B, 3>,
    weight: Tensor<B, 2>,
) -> Tensor<B, 3> {
    let (input, weight) = (input.into_primitive().tensor(), weight.into_primitive().tensor());
    Tensor::from_primitive(TensorPrimitive::Float(B::row_product(input, weight)))
}

/// [`IncrementalKernels::cached_attention`] on burn's tensors.
pub fn cached_attention<B: IncrementalKernels>(
    query_key_value: Tensor<B, 3>,
    key_values: &mut B::KeyValues,
    scale: f64,
) -> Tensor<B, 3> {
    let query_key_value = query_key_value.into_primitive().tensor();
    let context = B::cached_attention(query_key_value, key_values, scale);
    Tensor::from_primitive(TensorPrimitive::Float(context))
}
