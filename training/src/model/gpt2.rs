//! The model: embedding, layers, final norm, and the embedding again as output layer.

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use super::{Embedding, Gpt2Config, KeyValueCache, LayerNorm, TransformerBlock};
use crate::backend::{IncrementalKernels, Precision, TpBackend, VisibleKeys};
use crate::error::TrainError;
use crate::parallel::random::DropoutKey;
use crate::parallel::{LmHead, Targets, TensorParallelGroup, TokenScore};
use crate::parameters::{ParameterLoader, ParameterSource};

/// Every query sees what came before it.
const CAUSAL: VisibleKeys = VisibleKeys::Causal;

/// A GPT-2 language model.
#[derive(Module, Debug)]
pub struct Gpt2<B: TpBackend> {
    /// Tokens and positions.
    pub embedding: Embedding<B>,
    /// The transformer's layers.
    pub layers: Vec<TransformerBlock<B>>,
    /// After the last layer.
    pub final_layernorm: LayerNorm<B>,
    #[module(skip)]
    lm_head: LmHead,
    #[module(skip)]
    precision: Precision,
}

impl<B: TpBackend> Gpt2<B> {
    /// Builds the part of the model that belongs to this member of `group`, with values from
    /// `source`.
    ///
    /// # Errors
    ///
    /// When the configuration is impossible or does not split over the group, before anything is
    /// allocated; or whatever `source` answers.
    pub fn init(
        config: &Gpt2Config,
        source: &dyn ParameterSource,
        group: &TensorParallelGroup,
        device: &B::Device,
    ) -> Result<Self, TrainError> {
        config.check_splits_over(group)?;
        let table = config.parameters();
        let parameters = ParameterLoader::new(&table, source, group, device);
        let (layers, sizes) = (parameters.child("layers"), config.layers());
        Ok(Self {
            embedding: Embedding::init(config, &parameters.child("embedding"))?,
            layers: (0..config.num_layers)
                .map(|layer| TransformerBlock::init(&sizes, layer, &layers.child(layer)))
                .collect::<Result<_, _>>()?,
            final_layernorm: LayerNorm::init(
                config.hidden_size,
                config.layer_norm_epsilon,
                &parameters.child("final_layernorm"),
            )?,
            lm_head: LmHead::new("head", config.vocab_size, group),
            precision: Precision::F32,
        })
    }

    /// The same model, which computes in `precision`; its parameters stay `f32`.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// What the first layer sees: `tokens` `[batch, seq]` → `[batch, seq, hidden_size]` in the
    /// model's precision.
    ///
    /// # Panics
    ///
    /// When the sequence is longer than the positions that were learned.
    pub fn embed(&self, tokens: Tensor<B, 2, Int>, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        self.embedding.forward(tokens, dropout, self.precision)
    }

    /// What the output layer sees: `tokens` `[batch, seq]` → `[batch, seq, hidden_size]`.
    ///
    /// With a key, dropout is applied; without, it is off.
    ///
    /// # Panics
    ///
    /// When the sequence is longer than the positions that were learned.
    pub fn hidden_states(
        &self,
        tokens: Tensor<B, 2, Int>,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        let embedded = self.embed(tokens, dropout);
        let hidden = self
            .layers
            .iter()
            .fold(embedded, |hidden, layer| layer.forward(hidden, &CAUSAL, dropout));
        self.final_layernorm.forward(hidden)
    }

    /// The weighted sum of the positions' losses, `[1]`: `Σ_i loss_weights_i · nll_i`, in nats.
    ///
    /// `targets` and `loss_weights` have one entry for each position, row by row. For the mean
    /// over a global batch, weights are already divided by the number of its scored tokens.
    ///
    /// # Panics
    ///
    /// When there is not one target and weight for each position, or a target is not in the
    /// vocabulary.
    pub fn loss(
        &self,
        tokens: Tensor<B, 2, Int>,
        targets: &[u32],
        loss_weights: &[f32],
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 1> {
        let embedded = self.embed(tokens, dropout);
        let hidden = self
            .layers
            .iter()
            .fold(embedded, |hidden, layer| layer.forward(hidden, &CAUSAL, dropout));
        self.head_loss(hidden, targets, loss_weights)
    }

    /// [`loss`](Self::loss) from what the last layer returned, `[batch, seq, hidden_size]`.
    ///
    /// # Panics
    ///
    /// As [`loss`](Self::loss).
    pub fn head_loss(
        &self,
        hidden: Tensor<B, 3>,
        targets: &[u32],
        loss_weights: &[f32],
    ) -> Tensor<B, 1> {
        let hidden = self.final_layernorm.forward(hidden);
        let targets = Targets::new(targets, loss_weights);
        self.lm_head.loss(hidden, self.embedding.word_embeddings.weight.val(), None, &targets)
    }

    /// Losses and predictions at some positions, without dropout.
    ///
    /// `rows` are positions counted row by row through the batch, `sample · seq + position`;
    /// `targets` has the token that each of them should predict. Call it on a model without a
    /// graph.
    ///
    /// # Panics
    ///
    /// When there is not one target for each row, a row is outside of the batch, or a target is
    /// not in the vocabulary.
    #[must_use]
    pub fn token_scores(
        &self,
        tokens: Tensor<B, 2, Int>,
        targets: &[u32],
        rows: &[usize],
    ) -> Vec<TokenScore> {
        let hidden = self.hidden_states(tokens, None);
        let [batch, seq, width] = hidden.dims();
        let mut hidden = hidden.reshape([batch * seq, width]);
        let all = rows.len() == batch * seq && rows.iter().enumerate().all(|(i, &row)| i == row);
        if !all {
            let indices: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
            let indices = Tensor::<B, 1, Int>::from_data(indices.as_slice(), &hidden.device());
            hidden = hidden.select(0, indices);
        }
        let table = self.embedding.word_embeddings.weight.val();
        self.lm_head.token_scores(hidden, table, None, targets)
    }

    /// All logits, `[batch, seq, vocab_size]`, without dropout and without a graph: for looking
    /// at single predictions.
    ///
    /// # Panics
    ///
    /// As [`hidden_states`](Self::hidden_states).
    pub fn logits(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let hidden = self.hidden_states(tokens, None);
        self.lm_head.logits(hidden, self.embedding.word_embeddings.weight.val(), None)
    }
}

/// Text goes on: each position is computed once, by itself, and what later ones need of it is kept.
///
/// The numbers of a position are the same bits however the text was cut into calls and whatever
/// other rows there are. They differ from those of [`hidden_states`](Gpt2::hidden_states) and
/// [`logits`](Gpt2::logits) by rounding, which add up in another order.
impl<B: IncrementalKernels> Gpt2<B> {
    /// Room for `capacity` positions of `rows` texts.
    #[must_use]
    pub fn cache(&self, rows: usize, capacity: usize, device: &B::Device) -> KeyValueCache<B> {
        let key_values =
            |layer: &TransformerBlock<B>| layer.attention.key_values(rows, capacity, device);
        KeyValueCache::new(self.layers.iter().map(key_values).collect(), rows)
    }

    /// Runs the layers over new tokens `[rows, seq]` behind those in `cache`, and adds them to it:
    /// `[rows, seq, hidden_size]`. Without dropout.
    ///
    /// # Panics
    ///
    /// When the cache was made for other rows or has no room, or when there are more positions
    /// than were learned.
    pub fn forward_cached(
        &self,
        tokens: Tensor<B, 2, Int>,
        cache: &mut KeyValueCache<B>,
    ) -> Tensor<B, 3> {
        let [_, seq] = tokens.dims();
        let embedded = self.embedding.forward_from(tokens, cache.length());
        let layers = self.layers.iter().zip(cache.extend(seq));
        layers.fold(embedded, |hidden, (layer, kept)| layer.forward_cached(hidden, kept))
    }

    /// The logits of what comes after the last position of each row of `hidden`, `[rows, seq,
    /// hidden_size]` from [`forward_cached`](Self::forward_cached): `[rows, vocab_size]`. Rows that
    /// pad the vocabulary are not among them.
    ///
    /// # Panics
    ///
    /// As [`logits`](Self::logits).
    #[must_use]
    pub fn next_logits(&self, hidden: Tensor<B, 3>) -> Vec<f32> {
        let [rows, seq, width] = hidden.dims();
        let last = self.final_layernorm.forward(hidden.narrow(1, seq - 1, 1));
        let table = self.embedding.word_embeddings.weight.val();
        self.lm_head.next_logits(last.reshape([rows, width]), table)
    }
}
