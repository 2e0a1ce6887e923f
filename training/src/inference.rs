//! Losses and predictions of text under a trained model, without gradients.
//!
//! A [`Scorer`] keeps one thread per tensor-parallel rank alive, each with its part of the model,
//! and hands every batch to all of them; so a batch costs no start of threads and no second copy of
//! the weights.
//!
//! Only the positions that a caller scores go through the head, which is most of the work where
//! windows overlap.

use std::num::NonZeroUsize;
use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::backend::Cpu;
use crate::error::TrainError;
use crate::model::{Gpt2, Gpt2Config};
use crate::parallel::{Rank, TokenScore};
use crate::parameters::ParameterSource;
use crate::rank_threads::{RankThreads, Serve};

/// Consecutive tokens of a text, of which some are scored as predictions from those before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<'a> {
    /// The inputs and, one place later, their targets: position `i` predicts `tokens[i + 1]`.
    pub tokens: &'a [u32],
    /// The positions that are scored, within `0..tokens.len() - 1`.
    pub scored: Range<usize>,
}

/// Scores windows with a model that is split over rank threads.
///
/// Dropping it ends the threads.
#[derive(Debug)]
pub struct Scorer {
    seq_length: usize,
    vocab_size: usize,
    ranks: RankThreads<ScoringRank>,
}

impl Scorer {
    /// Builds the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn new<S>(
        config: &Gpt2Config,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let model = config.clone();
        let ranks = move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(ScoringRank { model: Gpt2::init(&model, &source, group, &device)? })
        };
        Ok(Self {
            seq_length: config.seq_length,
            vocab_size: config.vocab_size,
            ranks: RankThreads::start(tensor_parallel_size, ranks)?,
        })
    }

    /// Tokens that the model sees at most.
    #[must_use]
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// Tokens of the model's vocabulary, without padding.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Loss and prediction at the scored positions: one list per window, in the order of the
    /// positions.
    ///
    /// The windows make one batch; the result does not depend, beyond rounding, on what else is in
    /// it.
    ///
    /// # Errors
    ///
    /// When a rank fails. The scorer is of no use then.
    ///
    /// # Panics
    ///
    /// After an error; or when a window has more inputs than `seq_length`, scores a position that
    /// it does not have, or holds a token outside the vocabulary.
    pub fn score(&mut self, windows: &[Window<'_>]) -> Result<Vec<Vec<TokenScore>>, TrainError> {
        for window in windows {
            self.check(window);
        }
        let batch = Batch::new(windows);
        if batch.rows.is_empty() {
            return Ok(vec![Vec::new(); windows.len()]);
        }
        let scores = self.ranks.ask(batch)?;
        let mut rest = scores.as_slice();
        let per_window = windows.iter().map(|window| {
            let (own, others) = rest.split_at(window.scored.len());
            rest = others;
            own.to_vec()
        });
        Ok(per_window.collect())
    }

    fn check(&self, window: &Window<'_>) {
        let num_inputs = window.tokens.len().saturating_sub(1);
        assert!(
            num_inputs <= self.seq_length && window.scored.end <= num_inputs,
            "a window of {num_inputs} inputs that scores {:?} for a model of {} positions",
            window.scored,
            self.seq_length
        );
        for &token in window.tokens {
            assert!((token as usize) < self.vocab_size, "token {token} of {}", self.vocab_size);
        }
    }
}

/// Windows side by side, up to the last position that any of them scores.
///
/// Shorter windows are filled up with token 0 behind their end, where attention cannot see it from
/// a scored position.
#[derive(Debug)]
struct Batch {
    num_windows: usize,
    length: usize,
    /// `[num_windows, length]`.
    inputs: Vec<i32>,
    /// The token after each scored position.
    targets: Vec<u32>,
    /// The scored positions, as indices into `inputs`.
    rows: Vec<usize>,
}

impl Batch {
    fn new(windows: &[Window<'_>]) -> Self {
        let length = windows.iter().map(|window| window.scored.end).max().unwrap_or(0);
        let mut inputs = vec![0; windows.len() * length];
        let mut targets = Vec::new();
        let mut rows = Vec::new();
        for (index, window) in windows.iter().enumerate() {
            let start = index * length;
            for (slot, &token) in inputs[start..start + length].iter_mut().zip(window.tokens) {
                *slot = token as i32;
            }
            rows.extend(window.scored.clone().map(|position| start + position));
            targets.extend(window.scored.clone().map(|position| window.tokens[position + 1]));
        }
        Self { num_windows: windows.len(), length, inputs, targets, rows }
    }

    fn scores(&self, model: &Gpt2<Cpu>) -> Vec<TokenScore> {
        let inputs = TensorData::new(self.inputs.clone(), [self.num_windows, self.length]);
        let inputs = Tensor::<Cpu, 2, Int>::from_data(inputs, &Device::<Cpu>::default());
        model.token_scores(inputs, &self.targets, &self.rows)
    }
}

/// A rank's part of the model, which scores every batch it is handed.
#[derive(Debug)]
struct ScoringRank {
    model: Gpt2<Cpu>,
}

impl Serve for ScoringRank {
    type Request = Batch;
    type Answer = Vec<TokenScore>;

    fn answer(&mut self, batch: &Batch) -> Vec<TokenScore> {
        batch.scores(&self.model)
    }
}
