//! The fused operations on burn's tensors, as layers write them.

use burn::tensor::{Int, Tensor, TensorPrimitive};

use super::{Activation, AttentionSettings, Precision, TpBackend};
use crate::parallel::VocabularyRange;
use crate::parallel::random::DropoutMask;

/// `(x - mean) / √(variance + epsilon) · gain + bias` over the last dimension.
pub fn layer_norm<B: TpBackend>(
    input: Tensor<B, 3>,
    gain: Tensor<B, 1>,
    bias: Tensor<B, 1>,
    epsilon: f64,
) -> Tensor<B, 3> {
    wrap(B::fused_layer_norm(unwrap(input), unwrap(gain), unwrap(bias), epsilon))
}

/// `tensor` rounded to `precision`, or widened to it; as it is where it has that precision.
pub fn convert<B: TpBackend, const D: usize>(
    tensor: Tensor<B, D>,
    precision: Precision,
) -> Tensor<B, D> {
    if Precision::of(tensor.dtype()) == precision {
        return tensor;
    }
    wrap(B::convert(unwrap(tensor), precision))
}

/// `input · weight + bias`, in the precision of `input`, to which `weight` is rounded.
pub fn linear<B: TpBackend>(
    input: Tensor<B, 3>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
) -> Tensor<B, 3> {
    wrap(B::fused_linear(unwrap(input), unwrap(weight), bias.map(unwrap)))
}

/// `input + bias`.
pub fn bias_add<B: TpBackend>(input: Tensor<B, 3>, bias: Tensor<B, 1>) -> Tensor<B, 3> {
    wrap(B::bias_add(unwrap(input), unwrap(bias)))
}

/// `gelu(input + bias)`.
pub fn bias_gelu<B: TpBackend>(
    input: Tensor<B, 3>,
    bias: Tensor<B, 1>,
    activation: Activation,
) -> Tensor<B, 3> {
    wrap(B::bias_gelu(unwrap(input), unwrap(bias), activation))
}

/// `residual + dropout(input + bias)`; without a mask nothing is dropped.
pub fn bias_dropout_add<B: TpBackend>(
    input: Tensor<B, 3>,
    bias: Tensor<B, 1>,
    residual: Tensor<B, 3>,
    mask: Option<DropoutMask>,
) -> Tensor<B, 3> {
    wrap(B::bias_dropout_add(unwrap(input), unwrap(bias), unwrap(residual), mask))
}

/// Dropout on `[batch, seq, hidden]`; without a mask `input` as it is.
pub fn dropout<B: TpBackend>(input: Tensor<B, 3>, mask: Option<DropoutMask>) -> Tensor<B, 3> {
    match mask {
        Some(mask) => wrap(B::dropout(unwrap(input), mask)),
        None => input,
    }
}

/// The rows of `table` `[rows, width]` that `rows` `[batch, seq]` names: `[batch, seq, width]`.
pub fn lookup<B: TpBackend>(table: Tensor<B, 2>, rows: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    let [count, _] = table.dims();
    let all = VocabularyRange { first: 0, rows: count, tokens: count };
    wrap(B::masked_lookup(unwrap(table), rows.into_primitive(), &all))
}

/// `dropout(softmax(scale · Q Kᵀ)) V` for each head, over the keys that each query sees.
///
/// `query_key_value` is `[batch, seq, 3 · heads · head_size]`: the queries of all heads, their
/// keys, their values. Returns `[batch, seq, heads · head_size]`.
///
/// # Panics
///
/// When sizes disagree.
pub fn attention<B: TpBackend>(
    query_key_value: Tensor<B, 3>,
    settings: AttentionSettings,
) -> Tensor<B, 3> {
    wrap(B::fused_attention(unwrap(query_key_value), settings))
}

pub(super) fn unwrap<B: TpBackend, const D: usize>(
    tensor: Tensor<B, D>,
) -> B::FloatTensorPrimitive {
    tensor.into_primitive().tensor()
}

pub(super) fn wrap<B: TpBackend, const D: usize>(
    primitive: B::FloatTensorPrimitive,
) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}
