//! Losses and predictions of text under a trained model, without gradients.
//!
//! A [`Scorer`] keeps one thread per tensor-parallel rank alive, each with its part of the model,
//! and hands every batch to all of them; so a batch costs no start of threads and no second copy of
//! the weights. It may hold several copies of the model, which take batches side by side: each
//! batch goes to one of them, and what comes of it is the same bits whichever that is. A copy is
//! made when there is a batch for it, and not before.
//!
//! Only the positions that a caller scores go through the head, which is most of the work where
//! windows overlap.

mod copies;
mod segments;

use std::num::NonZeroUsize;
use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::backend::Cpu;
use crate::error::TrainError;
use crate::model::{Gpt2, Gpt2Config};
use crate::parallel::{Rank, TokenScore};
use crate::parameters::ParameterSource;
use crate::rank_threads::Serve;

use self::copies::Copies;
pub use self::segments::{ChoiceScorer, MaskedLmScorer};
pub use crate::objective::PairScore;

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
    copies: Copies<ScoringRank>,
}

impl Scorer {
    /// Builds one copy of the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// As [`with_copies`](Self::with_copies).
    pub fn new<S>(
        config: &Gpt2Config,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        Self::with_copies(config, source, tensor_parallel_size, NonZeroUsize::MIN)
    }

    /// Builds up to `copies` copies of the model from `source`, each on `tensor_parallel_size` rank
    /// threads of its own: the weights are in memory once for each copy. The first is built here,
    /// the others with the first batch that goes to them.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn with_copies<S>(
        config: &Gpt2Config,
        source: S,
        tensor_parallel_size: NonZeroUsize,
        copies: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let model = config.clone();
        let copies = Copies::start(tensor_parallel_size, copies, move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(ScoringRank { model: Gpt2::init(&model, &source, group, &device)? })
        })?;
        Ok(Self { seq_length: config.seq_length, vocab_size: config.vocab_size, copies })
    }

    /// Copies that there may be, which is how many batches are scored side by side.
    #[must_use]
    pub fn num_copies(&self) -> usize {
        self.copies.most()
    }

    /// Copies that there were batches for.
    #[must_use]
    pub fn num_copies_made(&self) -> usize {
        self.copies.num_made()
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
        let mut scores = self.score_side_by_side(&[windows])?;
        Ok(scores.pop().expect("as many results as batches"))
    }

    /// [`score`](Self::score) of several batches, each on a copy of the model: their results, in
    /// the order of the batches. Copies that are lacking are made.
    ///
    /// # Errors
    ///
    /// As [`score`](Self::score), and when a copy cannot be made.
    ///
    /// # Panics
    ///
    /// As [`score`](Self::score), and when there are more batches than copies.
    pub fn score_side_by_side<'a>(
        &mut self,
        batches: &[impl AsRef<[Window<'a>]>],
    ) -> Result<Vec<Vec<Vec<TokenScore>>>, TrainError> {
        let request = |windows: &[Window<'_>]| {
            windows.iter().for_each(|window| self.check(window));
            let batch = Batch::new(windows);
            (!batch.rows.is_empty()).then_some(batch)
        };
        let requests = batches.iter().map(|windows| request(windows.as_ref())).collect();
        let scores = self.copies.ask(requests)?.into_iter().zip(batches);
        Ok(scores
            .map(|(scores, windows)| by_window(windows.as_ref(), &scores.unwrap_or_default()))
            .collect())
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

/// The scores of a batch, cut where its windows end.
fn by_window(windows: &[Window<'_>], scores: &[TokenScore]) -> Vec<Vec<TokenScore>> {
    let mut rest = scores;
    let of_window = |window: &Window<'_>| {
        let (own, others) = rest.split_at(window.scored.len());
        rest = others;
        own.to_vec()
    };
    windows.iter().map(of_window).collect()
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
