//! What is kept of a window's scores: all of them, or their sum.

use serde::{Deserialize, Serialize};
use training::parallel::TokenScore;

/// What is kept of a window.
pub(crate) trait Kept: Sized {
    /// What is kept of these scores.
    fn of(scores: Vec<TokenScore>) -> Self;

    /// As it is written down.
    fn record(&self) -> Record;

    /// What was written down for a window of `scored` scored positions; none for another kind.
    fn read(record: Record, scored: usize) -> Option<Self>;
}

/// What is written down of a window. Losses are `f32`, which `f64` holds and JSON gives back
/// exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Record {
    /// The sum of its losses.
    Total(f64),
    /// Loss and prediction of each scored position.
    Scores(Vec<(f64, u32)>),
}

/// Loss and prediction of each scored position.
impl Kept for Vec<TokenScore> {
    fn of(scores: Vec<TokenScore>) -> Self {
        scores
    }

    fn record(&self) -> Record {
        let pair = |score: &TokenScore| (f64::from(score.loss), score.predicted);
        Record::Scores(self.iter().map(pair).collect())
    }

    fn read(record: Record, scored: usize) -> Option<Self> {
        let Record::Scores(pairs) = record else { return None };
        let score = |(loss, predicted)| TokenScore { loss: loss as f32, predicted };
        (pairs.len() == scored).then(|| pairs.into_iter().map(score).collect())
    }
}

/// The sum of a window's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TotalLoss(pub(crate) f64);

impl Kept for TotalLoss {
    fn of(scores: Vec<TokenScore>) -> Self {
        Self(scores.iter().map(|score| f64::from(score.loss)).sum())
    }

    fn record(&self) -> Record {
        Record::Total(self.0)
    }

    fn read(record: Record, _scored: usize) -> Option<Self> {
        match record {
            Record::Total(total) => Some(Self(total)),
            Record::Scores(_) => None,
        }
    }
}
