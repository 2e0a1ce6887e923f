//! The output layer and the loss, over a vocabulary that is split over the group.
//!
//! Each rank scores its own part of the vocabulary, and only three numbers for each position are
//! exchanged: the largest logit, the target's logit and the sum of exponentials; a fourth, the
//! token of the largest logit, where predictions are asked for. Gathering the logits instead would
//! move as many times more as the vocabulary has tokens (section 3 of the paper). Nor do all logits
//! of a rank exist at once: scoring, softmax, loss and gradients go through the positions chunk by
//! chunk, in one operation of the backend.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData, TensorPrimitive};

use super::embedding::VocabularyRange;
use super::group::TensorParallelGroup;
use super::mappings::{Region, copy_to_region};
use crate::backend::{IncrementalKernels, TpBackend};

/// What the positions of a batch should predict, and how much each counts.
#[derive(Debug, Clone)]
pub struct Targets {
    /// The next token at each position.
    pub tokens: Arc<[u32]>,
    /// What each position's loss is multiplied with in the sum.
    pub weights: Arc<[f32]>,
}

impl Targets {
    /// Targets `tokens`, each with its weight.
    ///
    /// # Panics
    ///
    /// When there are not as many weights as tokens.
    #[must_use]
    pub fn new(tokens: &[u32], weights: &[f32]) -> Self {
        assert_eq!(tokens.len(), weights.len(), "one weight for each target");
        Self { tokens: tokens.into(), weights: weights.into() }
    }
}

/// What the model says of one position: how well it knew the target, and what it expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScore {
    /// Negative natural logarithm of the target's probability.
    pub loss: f32,
    /// The token with the largest logit, the lowest of several; 0 where the logits are no numbers,
    /// and then the loss is none either.
    pub predicted: u32,
}

/// The language-model head: scores every token by the product with its embedding.
///
/// The head has no weight of its own: that is the embedding table, split by vocabulary. A bias, where
/// a model has one (BERT), is split like it.
/// Padded rows of the table take no part: they are never scored and receive no gradient.
///
/// # Shapes
///
/// `p` is the size of the group, `v` the padded vocabulary.
///
/// | tensor   | shape                       | across ranks |
/// |----------|-----------------------------|--------------|
/// | `hidden` | `[batch, seq, hidden_size]` | replicated   |
/// | `weight` | `[v / p, hidden_size]`      | split, dim 0 |
/// | `bias`   | `[v / p]`                   | split, dim 0 |
/// | loss     | `[1]`                       | replicated   |
///
/// # Source
///
/// Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 3.
#[derive(Clone, Debug)]
pub struct LmHead {
    vocab_size: usize,
    vocabulary: VocabularyRange,
    region: Region,
}

impl LmHead {
    /// The head over a vocabulary of `vocab_size` tokens that `group` shares; `region` names its
    /// collectives.
    #[must_use]
    pub fn new(region: &str, vocab_size: usize, group: &TensorParallelGroup) -> Self {
        Self {
            vocab_size,
            vocabulary: VocabularyRange::new(vocab_size, group),
            region: Region::new(group, region),
        }
    }

    /// The weighted sum of the positions' losses: [`vocab_parallel_cross_entropy`].
    ///
    /// # Panics
    ///
    /// When there is not one target for each position, a target is not in the vocabulary, or
    /// another rank of the group has failed.
    pub fn loss<B: TpBackend>(
        &self,
        hidden: Tensor<B, 3>,
        weight: Tensor<B, 2>,
        bias: Option<Tensor<B, 1>>,
        targets: &Targets,
    ) -> Tensor<B, 1> {
        let hidden = rows(copy_to_region(hidden, &self.region));
        self.check(hidden.dims()[0], &targets.tokens);
        vocab_parallel_cross_entropy(hidden, weight, bias, targets, &self.vocabulary, &self.region)
    }

    /// Loss and prediction of each row of `hidden` `[rows, hidden_size]`, without a graph.
    ///
    /// Communicates four numbers for each row: those of the loss, and `loss.predicted`.
    ///
    /// # Panics
    ///
    /// As [`loss`](Self::loss).
    #[must_use]
    pub fn token_scores<B: TpBackend>(
        &self,
        hidden: Tensor<B, 2>,
        weight: Tensor<B, 2>,
        bias: Option<Tensor<B, 1>>,
        targets: &[u32],
    ) -> Vec<TokenScore> {
        self.check(hidden.dims()[0], targets);
        let (hidden, weight) = (hidden.into_primitive(), weight.into_primitive());
        B::head_token_scores(
            hidden.tensor(),
            weight.tensor(),
            bias.map(|bias| bias.into_primitive().tensor()),
            targets,
            &self.vocabulary,
            self.region.group(),
        )
    }

    /// All logits, `[batch, seq, vocab_size]`, gathered from the ranks: for looking at single
    /// predictions, since they take `vocab_size` numbers for each position. Without a graph.
    ///
    /// # Panics
    ///
    /// When another rank of the group has failed.
    pub fn logits<B: TpBackend>(
        &self,
        hidden: Tensor<B, 3>,
        weight: Tensor<B, 2>,
        bias: Option<Tensor<B, 1>>,
    ) -> Tensor<B, 3> {
        let ([batch, seq, _], device) = (hidden.dims(), hidden.device());
        // Vocabulary first, so that the gathered parts follow each other.
        let part = weight.matmul(rows(hidden).transpose());
        let part = match bias {
            Some(bias) => part + bias.unsqueeze_dim(1),
            None => part,
        };
        let part = part.into_data();
        let part = part.as_slice::<f32>().expect("logits are f32");
        let gathered = self.region.group().all_gather("head.logits", part);
        let padded = gathered.len() / (batch * seq);
        let gathered = TensorData::new(gathered, [padded, batch * seq]);
        Tensor::<B, 2>::from_data(gathered, &device)
            .narrow(0, 0, self.vocab_size)
            .transpose()
            .reshape([batch, seq, self.vocab_size])
    }

    fn check(&self, rows: usize, targets: &[u32]) {
        assert_eq!(rows, targets.len(), "one target for each position");
        let outside = targets.iter().find(|&&token| token as usize >= self.vocab_size);
        assert!(outside.is_none(), "target {outside:?} in a vocabulary of {}", self.vocab_size);
    }
}

impl LmHead {
    /// The logits of each row of `hidden` `[rows, hidden_size]` for what comes next, `[rows,
    /// vocab_size]`, each row by itself and without a graph; every rank has them all.
    ///
    /// # Panics
    ///
    /// When shapes disagree, or another rank of the group has failed.
    #[must_use]
    pub fn next_logits<B: IncrementalKernels>(
        &self,
        hidden: Tensor<B, 2>,
        weight: Tensor<B, 2>,
    ) -> Vec<f32> {
        let [rows, _] = hidden.dims();
        let (hidden, weight) = (hidden.into_primitive(), weight.into_primitive());
        let part = B::logits(hidden.tensor(), weight.tensor(), &self.vocabulary);
        let gathered = self.region.group().all_gather("head.logits", &part);
        let padded = self.vocabulary.rows;
        let mut logits = Vec::with_capacity(rows * self.vocab_size);
        for row in 0..rows {
            let of_ranks = gathered.chunks_exact(rows * padded);
            let of_ranks = of_ranks.flat_map(|part| &part[row * padded..(row + 1) * padded]);
            logits.extend(of_ranks.take(self.vocab_size));
        }
        logits
    }
}

/// Cross-entropy over a vocabulary that is split over the ranks.
///
/// With `x` the logits of a position, to which a bias may be added, `t` its target and `w` its weight, returns the sum over all
/// positions of `w · (ln Σ_j exp(x_j) - x_t)`. Communicates three numbers for each position:
/// `loss.max`, `loss.target` and `loss.sum`.
///
/// # Shapes
///
/// | tensor   | shape                 | across ranks |
/// |----------|-----------------------|--------------|
/// | `hidden` | `[rows, hidden_size]` | replicated   |
/// | `weight` | `[v / p, hidden_size]`| split, dim 0 |
/// | `bias`   | `[v / p]`             | split, dim 0 |
/// | result   | `[1]`                 | replicated   |
///
/// The gradient of `hidden` is this rank's share: pass `hidden` through
/// [`copy_to_region`] first, which adds the shares up.
///
/// # Panics
///
/// When shapes disagree, or when another rank of the group has failed.
pub fn vocab_parallel_cross_entropy<B: TpBackend>(
    hidden: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    targets: &Targets,
    vocabulary: &VocabularyRange,
    region: &Region,
) -> Tensor<B, 1> {
    let (hidden, weight) = (hidden.into_primitive().tensor(), weight.into_primitive().tensor());
    let bias = bias.map(|bias| bias.into_primitive().tensor());
    let loss = B::head_loss(hidden, weight, bias, targets, vocabulary, region.group());
    Tensor::from_primitive(TensorPrimitive::Float(loss))
}

/// `[batch, seq, width]` → `[batch · seq, width]`.
fn rows<B: TpBackend>(hidden: Tensor<B, 3>) -> Tensor<B, 2> {
    let [batch, seq, width] = hidden.dims();
    hidden.reshape([batch * seq, width])
}
