//! What is kept of a sample's scores: all of a window's or their sum, losses of a pair of segments.

use serde::{Deserialize, Serialize};
use training::inference::PairScore;
use training::objective::LossSum;
use training::parallel::TokenScore;

/// What is kept of a sample.
pub(crate) trait Kept: Sized {
    /// As it is written down.
    fn record(&self) -> Record;

    /// What was written down for a sample of which `scored` positions or answers are scored; none
    /// for another kind.
    fn read(record: Record, scored: usize) -> Option<Self>;
}

/// What is kept of a window.
pub(crate) trait KeptOfWindow: Kept {
    /// What is kept of these scores.
    fn of(scores: Vec<TokenScore>) -> Self;
}

/// What is written down of a sample. Losses are `f32`, which `f64` holds and JSON gives back
/// exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Record {
    /// The sum of its losses.
    Total(f64),
    /// Loss and prediction of each scored position.
    Scores(Vec<(f64, u32)>),
    /// Of a question.
    Choice {
        /// How well each option answers it.
        logits: Vec<f64>,
    },
    /// Of a masked pair of segments.
    Pair {
        /// The sum of the losses of its masked tokens.
        masked_lm: f64,
        /// How many are masked.
        masked: u64,
        /// The loss of the order of its segments.
        order: f64,
        /// Whether that is right.
        order_right: bool,
    },
}

/// Loss and prediction of each scored position.
impl Kept for Vec<TokenScore> {
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

impl KeptOfWindow for Vec<TokenScore> {
    fn of(scores: Vec<TokenScore>) -> Self {
        scores
    }
}

/// The sum of a window's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TotalLoss(pub(crate) f64);

impl KeptOfWindow for TotalLoss {
    fn of(scores: Vec<TokenScore>) -> Self {
        Self(scores.iter().map(|score| f64::from(score.loss)).sum())
    }
}

impl Kept for TotalLoss {
    fn record(&self) -> Record {
        Record::Total(self.0)
    }

    fn read(record: Record, _scored: usize) -> Option<Self> {
        match record {
            Record::Total(total) => Some(Self(total)),
            _ => None,
        }
    }
}

/// What is kept of a masked pair of segments.
impl Kept for PairScore {
    fn record(&self) -> Record {
        Record::Pair {
            masked_lm: self.masked_lm.total,
            masked: self.masked_lm.targets,
            order: f64::from(self.order_loss),
            order_right: self.is_order_right,
        }
    }

    fn read(record: Record, scored: usize) -> Option<Self> {
        match record {
            Record::Pair { masked_lm, masked, order, order_right } if masked == scored as u64 => {
                Some(Self {
                    masked_lm: LossSum { total: masked_lm, targets: masked },
                    order_loss: order as f32,
                    is_order_right: order_right,
                })
            }
            _ => None,
        }
    }
}
