//! Samples of a part of a data folder, and the endless sequence in which training takes them.
//!
//! The documents of the part are one stream of tokens, each document closed by its end-of-document
//! token. Sample `k` is tokens `k·S ..= (k+1)·S` of it, for a sequence length of `S`: `S` inputs
//! and, one place on, `S` targets, so that neighbors share one token. Documents are crossed freely,
//! as in the original implementation: attention and positions are not reset, and the
//! end-of-document token is a target like any other. Up to `S - 1` tokens at the end of the part
//! belong to no sample.

use std::ops::Range;
use std::sync::Arc;

use corpus::shard::ShardReader;

use super::order::{KeyedPermutation, SampleOrder};
use crate::TrainError;

/// The samples of some consecutive documents of a shard.
#[derive(Debug, Clone)]
pub struct Samples {
    shard: Arc<ShardReader>,
    tokens: Range<u64>,
    seq_length: usize,
}

impl Samples {
    /// The samples of `seq_length` inputs each in the documents `documents`.
    ///
    /// # Panics
    ///
    /// When the shard has no such documents.
    pub fn new(shard: Arc<ShardReader>, documents: Range<u64>, seq_length: usize) -> Self {
        let place = |document| {
            shard.index().document_tokens(document).expect("documents of the shard were divided")
        };
        let tokens = if documents.is_empty() {
            0..0
        } else {
            place(documents.start).start..place(documents.end - 1).end
        };
        Self { shard, tokens, seq_length }
    }

    /// Whole samples.
    pub fn len(&self) -> u64 {
        self.num_tokens().saturating_sub(1) / self.seq_length as u64
    }

    /// Whether there is no whole sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of the documents, those behind the last whole sample included.
    pub fn num_tokens(&self) -> u64 {
        self.tokens.end - self.tokens.start
    }

    /// Inputs per sample.
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// Appends the `seq_length + 1` tokens of sample `index` to `out`.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(&self, index: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        assert!(index < self.len(), "sample {index} of {}", self.len());
        let begin = self.tokens.start + index * self.seq_length as u64;
        let filled = out.len();
        out.resize(filled + self.seq_length + 1, 0);
        Ok(self.shard.read(begin, &mut out[filled..])?)
    }

    /// Loss in nats of predicting each token by its frequency in this part: what a model has to
    /// beat to have learned anything about context.
    ///
    /// # Errors
    ///
    /// When the shard cannot be read.
    pub fn unigram_loss(&self) -> Result<f64, TrainError> {
        const BLOCK: usize = 1 << 16;
        let mut counts: Vec<u64> = Vec::new();
        for begin in self.tokens.clone().step_by(BLOCK) {
            let end = self.tokens.end.min(begin + BLOCK as u64);
            for token in self.shard.tokens(begin..end)? {
                let token = token as usize;
                if token >= counts.len() {
                    counts.resize(token + 1, 0);
                }
                counts[token] += 1;
            }
        }
        let total = self.num_tokens() as f64;
        let shares = counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        Ok(shares.map(|share| -share * share.ln()).sum())
    }
}

/// Samples in the order of training: epoch after epoch without end, each a permutation of all of
/// them.
#[derive(Debug, Clone)]
pub struct OrderedSamples {
    samples: Samples,
    order: SampleOrder,
    seed: u64,
}

impl OrderedSamples {
    /// `samples` in the order `order` with the run's seed.
    pub fn new(samples: Samples, order: SampleOrder, seed: u64) -> Self {
        Self { samples, order, seed }
    }

    /// The samples behind the order.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Which sample stands at place `position` of the whole training, counted from 0.
    ///
    /// # Panics
    ///
    /// When there are no samples.
    pub fn sample_at(&self, position: u64) -> u64 {
        let per_epoch = self.samples.len();
        let (epoch, place) = (position / per_epoch, position % per_epoch);
        match self.order {
            SampleOrder::Keyed => KeyedPermutation::new(per_epoch, self.seed, epoch).at(place),
            SampleOrder::Sequential => place,
        }
    }
}
