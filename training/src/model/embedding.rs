//! What the first layer sees: the token's embedding plus its position's.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

use super::Gpt2Config;
use crate::backend::{IncrementalKernels, Precision, TpBackend, convert, dropout};
use crate::error::TrainError;
use crate::parallel::random::{DropoutKey, DropoutSite, KeyedDropout};
use crate::parallel::{VocabParallelEmbedding, VocabParallelEmbeddingConfig};
use crate::parameters::ParameterLoader;

/// `dropout(word_embeddings[token] + position_embeddings[position])`.
#[derive(Module, Debug)]
pub struct Embedding<B: TpBackend> {
    /// One row for each token; also the weight of the output layer.
    pub word_embeddings: VocabParallelEmbedding<B>,
    /// One row for each position.
    pub position_embeddings: PositionEmbedding<B>,
    #[module(skip)]
    dropout: KeyedDropout,
}

/// Learned positions.
#[derive(Module, Debug)]
pub struct PositionEmbedding<B: TpBackend> {
    /// `[seq_length, hidden_size]`.
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: TpBackend> Embedding<B> {
    pub(super) fn init(
        config: &Gpt2Config,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let hidden = config.hidden_size;
        let words = VocabParallelEmbeddingConfig::new("embedding", config.vocab_size, hidden);
        let positions = parameters.child("position_embeddings");
        Ok(Self {
            word_embeddings: words.init(&parameters.child("word_embeddings"))?,
            position_embeddings: PositionEmbedding {
                weight: positions.load("weight", [config.seq_length, hidden])?,
            },
            dropout: KeyedDropout {
                site: DropoutSite::Embedding,
                layer: 0,
                probability: config.hidden_dropout,
            },
        })
    }

    /// `tokens` `[batch, seq]` → `[batch, seq, hidden_size]` in `precision`.
    ///
    /// # Panics
    ///
    /// When `seq` is longer than the positions that were learned.
    pub fn forward(
        &self,
        tokens: Tensor<B, 2, Int>,
        dropout_key: Option<&DropoutKey>,
        precision: Precision,
    ) -> Tensor<B, 3> {
        let [_, seq] = tokens.dims();
        let words = self.word_embeddings.forward(tokens, precision);
        let positions = self.position_embeddings.first(seq);
        // The sum is one of f32, and so is that of the positions' gradients over the batch.
        let sum = convert(words, Precision::F32) + positions.unsqueeze();
        convert(dropout(sum, self.dropout.mask(dropout_key)), precision)
    }
}

impl<B: TpBackend> PositionEmbedding<B> {
    /// The rows of the first `seq` positions, `[seq, hidden_size]`.
    ///
    /// # Panics
    ///
    /// When they are more than were learned.
    pub(super) fn first(&self, seq: usize) -> Tensor<B, 2> {
        let positions = self.weight.val();
        let [learned, _] = positions.dims();
        assert!(seq <= learned, "{seq} tokens, but {learned} positions were learned");
        // Most sequences are full; slicing all of it would cost a copy of its gradient.
        if seq < learned { positions.narrow(0, 0, seq) } else { positions }
    }
}

impl<B: IncrementalKernels> Embedding<B> {
    /// [`forward`](Self::forward) for positions `first..first + seq`; without dropout.
    ///
    /// # Panics
    ///
    /// When they are more than the positions that were learned.
    pub fn forward_from(&self, tokens: Tensor<B, 2, Int>, first: usize) -> Tensor<B, 3> {
        let [_, seq] = tokens.dims();
        let words = self.word_embeddings.forward(tokens, Precision::F32);
        let positions = self.position_embeddings.weight.val();
        let [learned, _] = positions.dims();
        let end = first + seq;
        assert!(end <= learned, "{end} tokens, but {learned} positions were learned");
        words + positions.narrow(0, first, seq).unsqueeze()
    }
}
