//! The operations that a transformer needs beyond burn's own, and who implements them.
//!
//! burn gives each device a `Backend` with elementary operations, and `Autodiff<B>` on top of it
//! records gradients. A layer norm or a loss made of those would write every intermediate result
//! to memory, and none of them can talk to other ranks. Two traits add what is missing:
//!
//! - [`TpBackend`] is what layers and models call. Its operations are differentiable.
//! - [`TpKernels`] is what a device implements: each operation forward and backward, without a
//!   graph. [`cpu`] does it for [`Cpu`].
//!
//! [`TrainingBackend`] is what a pass asks of a backend with gradients beside them.
//! [`IncrementalKernels`] are what generating text needs beside them.
//!
//! `autodiff` makes `Autodiff<B>` a [`TpBackend`] for every device that has the kernels, with
//! hand-written backward passes.

mod attention;
mod autodiff;
pub mod cpu;
mod functions;
mod incremental;
mod precision;
mod running_sums;
mod training;

pub use attention::{AttentionSettings, VisibleKeys};
use burn::tensor::backend::Backend;
use burn::tensor::ops::{FloatTensor, IntTensor};
pub use functions::{
    attention, bias_add, bias_dropout_add, bias_gelu, convert, dropout, layer_norm, linear, lookup,
};
pub use incremental::{IncrementalKernels, KeyValueShape, cached_attention, row_product};
pub use precision::{Precision, Recompute};
use serde::{Deserialize, Serialize};
pub use training::{TrainingBackend, lend_sum, reclaim_sum, with_gradient, with_gradients};

use crate::parallel::random::DropoutMask;
use crate::parallel::{Region, Targets, TensorParallelGroup, TokenScore, VocabularyRange};

/// The CPU, without gradients: for evaluation.
pub type Cpu = burn_flex::Flex;

/// The CPU with gradients: for training.
pub type CpuAutodiff = burn_autodiff::Autodiff<Cpu>;

/// Which form of GELU, `x · Φ(x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Exact: `Φ(x) = (1 + erf(x / √2)) / 2`.
    #[default]
    Gelu,
    /// The approximation `Φ(x) ≈ (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2`.
    GeluTanh,
}

/// A backend for tensor-parallel transformers.
///
/// Shapes are those of one rank. Every operation is differentiable on a backend that records
/// gradients, except [`head_token_scores`](Self::head_token_scores).
pub trait TpBackend: Backend {
    /// *f*: `input` as it is; its gradient is summed over the ranks.
    fn copy_to_region(input: FloatTensor<Self>, region: &Region) -> FloatTensor<Self>;

    /// *g*: the sum of `partial` over the ranks; its gradient passes as it is.
    fn reduce_from_region(partial: FloatTensor<Self>, region: &Region) -> FloatTensor<Self>;

    /// Layer norm over the last dimension: `(x - mean) / √(variance + epsilon) · gain + bias`.
    fn fused_layer_norm(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;

    /// `tensor` rounded to `precision`, or widened to it; its gradient the other way.
    fn convert(tensor: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self>;

    /// `input · weight + bias`, of `input` `[…, k]` and `weight` `[k, n]`, in the precision of
    /// `input`, to which `weight` is rounded. Products are added up in `f32` and rounded once, after
    /// the bias; the gradients of weight and bias are not rounded.
    fn fused_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self>;

    /// `input + bias`; `bias` lies along the last dimension.
    fn bias_add(input: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `gelu(input + bias)`; `bias` lies along the last dimension.
    fn bias_gelu(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// `residual + dropout(input + bias)` on `[batch, seq, hidden]`; `bias` lies along the last
    /// dimension, and without a mask nothing is dropped.
    fn bias_dropout_add(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self>;

    /// Dropout by key on `[batch, seq, hidden]`.
    fn dropout(input: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// `dropout(softmax(scale · Q Kᵀ)) V` for each head, over the keys that each query sees.
    ///
    /// `query_key_value` is `[batch, seq, 3 · heads · head_size]`: the queries of all heads, their
    /// keys, their values. Returns `[batch, seq, heads · head_size]`.
    fn fused_attention(
        query_key_value: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self>;

    /// The rows of `weight` `[rows, hidden]` for `tokens` `[batch, seq]`; 0 for tokens outside of
    /// `vocabulary`.
    fn masked_lookup(
        weight: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> FloatTensor<Self>;

    /// The weighted sum of cross-entropies of `hidden` `[rows, hidden]` scored by `weight`
    /// `[vocabulary.rows, hidden]`, rounded to the precision of `hidden`, plus `bias`
    /// `[vocabulary.rows]`, as `[1]` of `f32`; see
    /// [`vocab_parallel_cross_entropy`](crate::parallel::vocab_parallel_cross_entropy).
    fn head_loss(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &Targets,
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> FloatTensor<Self>;

    /// The cross-entropy and the predicted token of every row, without weights and without a graph.
    fn head_token_scores(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &[u32],
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> Vec<TokenScore>;
}

/// What [`TpKernels::head`] computes beside the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeadExtras {
    /// The gradient of the hidden states.
    pub hidden_gradient: bool,
    /// The gradient of the weight.
    pub weight_gradient: bool,
    /// The gradient of the bias.
    pub bias_gradient: bool,
    /// The token with the largest logit of every row.
    pub predictions: bool,
}

/// What [`TpKernels::head`] returns.
#[derive(Debug)]
pub struct HeadOutput<B: Backend> {
    /// The weighted sum of the losses, `[1]`.
    pub loss: FloatTensor<B>,
    /// The loss of every row.
    pub row_losses: Vec<f32>,
    /// The token that every row predicts, if asked for.
    pub predictions: Option<Vec<u32>>,
    /// This rank's share of the loss's gradient for the hidden states in `f32`, if asked for.
    pub hidden_gradient: Option<FloatTensor<B>>,
    /// The loss's gradient for the weight in `f32`, if asked for.
    pub weight_gradient: Option<FloatTensor<B>>,
    /// The loss's gradient for the bias in `f32`, if asked for.
    pub bias_gradient: Option<FloatTensor<B>>,
}

/// The kernels that a device implements, without a graph.
///
/// A `…_backward` takes what its forward took and the gradient of what it returned, and returns
/// the gradients of its inputs. Masks are drawn again from their keys.
pub trait TpKernels: Backend {
    /// The sum over all ranks, called `name`.
    fn all_reduce(
        tensor: FloatTensor<Self>,
        name: &str,
        group: &TensorParallelGroup,
    ) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::fused_layer_norm`].
    fn layer_norm_forward(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;

    /// Gradients of (input, gain, bias).
    fn layer_norm_backward(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        epsilon: f64,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3];

    /// `tensor` rounded to `precision`, or widened to it.
    fn convert(tensor: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::fused_linear`].
    fn linear_forward(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self>;

    /// Gradient of a linear layer's input, in the precision of `gradient`.
    fn linear_input_gradient(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Gradient of a linear layer's weight in `f32`, plus `sum`, whose memory it takes.
    fn linear_weight_gradient(
        input: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        sum: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::bias_add`].
    fn bias_add_forward(input: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Gradient of a bias that was added along the last dimension: the sum of all rows, in `f32`.
    fn bias_gradient(gradient: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::bias_gelu`].
    fn bias_gelu_forward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// Gradients of (input, bias).
    fn bias_gelu_backward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2];

    /// Forward of [`TpBackend::bias_dropout_add`].
    fn bias_dropout_add_forward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self>;

    /// Gradients of (input, bias); the residual's is `gradient` itself.
    fn bias_dropout_add_backward(
        gradient: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> [FloatTensor<Self>; 2];

    /// Forward of [`TpBackend::dropout`], and its backward: both multiply by the mask.
    fn apply_dropout(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::fused_attention`]. Returns beside the context what the backward kernel
    /// wants to know of each query and head, in `f32`, in an order of the device's own.
    fn attention_forward(
        query_key_value: FloatTensor<Self>,
        settings: &AttentionSettings,
    ) -> [FloatTensor<Self>; 2];

    /// Gradient of `query_key_value`, from that of the context.
    fn attention_backward(
        query_key_value: FloatTensor<Self>,
        settings: &AttentionSettings,
        normalizers: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Forward of [`TpBackend::masked_lookup`].
    fn lookup_forward(
        weight: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> FloatTensor<Self>;

    /// Adds the gradient of the looked-up rows to `weight_gradient` `[rows, hidden]`.
    fn lookup_backward(
        weight_gradient: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Head and loss in one pass over the rows, with the extras that are asked for.
    ///
    /// The loss is a plain sum, so its gradients are known before anything is asked of them; the
    /// backward pass only scales them.
    fn head(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &Targets,
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
        extras: HeadExtras,
    ) -> HeadOutput<Self>;

    /// `sum + addend`, in the memory of `sum`.
    fn add(sum: FloatTensor<Self>, addend: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `tensor` times the one number that `factor` `[1]` holds.
    fn scale(tensor: FloatTensor<Self>, factor: &FloatTensor<Self>) -> FloatTensor<Self>;
}

/// A device without a graph runs the forward kernels.
impl<B: TpKernels> TpBackend for B {
    fn copy_to_region(input: FloatTensor<B>, _region: &Region) -> FloatTensor<B> {
        input
    }

    fn reduce_from_region(partial: FloatTensor<B>, region: &Region) -> FloatTensor<B> {
        B::all_reduce(partial, region.reduce_name(), region.group())
    }

    fn fused_layer_norm(
        input: FloatTensor<B>,
        gain: FloatTensor<B>,
        bias: FloatTensor<B>,
        epsilon: f64,
    ) -> FloatTensor<B> {
        B::layer_norm_forward(input, gain, bias, epsilon)
    }

    fn convert(tensor: FloatTensor<B>, precision: Precision) -> FloatTensor<B> {
        <B as TpKernels>::convert(tensor, precision)
    }

    fn fused_linear(
        input: FloatTensor<B>,
        weight: FloatTensor<B>,
        bias: Option<FloatTensor<B>>,
    ) -> FloatTensor<B> {
        B::linear_forward(input, weight, bias)
    }

    fn bias_add(input: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
        B::bias_add_forward(input, bias)
    }

    fn bias_gelu(
        input: FloatTensor<B>,
        bias: FloatTensor<B>,
        activation: Activation,
    ) -> FloatTensor<B> {
        B::bias_gelu_forward(input, bias, activation)
    }

    fn bias_dropout_add(
        input: FloatTensor<B>,
        bias: FloatTensor<B>,
        residual: FloatTensor<B>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<B> {
        B::bias_dropout_add_forward(input, bias, residual, mask)
    }

    fn dropout(input: FloatTensor<B>, mask: DropoutMask) -> FloatTensor<B> {
        B::apply_dropout(input, mask)
    }

    fn fused_attention(
        query_key_value: FloatTensor<B>,
        settings: AttentionSettings,
    ) -> FloatTensor<B> {
        let [context, _] = B::attention_forward(query_key_value, &settings);
        context
    }

    fn masked_lookup(
        weight: FloatTensor<B>,
        tokens: IntTensor<B>,
        vocabulary: &VocabularyRange,
    ) -> FloatTensor<B> {
        B::lookup_forward(weight, tokens, vocabulary)
    }

    fn head_loss(
        hidden: FloatTensor<B>,
        weight: FloatTensor<B>,
        bias: Option<FloatTensor<B>>,
        targets: &Targets,
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> FloatTensor<B> {
        B::head(hidden, weight, bias, targets, vocabulary, group, HeadExtras::default()).loss
    }

    fn head_token_scores(
        hidden: FloatTensor<B>,
        weight: FloatTensor<B>,
        bias: Option<FloatTensor<B>>,
        targets: &[u32],
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> Vec<TokenScore> {
        let targets = Targets::new(targets, &vec![1.0; targets.len()]);
        let extras = HeadExtras { predictions: true, ..HeadExtras::default() };
        let head = B::head(hidden, weight, bias, &targets, vocabulary, group, extras);
        let predictions = head.predictions.expect("predictions were asked for");
        let rows = head.row_losses.into_iter().zip(predictions);
        rows.map(|(loss, predicted)| TokenScore { loss, predicted }).collect()
    }
}
