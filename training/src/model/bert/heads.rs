//! What BERT reads off its hidden states. Nothing of it is split but the product with the
//! vocabulary.

use burn::module::{Module, Param};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};

use super::BertConfig;
use crate::backend::{Activation, Precision, TpBackend, bias_gelu, convert, linear, lookup};
use crate::error::TrainError;
use crate::model::LayerNorm;
use crate::parallel::{LmHead, Targets, TensorParallelGroup, TokenScore, VocabularyRange};
use crate::parameters::ParameterLoader;

/// A linear layer that is not split.
#[derive(Module, Debug)]
pub struct Dense<B: TpBackend> {
    /// `[d_input, d_output]`.
    pub weight: Param<Tensor<B, 2>>,
    /// `[d_output]`.
    pub bias: Param<Tensor<B, 1>>,
}

impl<B: TpBackend> Dense<B> {
    pub(in crate::model) fn init(
        [d_input, d_output]: [usize; 2],
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            weight: parameters.load("weight", [d_input, d_output])?,
            bias: parameters.load("bias", [d_output])?,
        })
    }

    /// `[batch, seq, d_input]` → `[batch, seq, d_output]`.
    pub fn forward(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        linear(input, self.weight.val(), Some(self.bias.val()))
    }
}

/// Scores what stands behind a mask: `norm(GELU(h A + b)) Eᵀ + c`, with `E` the word embedding.
#[derive(Module, Debug)]
pub struct MaskedLmHead<B: TpBackend> {
    /// `A` and `b`.
    pub dense: Dense<B>,
    /// Before the product.
    pub layernorm: LayerNorm<B>,
    /// `c`, split like the table.
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    head: LmHead,
}

impl<B: TpBackend> MaskedLmHead<B> {
    pub(super) fn init(
        config: &BertConfig,
        group: &TensorParallelGroup,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let (hidden, epsilon) = (config.hidden_size, config.layer_norm_epsilon);
        let rows = VocabularyRange::new(config.vocab_size, group).rows;
        Ok(Self {
            dense: Dense::init([hidden, hidden], &parameters.child("dense"))?,
            layernorm: LayerNorm::init(hidden, epsilon, &parameters.child("layernorm"))?,
            bias: parameters.load("bias", [rows])?,
            activation: config.activation,
            head: LmHead::new("head", config.vocab_size, group),
        })
    }

    /// The weighted sum of the losses of `hidden` `[1, rows, hidden_size]`, `[1]`; `embedding` is
    /// the table.
    ///
    /// # Panics
    ///
    /// When there is not one target for each row, or one is not in the vocabulary.
    pub fn loss(
        &self,
        hidden: Tensor<B, 3>,
        embedding: Tensor<B, 2>,
        targets: &Targets,
    ) -> Tensor<B, 1> {
        self.head.loss(self.transform(hidden), embedding, Some(self.bias.val()), targets)
    }

    /// Loss and prediction of each row of `hidden` `[1, rows, hidden_size]`, without a graph.
    ///
    /// # Panics
    ///
    /// As [`loss`](Self::loss).
    #[must_use]
    pub fn token_scores(
        &self,
        hidden: Tensor<B, 3>,
        embedding: Tensor<B, 2>,
        targets: &[u32],
    ) -> Vec<TokenScore> {
        let hidden = self.transform(hidden);
        let [batch, seq, width] = hidden.dims();
        let hidden = hidden.reshape([batch * seq, width]);
        self.head.token_scores(hidden, embedding, Some(self.bias.val()), targets)
    }

    /// All logits of `hidden` `[batch, seq, hidden_size]`, `[batch, seq, vocab_size]`, without a
    /// graph.
    pub fn logits(&self, hidden: Tensor<B, 3>, embedding: Tensor<B, 2>) -> Tensor<B, 3> {
        self.head.logits(self.transform(hidden), embedding, Some(self.bias.val()))
    }

    fn transform(&self, hidden: Tensor<B, 3>) -> Tensor<B, 3> {
        let product = linear(hidden, self.dense.weight.val(), None);
        self.layernorm.forward(bias_gelu(product, self.dense.bias.val(), self.activation))
    }
}

/// What a sample is as a whole: `tanh(h A + b)` of its first token, `[CLS]`.
#[derive(Module, Debug)]
pub struct Pooler<B: TpBackend> {
    /// `A` and `b`.
    pub dense: Dense<B>,
}

impl<B: TpBackend> Pooler<B> {
    pub(in crate::model) fn init(
        hidden_size: usize,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let sizes = [hidden_size, hidden_size];
        Ok(Self { dense: Dense::init(sizes, &parameters.child("dense"))? })
    }

    /// From `hidden` `[batch, seq, hidden_size]`: `[batch, 1, hidden_size]` in `f32`. The product
    /// is computed in `precision`; what follows is a few numbers, in `f32`.
    pub fn forward(&self, hidden: Tensor<B, 3>, precision: Precision) -> Tensor<B, 3> {
        let [batch, seq, _] = hidden.dims();
        let firsts: Vec<usize> = (0..batch).map(|sample| sample * seq).collect();
        let firsts = convert(rows_of(hidden, &firsts, [batch, 1]), precision);
        convert(self.dense.forward(firsts), Precision::F32).tanh()
    }
}

/// The rows `rows` of `hidden` `[batch, seq, width]`, counted row by row through the batch, as
/// `[shape[0], shape[1], width]` in `f32`.
pub(in crate::model) fn rows_of<B: TpBackend>(
    hidden: Tensor<B, 3>,
    rows: &[usize],
    shape: [usize; 2],
) -> Tensor<B, 3> {
    let ([batch, seq, width], device) = (hidden.dims(), hidden.device());
    let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
    let rows = Tensor::<B, 2, Int>::from_data(TensorData::new(rows, shape), &device);
    lookup(convert(hidden, Precision::F32).reshape([batch * seq, width]), rows)
}

/// The weighted sum of cross-entropies of `logits` `[rows, classes]`, `[1]`, all in `f32`.
///
/// # Panics
///
/// When there is not one label and weight for each row, or a label is no class.
pub(in crate::model) fn class_loss<B: TpBackend>(
    logits: Tensor<B, 2>,
    labels: &[u32],
    weights: &[f32],
) -> Tensor<B, 1> {
    let ([rows, classes], device) = (logits.dims(), logits.device());
    assert!(labels.len() == rows && weights.len() == rows, "a label and a weight for each row");
    let mut selected = vec![0.0_f32; rows * classes];
    for (row, (&label, &weight)) in labels.iter().zip(weights).enumerate() {
        assert!((label as usize) < classes, "class {label} of {classes}");
        selected[row * classes + label as usize] = -weight;
    }
    let selected = Tensor::<B, 2>::from_data(TensorData::new(selected, [rows, classes]), &device);
    (log_softmax(logits, 1) * selected).sum()
}
