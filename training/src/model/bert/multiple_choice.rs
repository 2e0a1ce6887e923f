//! BERT with a head that chooses among answers.

use burn::module::Module;
use burn::tensor::Tensor;

use super::heads::class_loss;
use super::{
    BertConfig, BertEmbedding, BertInputs, Dense, Pooler, init_final_layernorm, init_layers,
};
use crate::backend::{Precision, TpBackend, VisibleKeys, dropout};
use crate::error::TrainError;
use crate::model::{LayerNorm, TransformerBlock};
use crate::parallel::TensorParallelGroup;
use crate::parallel::random::{DropoutKey, DropoutSite, KeyedDropout};
use crate::parameters::{ParameterLoader, ParameterSource};

/// Chooses one of several samples: pooler, dropout, one number for each sample, and a softmax over
/// the samples of a question. How the paper is measured on RACE (section 5.3).
///
/// The samples of a question stand one after the other in the batch.
#[derive(Module, Debug)]
pub struct BertMultipleChoice<B: TpBackend> {
    /// Tokens, positions and segments.
    pub embedding: BertEmbedding<B>,
    /// The transformer's layers.
    pub layers: Vec<TransformerBlock<B>>,
    /// After the last layer.
    pub final_layernorm: LayerNorm<B>,
    /// What a sample is as a whole.
    pub pooler: Pooler<B>,
    /// How well it answers.
    pub classifier: Dense<B>,
    #[module(skip)]
    pooled_dropout: KeyedDropout,
    #[module(skip)]
    precision: Precision,
}

impl<B: TpBackend> BertMultipleChoice<B> {
    /// Builds the part of the model that belongs to this member of `group`, with values from
    /// `source`.
    ///
    /// # Errors
    ///
    /// As [`Bert::init`](super::Bert::init).
    pub fn init(
        config: &BertConfig,
        source: &dyn ParameterSource,
        group: &TensorParallelGroup,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        config.check_splits_over(group)?;
        let table = config.multiple_choice_parameters();
        let parameters = ParameterLoader::new(&table, source, group, device);
        let hidden = config.hidden_size;
        Ok(Self {
            embedding: BertEmbedding::init(config, &parameters.child("embedding"))?,
            layers: init_layers(config, &parameters)?,
            final_layernorm: init_final_layernorm(config, &parameters)?,
            pooler: Pooler::init(hidden, &parameters.child("pooler"))?,
            classifier: Dense::init([hidden, 1], &parameters.child("classifier"))?,
            pooled_dropout: KeyedDropout {
                site: DropoutSite::Pooled,
                layer: 0,
                probability: config.hidden_dropout,
            },
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

    /// How well each sample answers its question, from what the last layer returned: `[questions,
    /// choices]` in `f32`.
    ///
    /// # Panics
    ///
    /// When the samples are no whole number of questions.
    pub fn head_logits(
        &self,
        hidden: Tensor<B, 3>,
        choices: usize,
        dropout_key: Option<&DropoutKey>,
    ) -> Tensor<B, 2> {
        let [samples, _, _] = hidden.dims();
        assert!(samples.is_multiple_of(choices), "{samples} samples of {choices} choices");
        let hidden = self.final_layernorm.forward(hidden);
        let pooled = self.pooler.forward(hidden, self.precision);
        let pooled = dropout(pooled, self.pooled_dropout.mask(dropout_key));
        self.classifier.forward(pooled).reshape([samples / choices, choices])
    }

    /// The weighted sum of the losses of the questions, `[1]`, from what the last layer returned:
    /// one label and weight for each question.
    ///
    /// # Panics
    ///
    /// When the samples are no whole number of questions, or a label is no choice.
    pub fn head_loss(
        &self,
        hidden: Tensor<B, 3>,
        labels: &[u32],
        label_weights: &[f32],
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 1> {
        let choices = hidden.dims()[0] / labels.len().max(1);
        class_loss(self.head_logits(hidden, choices, dropout), labels, label_weights)
    }

    /// How well each sample answers its question, `[questions, choices]`, without dropout. Call it
    /// on a model without a graph.
    ///
    /// # Panics
    ///
    /// As [`embed`](Self::embed) and [`head_logits`](Self::head_logits).
    pub fn logits(&self, inputs: BertInputs<B>, choices: usize) -> Tensor<B, 2> {
        let visible: VisibleKeys = inputs.visible.clone();
        let embedded = self.embed(inputs, None);
        let layers = self.layers.iter();
        let hidden = layers.fold(embedded, |hidden, layer| layer.forward(hidden, &visible, None));
        self.head_logits(hidden, choices, None)
    }
}
