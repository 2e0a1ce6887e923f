//! Token embedding whose table is split by vocabulary over the group.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorPrimitive};

use super::group::TensorParallelGroup;
use super::mappings::{Region, reduce_from_region};
use crate::backend::{Precision, TpBackend, convert};
use crate::error::TrainError;
use crate::parameters::{ParameterLoader, padded_vocab_size};

/// The rows of the vocabulary that one rank holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VocabularyRange {
    /// The first token that the rank holds.
    pub first: usize,
    /// How many rows its part of the table has, padding included.
    pub rows: usize,
    /// How many of them belong to real tokens; the others pad the vocabulary.
    pub tokens: usize,
}

impl VocabularyRange {
    /// The part that this rank of `group` holds of a vocabulary of `vocab_size` tokens.
    #[must_use]
    pub fn new(vocab_size: usize, group: &TensorParallelGroup) -> Self {
        let rows = padded_vocab_size(vocab_size, group.size()) / group.size();
        let first = group.rank() * rows;
        Self { first, rows, tokens: vocab_size.saturating_sub(first).min(rows) }
    }

    /// The row of `token` in this rank's part, if the rank holds it.
    #[inline]
    #[must_use]
    pub fn row(&self, token: usize) -> Option<usize> {
        token.checked_sub(self.first).filter(|&row| row < self.tokens)
    }
}

/// The sizes of a [`VocabParallelEmbedding`].
#[derive(Debug, Clone)]
pub struct VocabParallelEmbeddingConfig {
    /// The region that the lookup closes, as collectives name it.
    pub region: &'static str,
    /// How many tokens the vocabulary has, without padding.
    pub vocab_size: usize,
    /// Width of an embedding.
    pub hidden_size: usize,
}

/// Token embedding whose table is split by vocabulary row over the tensor-parallel group.
///
/// Each rank looks up the tokens that it holds and leaves zero for the others; the all-reduce of
/// the paper's operator *g* then gives every rank the whole embedding. The table is padded so that
/// every rank holds the same multiple of 128 rows; padded rows are zero and stay so.
///
/// # Shapes
///
/// `p` is the size of the group, `v` the padded vocabulary.
///
/// | tensor   | shape                       | across ranks |
/// |----------|-----------------------------|--------------|
/// | `tokens` | `[batch, seq]`              | replicated   |
/// | `weight` | `[v / p, hidden_size]`      | split, dim 0 |
/// | output   | `[batch, seq, hidden_size]` | replicated   |
///
/// # Source
///
/// Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 3.
#[derive(Module, Debug)]
pub struct VocabParallelEmbedding<B: TpBackend> {
    /// This rank's rows of the table, `[v / p, hidden_size]`.
    pub weight: Param<Tensor<B, 2>>,
    #[module(skip)]
    vocabulary: VocabularyRange,
    #[module(skip)]
    region: Region,
}

impl VocabParallelEmbeddingConfig {
    /// A table of `vocab_size` rows of `hidden_size` numbers, whose lookup closes `region`.
    #[must_use]
    pub fn new(region: &'static str, vocab_size: usize, hidden_size: usize) -> Self {
        Self { region, vocab_size, hidden_size }
    }

    /// Builds this rank's part of the table.
    ///
    /// # Errors
    ///
    /// Whatever loading the parameter answers.
    pub fn init<B: TpBackend>(
        &self,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<VocabParallelEmbedding<B>, TrainError> {
        let vocabulary = VocabularyRange::new(self.vocab_size, parameters.group());
        Ok(VocabParallelEmbedding {
            weight: parameters.load("weight", [vocabulary.rows, self.hidden_size])?,
            vocabulary,
            region: Region::new(parameters.group(), self.region),
        })
    }
}

impl<B: TpBackend> VocabParallelEmbedding<B> {
    /// `tokens` `[batch, seq]` → `[batch, seq, hidden_size]`, rounded to `precision` before the
    /// ranks add it up.
    ///
    /// # Panics
    ///
    /// When another rank of the group has failed.
    pub fn forward(&self, tokens: Tensor<B, 2, Int>, precision: Precision) -> Tensor<B, 3> {
        let weight = self.weight.val().into_primitive().tensor();
        let found = B::masked_lookup(weight, tokens.into_primitive(), &self.vocabulary);
        let found = Tensor::from_primitive(TensorPrimitive::Float(found));
        reduce_from_region(convert(found, precision), &self.region)
    }
}
