//! What was found for Figure 7.

use serde::{Deserialize, Serialize};

use super::super::ground::Ground;
use super::super::model::{ModelShape, Training};

/// All that was done and found for Figure 7.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure7 {
    /// What it was made with and from.
    #[serde(flatten)]
    pub(crate) ground: Ground,
    /// The models, each with its training.
    pub(crate) runs: Vec<Run>,
}

/// A model and its training. Losses are those of masked tokens alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Its name, as the configuration has it.
    pub(crate) name: String,
    /// Where its residual connections begin.
    pub(crate) arrangement: Arrangement,
    /// Its sizes.
    pub(crate) model: ModelShape,
    /// Parameters, with the rows that pad the vocabulary.
    pub(crate) parameters: u64,
    /// The same without these rows.
    pub(crate) parameters_without_padding: u64,
    /// How it was trained.
    pub(crate) training: Training,
    /// Masked tokens that the last validation scored.
    pub(crate) validation_targets: Option<u64>,
    /// The norm of the gradient before clipping, as [`peaks`] leaves it.
    pub(crate) grad_norm_curve: Vec<GradNormPoint>,
    /// The largest norm behind the warm-up of the learning rate.
    pub(crate) largest_grad_norm: Option<f64>,
    /// The step in which loss or gradient were no numbers any more, which ended the training.
    pub(crate) diverged_at: Option<u64>,
    /// The most memory that the process held while it trained, in bytes.
    pub(crate) peak_rss_bytes: Option<u64>,
}

/// What a block's output is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arrangement {
    /// What its layer norm gave: the original BERT's, figure 7a.
    PostNorm,
    /// What its layer norm got: the paper's, figure 7b.
    PreNorm,
}

/// A point of the curve of gradient norms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct GradNormPoint {
    /// Tokens seen.
    pub(crate) tokens: u64,
    /// Norm of the gradient.
    pub(crate) grad_norm: f64,
}

impl Run {
    /// Loss on the held-out documents at the end; infinite for a training that diverged.
    pub(crate) fn validation_loss(&self) -> Option<f64> {
        match self.diverged_at {
            Some(_) => Some(f64::INFINITY),
            None => self.training.validation_loss,
        }
    }

    /// Standard error of that loss, about: of a target's loss the deviation is taken to be the mean,
    /// as it is where they lie exponentially.
    pub(crate) fn validation_error(&self) -> Option<f64> {
        let loss = self.validation_loss().filter(|loss| loss.is_finite()).unwrap_or(0.0);
        Some(loss / (self.validation_targets? as f64).sqrt())
    }

    /// `exp` of that loss.
    pub(crate) fn validation_perplexity(&self) -> Option<f64> {
        self.validation_loss().map(f64::exp)
    }
}

impl Arrangement {
    /// Its name, as a configuration has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PostNorm => "post-norm",
            Self::PreNorm => "pre-norm",
        }
    }

    /// Its name with that of the figure's part.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::PostNorm => "(a) post-norm, the original BERT",
            Self::PreNorm => "(b) pre-norm, rearranged",
        }
    }
}

/// At most `most` points that stand for `points`: each the largest norm of a stretch of them, for
/// it is the spikes that tell of instability. Norms that are no number are left out.
pub(crate) fn peaks(points: &[GradNormPoint], most: usize) -> Vec<GradNormPoint> {
    let points: Vec<_> = points.iter().filter(|point| point.grad_norm.is_finite()).collect();
    let stretch = points.len().div_ceil(most.max(1)).max(1);
    let largest = |points: &[&GradNormPoint]| {
        let by_norm =
            |a: &&&GradNormPoint, b: &&&GradNormPoint| a.grad_norm.total_cmp(&b.grad_norm);
        points.iter().max_by(by_norm).map(|point| **point)
    };
    points.chunks(stretch).filter_map(largest).collect()
}
