//! What a model is asked in one go: samples of one kind, the batches that they make, and how a batch
//! is scored.

use std::marker::PhantomData;
use std::num::NonZeroUsize;

use training::inference::Window;
use training::parallel::TokenScore;
use xxhash_rust::xxh3::Xxh3;

use crate::batches::Batches;
use crate::error::EvalError;
use crate::kept::{Kept, KeptOfWindow};
use crate::model::Stage;
use crate::scorer::ModelScorer;

/// Samples that are scored in one go.
pub(crate) trait Samples {
    /// What is kept of a sample.
    type Score: Kept;

    /// How many there are.
    fn len(&self) -> usize;

    /// The hash of what the model is asked by the sample at `at`, in hexadecimal: by it a sample is
    /// known again.
    fn hash(&self, at: usize) -> String;

    /// What is scored of the sample at `at`: positions, or answers.
    fn scored(&self, at: usize) -> usize;

    /// The samples at the places `missing` in batches of at most `batch_size`, as their places.
    fn batches(&self, missing: Vec<usize>, batch_size: NonZeroUsize) -> Vec<Vec<usize>>;

    /// Scores each of `batches` on a copy of the model.
    ///
    /// # Errors
    ///
    /// When the model fails, or gives what is no number.
    fn score(
        &self,
        scorer: &mut ModelScorer,
        batches: &[Vec<usize>],
    ) -> Result<Vec<Vec<Self::Score>>, EvalError>;
}

/// Windows of text, of which `K` is kept.
pub(crate) struct WindowSamples<'a, K> {
    stage: &'a str,
    windows: &'a [Window<'a>],
    /// Number of the first among all that go by the stage's name.
    first: usize,
    kept: PhantomData<K>,
}

impl<'a, K> WindowSamples<'a, K> {
    pub(crate) fn new(stage: &Stage<'a>, first: usize) -> Self {
        Self { stage: stage.name, windows: stage.windows, first, kept: PhantomData }
    }

    /// Refuses scores of the window at `at` that are no numbers.
    fn check_finite(&self, scores: &[TokenScore], at: usize) -> Result<(), EvalError> {
        match scores.iter().position(|score| !score.loss.is_finite()) {
            None => Ok(()),
            Some(place) => Err(EvalError::NonFinite {
                loss: scores[place].loss,
                stage: self.stage.to_owned(),
                window: self.first + at,
                position: self.windows[at].scored.start + place,
            }),
        }
    }
}

impl<K: KeptOfWindow> Samples for WindowSamples<'_, K> {
    type Score = K;

    fn len(&self) -> usize {
        self.windows.len()
    }

    fn hash(&self, at: usize) -> String {
        let window = &self.windows[at];
        let mut hash = Xxh3::new();
        hash_tokens(&mut hash, window.tokens);
        for end in [window.scored.start, window.scored.end] {
            hash.update(&(end as u64).to_le_bytes());
        }
        format!("{:016x}", hash.digest())
    }

    fn scored(&self, at: usize) -> usize {
        self.windows[at].scored.len()
    }

    fn batches(&self, missing: Vec<usize>, batch_size: NonZeroUsize) -> Vec<Vec<usize>> {
        let batches = Batches::of_some(self.windows, missing, batch_size);
        batches.iter().map(|batch| batch.indices.to_vec()).collect()
    }

    fn score(
        &self,
        scorer: &mut ModelScorer,
        batches: &[Vec<usize>],
    ) -> Result<Vec<Vec<K>>, EvalError> {
        let windows = |batch: &Vec<usize>| -> Vec<Window<'_>> {
            batch.iter().map(|&at| self.windows[at].clone()).collect()
        };
        let scores =
            scorer.gpt2().score_side_by_side(&batches.iter().map(windows).collect::<Vec<_>>())?;
        let kept = |(batch, scores): (&Vec<usize>, Vec<Vec<TokenScore>>)| {
            let windows = batch.iter().zip(scores);
            windows
                .map(|(&at, scores)| {
                    self.check_finite(&scores, at)?;
                    Ok(K::of(scores))
                })
                .collect()
        };
        batches.iter().zip(scores).map(kept).collect()
    }
}

/// Adds tokens to a hash.
pub(crate) fn hash_tokens(hash: &mut Xxh3, tokens: &[u32]) {
    for token in tokens {
        hash.update(&token.to_le_bytes());
    }
}
