//! What the first layer sees: the token's embedding plus those of its position and its segment.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

use super::BertConfig;
use super::config::TOKEN_TYPES;
use crate::backend::{Precision, TpBackend, convert, dropout, lookup};
use crate::error::TrainError;
use crate::model::PositionEmbedding;
use crate::parallel::random::{DropoutKey, DropoutSite, KeyedDropout};
use crate::parallel::{VocabParallelEmbedding, VocabParallelEmbeddingConfig};
use crate::parameters::ParameterLoader;

/// `dropout(word_embeddings[token] + position_embeddings[position] + token_type_embeddings[type])`.
///
/// The original BERT has a norm behind the sum; here it is the first layer's own
/// ([`Arrangement`](crate::model::Arrangement)).
#[derive(Module, Debug)]
pub struct BertEmbedding<B: TpBackend> {
    /// One row for each token; also the weight of the output layer.
    pub word_embeddings: VocabParallelEmbedding<B>,
    /// One row for each position.
    pub position_embeddings: PositionEmbedding<B>,
    /// One row for each segment.
    pub token_type_embeddings: TokenTypeEmbedding<B>,
    #[module(skip)]
    dropout: KeyedDropout,
}

/// Learned segments.
#[derive(Module, Debug)]
pub struct TokenTypeEmbedding<B: TpBackend> {
    /// `[2, hidden_size]`.
    pub weight: Param<Tensor<B, 2>>,
}

impl<B: TpBackend> BertEmbedding<B> {
    pub(super) fn init(
        config: &BertConfig,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<Self, TrainError> {
        let hidden = config.hidden_size;
        let words = VocabParallelEmbeddingConfig::new("embedding", config.vocab_size, hidden);
        let table = |name: &str, rows| parameters.child(name).load("weight", [rows, hidden]);
        Ok(Self {
            word_embeddings: words.init(&parameters.child("word_embeddings"))?,
            position_embeddings: PositionEmbedding {
                weight: table("position_embeddings", config.seq_length)?,
            },
            token_type_embeddings: TokenTypeEmbedding {
                weight: table("token_type_embeddings", TOKEN_TYPES)?,
            },
            dropout: KeyedDropout {
                site: DropoutSite::Embedding,
                layer: 0,
                probability: config.hidden_dropout,
            },
        })
    }

    /// `tokens` and `token_types` `[batch, seq]` → `[batch, seq, hidden_size]` in `precision`.
    ///
    /// # Panics
    ///
    /// When `seq` is longer than the positions that were learned.
    pub fn forward(
        &self,
        tokens: Tensor<B, 2, Int>,
        token_types: Tensor<B, 2, Int>,
        dropout_key: Option<&DropoutKey>,
        precision: Precision,
    ) -> Tensor<B, 3> {
        let [_, seq] = tokens.dims();
        let words = self.word_embeddings.forward(tokens, precision);
        let types = lookup(self.token_type_embeddings.weight.val(), token_types);
        // The sum is one of f32, and so are those of the gradients over the batch.
        let sum = convert(words, Precision::F32)
            + self.position_embeddings.first(seq).unsqueeze()
            + types;
        convert(dropout(sum, self.dropout.mask(dropout_key)), precision)
    }
}
