//! BERT as the paper trains it: embeddings, layers that see both sides, and two heads.
//!
//! Masked tokens are predicted from both sides (Devlin et al. 2018, *BERT: pre-training of deep
//! bidirectional transformers*), and of two segments the order (Lan et al. 2019, *ALBERT*); Shoeybi
//! et al., sections 4.2 and 5.3. Layers are GPT-2's, in either arrangement of figure 7.

mod config;
mod embedding;
mod heads;
mod multiple_choice;
mod table;

use burn::module::Module;
use burn::tensor::{Int, Tensor};

pub use self::config::BertConfig;
pub use self::embedding::{BertEmbedding, TokenTypeEmbedding};
pub use self::heads::{Dense, MaskedLmHead, Pooler};
use self::heads::{class_loss, rows_of};
pub use self::multiple_choice::BertMultipleChoice;
use super::{LayerNorm, TransformerBlock};
use crate::backend::{Precision, TpBackend, VisibleKeys, convert};
use crate::error::TrainError;
use crate::parallel::random::DropoutKey;
use crate::parallel::{Targets, TensorParallelGroup, TokenScore};
use crate::parameters::{ParameterLoader, ParameterSource};

/// A BERT with the heads that it is pre-trained with.
#[derive(Module, Debug)]
pub struct Bert<B: TpBackend> {
    /// Tokens, positions and segments.
    pub embedding: BertEmbedding<B>,
    /// The transformer's layers.
    pub layers: Vec<TransformerBlock<B>>,
    /// After the last layer.
    pub final_layernorm: LayerNorm<B>,
    /// Predicts masked tokens.
    pub lm_head: MaskedLmHead<B>,
    /// What a sample is as a whole.
    pub pooler: Pooler<B>,
    /// Predicts whether the segments of a sample are swapped.
    pub binary_head: Dense<B>,
    #[module(skip)]
    precision: Precision,
}

/// What the model reads: samples side by side, padded at the end.
#[derive(Debug, Clone)]
pub struct BertInputs<B: TpBackend> {
    /// `[batch, seq]`.
    pub tokens: Tensor<B, 2, Int>,
    /// The segment of each token, 0 or 1, of the same shape.
    pub token_types: Tensor<B, 2, Int>,
    /// How much of each sample is no padding.
    pub visible: VisibleKeys,
}

/// Positions whose tokens are to be predicted.
#[derive(Debug, Clone)]
pub struct MaskedPositions {
    /// The positions, counted row by row through the batch.
    rows: Vec<usize>,
    targets: Targets,
}

impl MaskedPositions {
    /// Those of `targets` that have a weight; all other positions need no score. Where none has,
    /// the first position stands in with the weight 0, so that every parameter has a gradient.
    ///
    /// # Panics
    ///
    /// When there is not one weight for each target, or there are no targets at all.
    #[must_use]
    pub fn new(targets: &[u32], weights: &[f32]) -> Self {
        assert_eq!(targets.len(), weights.len(), "one weight for each target");
        let mut rows: Vec<usize> = (0..targets.len()).filter(|&row| weights[row] != 0.0).collect();
        if rows.is_empty() {
            rows.push(0);
        }
        let tokens: Vec<u32> = rows.iter().map(|&row| targets[row]).collect();
        let weights: Vec<f32> = rows.iter().map(|&row| weights[row]).collect();
        Self { targets: Targets::new(&tokens, &weights), rows }
    }
}

impl<B: TpBackend> Bert<B> {
    /// Builds the part of the model that belongs to this member of `group`, with values from
    /// `source`.
    ///
    /// # Errors
    ///
    /// When the configuration is impossible or does not split over the group, before anything is
    /// allocated; or whatever `source` answers.
    pub fn init(
        config: &BertConfig,
        source: &dyn ParameterSource,
        group: &TensorParallelGroup,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        config.check_splits_over(group)?;
        let table = config.parameters();
        let parameters = ParameterLoader::new(&table, source, group, device);
        let hidden = config.hidden_size;
        Ok(Self {
            embedding: BertEmbedding::init(config, &parameters.child("embedding"))?,
            layers: init_layers(config, &parameters)?,
            final_layernorm: init_final_layernorm(config, &parameters)?,
            lm_head: MaskedLmHead::init(config, group, &parameters.child("lm_head"))?,
            pooler: Pooler::init(hidden, &parameters.child("pooler"))?,
            binary_head: Dense::init([hidden, 2], &parameters.child("binary_head"))?,
            precision: Precision::F32,
        })
    }

    /// The same model, which computes in `precision`; its parameters stay `f32`.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// What the first layer sees, `[batch, seq, hidden_size]` in the model's precision.
    ///
    /// # Panics
    ///
    /// When the sequence is longer than the positions that were learned.
    pub fn embed(&self, inputs: BertInputs<B>, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        let BertInputs { tokens, token_types, .. } = inputs;
        self.embedding.forward(tokens, token_types, dropout, self.precision)
    }

    /// What the heads see, `[batch, seq, hidden_size]`. With a key, dropout is applied; without, it
    /// is off. States of padding are numbers without a meaning.
    ///
    /// # Panics
    ///
    /// As [`embed`](Self::embed).
    pub fn hidden_states(
        &self,
        inputs: BertInputs<B>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        let visible = inputs.visible.clone();
        let embedded = self.embed(inputs, dropout);
        let layers = self.layers.iter();
        let hidden =
            layers.fold(embedded, |hidden, layer| layer.forward(hidden, &visible, dropout));
        self.final_layernorm.forward(hidden)
    }

    /// The weighted sums of the losses of masked tokens and of the order of segments, `[1]` each,
    /// from what the last layer returned.
    ///
    /// # Panics
    ///
    /// When a position is outside of the batch, a target not in the vocabulary, or there is not one
    /// label and weight for each sample.
    pub fn head_losses(
        &self,
        hidden: Tensor<B, 3>,
        masked: &MaskedPositions,
        labels: &[u32],
        label_weights: &[f32],
    ) -> [Tensor<B, 1>; 2] {
        let hidden = self.final_layernorm.forward(hidden);
        let selected = self.rows_of(hidden.clone(), &masked.rows);
        let masked_lm = self.lm_head.loss(selected, self.table(), &masked.targets);
        let order = class_loss(self.order_logits(hidden), labels, label_weights);
        [masked_lm, order]
    }

    /// Losses and predictions at masked positions, without dropout, and the logits of the order of
    /// segments, `[batch, 2]`: one pass for both. Call it on a model without a graph.
    ///
    /// # Panics
    ///
    /// As [`head_losses`](Self::head_losses).
    #[must_use]
    pub fn scores(
        &self,
        inputs: BertInputs<B>,
        masked: &MaskedPositions,
    ) -> (Vec<TokenScore>, Tensor<B, 2>) {
        let hidden = self.hidden_states(inputs, None);
        let selected = self.rows_of(hidden.clone(), &masked.rows);
        let scores = self.lm_head.token_scores(selected, self.table(), &masked.targets.tokens);
        (scores, self.order_logits(hidden))
    }

    /// All logits of the vocabulary, `[batch, seq, vocab_size]`, and of the order of segments,
    /// `[batch, 2]`, without dropout and without a graph: for looking at single predictions.
    ///
    /// # Panics
    ///
    /// As [`hidden_states`](Self::hidden_states).
    pub fn logits(&self, inputs: BertInputs<B>) -> (Tensor<B, 3>, Tensor<B, 2>) {
        let hidden = self.hidden_states(inputs, None);
        (self.lm_head.logits(hidden.clone(), self.table()), self.order_logits(hidden))
    }

    /// The rows `rows` of the batch, `[1, rows, hidden_size]` in the model's precision.
    fn rows_of(&self, hidden: Tensor<B, 3>, rows: &[usize]) -> Tensor<B, 3> {
        convert(rows_of(hidden, rows, [1, rows.len()]), self.precision)
    }

    fn order_logits(&self, hidden: Tensor<B, 3>) -> Tensor<B, 2> {
        let [batch, _, _] = hidden.dims();
        let pooled = self.pooler.forward(hidden, self.precision);
        self.binary_head.forward(pooled).reshape([batch, 2])
    }

    fn table(&self) -> Tensor<B, 2> {
        self.embedding.word_embeddings.weight.val()
    }
}

fn init_layers<B: TpBackend>(
    config: &BertConfig,
    parameters: &ParameterLoader<'_, B>,
) -> Result<Vec<TransformerBlock<B>>, TrainError> {
    let (sizes, layers) = (config.layers(), parameters.child("layers"));
    let init = |layer| TransformerBlock::init(&sizes, layer, &layers.child(layer));
    (0..config.num_layers).map(init).collect()
}

fn init_final_layernorm<B: TpBackend>(
    config: &BertConfig,
    parameters: &ParameterLoader<'_, B>,
) -> Result<LayerNorm<B>, TrainError> {
    let parameters = parameters.child("final_layernorm");
    LayerNorm::init(config.hidden_size, config.layer_norm_epsilon, &parameters)
}
