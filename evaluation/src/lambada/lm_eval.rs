//! What lm-evaluation-harness says of the same passages.
//!
//! It cuts the last word off at the last space, not at the last white space, and takes its tokens
//! from the text encoded in one go. On the published test set that differs from the strict targets
//! of the protocol `megatron` in the seven passages with a line end before their last word, where
//! more than a word is asked for.
//!
//! # Source
//!
//! EleutherAI's lm-evaluation-harness 0.4.13: the task `lambada_openai`, version 1.0
//! (`lm_eval/tasks/lambada`), and `_encode_pair` of `lm_eval/api/model.py`.

use serde::Serialize;

use crate::accuracy::Accuracy;
use crate::items::ExampleScore;
use crate::perplexity::unlimited_perplexity;
use crate::{lambada, report};

/// What the task found by this protocol.
pub type Measured = report::Findings<Metrics, lambada::Counts, Settings>;

/// The numbers that the harness gives for its task `lambada_openai`, by its names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Share of the examples with every token of the target the most probable one.
    pub acc: f64,
    /// Its standard error, from the sample's deviation: `√(acc (1 - acc) / (examples - 1))`.
    pub acc_stderr: f64,
    /// `exp(total_nll / examples)`.
    pub perplexity: f64,
    /// Sum over all tokens of the targets of the negative natural logarithm of their probability.
    pub total_nll: f64,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Whose numbers these compare with.
    pub comparable_with: &'static str,
    /// What is guessed.
    pub target: &'static str,
    /// The rest, as with the other protocol.
    #[serde(flatten)]
    pub common: lambada::CommonSettings,
}

impl Metrics {
    pub(super) fn new(items: &[ExampleScore]) -> Self {
        let accuracy = Accuracy::of(items.iter().map(|item| item.strict));
        let total_nll: f64 = items.iter().map(|item| item.nll).sum();
        Self {
            acc: accuracy.value(),
            acc_stderr: accuracy.sample_standard_error(),
            perplexity: unlimited_perplexity(total_nll / items.len() as f64),
            total_nll,
        }
    }
}

impl Settings {
    pub(super) fn new(common: lambada::CommonSettings) -> Self {
        Self {
            comparable_with: "lm-evaluation-harness 0.4, task lambada_openai (version 1.0); not \
                              with the paper's",
            target: "what stands behind the last space, every token right",
            common,
        }
    }
}
