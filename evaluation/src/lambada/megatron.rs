//! The numbers of the original implementation, by both readings of "the last word".

use serde::Serialize;

use super::{CommonSettings, Counts};
use crate::accuracy::Accuracy;
use crate::items::ExampleScore;
use crate::perplexity::unlimited_perplexity;
use crate::report;

/// What the task found by the protocol `megatron`.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// How well the last words were guessed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Share of the examples with every token of the last word right: the number to compare with
    /// the paper's.
    pub strict_accuracy: f64,
    /// Its standard error, `√(p (1 - p) / examples)`.
    pub strict_stderr: f64,
    /// Share of the examples with the last token right.
    pub last_token_accuracy: f64,
    /// Its standard error.
    pub last_token_stderr: f64,
    /// `exp(total_nll / examples)`.
    pub target_perplexity: f64,
    /// Sum over all tokens of the strict targets of the negative natural logarithm of their
    /// probability.
    pub total_nll: f64,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// What `strict_accuracy` asks for.
    pub strict: &'static str,
    /// What `last_token_accuracy` asks for.
    pub last_token: &'static str,
    /// What `target_perplexity` is.
    pub target_perplexity: &'static str,
    /// What holds for both protocols.
    #[serde(flatten)]
    pub common: CommonSettings,
}

impl Settings {
    pub(super) fn new(common: CommonSettings) -> Self {
        Self {
            strict: "the last word with the space before it, every token right",
            last_token: "the last token of the text, right",
            target_perplexity: "exp(mean over examples of the last word's negative log-likelihood, \
                                summed over its tokens)",
            common,
        }
    }
}

impl Metrics {
    pub(super) fn new(items: &[ExampleScore]) -> Self {
        let strict = Accuracy::of(items.iter().map(|item| item.strict));
        let last_token = Accuracy::of(items.iter().map(|item| item.last_token));
        let total_nll: f64 = items.iter().map(|item| item.nll).sum();
        Self {
            strict_accuracy: strict.value(),
            strict_stderr: strict.standard_error(),
            last_token_accuracy: last_token.value(),
            last_token_stderr: last_token.standard_error(),
            target_perplexity: unlimited_perplexity(total_nll / items.len() as f64),
            total_nll,
        }
    }
}
