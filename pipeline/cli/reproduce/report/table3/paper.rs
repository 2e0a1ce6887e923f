//! What the paper printed, so that it stands beside our own values.
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), tables 2
//! and 3, section 5.3. Parameters are counted with the vocabulary padded as for the paper's ranks.

use serde::{Deserialize, Serialize};

/// Tokens that each of the paper's GPT-2 models saw: 300,000 steps of 512 sequences of 1,024.
const PAPER_TOKENS: u64 = 300_000 * 512 * 1_024;

/// A row of the paper's Table 3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PaperRow {
    /// Its name: `355M`.
    pub(crate) name: String,
    /// Whether the paper trained it: the rows that a reproduction is about. The others are the best
    /// that had been published before.
    pub(crate) megatron: bool,
    /// Parameters.
    pub(crate) parameters: Option<u64>,
    /// Tokens seen.
    pub(crate) tokens: Option<u64>,
    /// Word perplexity on WikiText103.
    pub(crate) word_perplexity: Option<f64>,
    /// Share of LAMBADA's last words that were right, strictly.
    pub(crate) strict_accuracy: Option<f64>,
}

/// The overlap of a test set with the paper's corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PaperOverlap {
    /// The test set.
    pub(crate) task: super::Task,
    /// Words of an n-gram.
    pub(crate) ngram_words: usize,
    /// The share of n-grams: at most this.
    pub(crate) at_most: f64,
}

impl PaperRow {
    /// The paper's Table 3.
    pub(crate) fn table3() -> Vec<Self> {
        let megatron = |name: &str, parameters, word_perplexity, strict_accuracy| Self {
            name: name.to_owned(),
            megatron: true,
            parameters: Some(parameters),
            tokens: Some(PAPER_TOKENS),
            word_perplexity: Some(word_perplexity),
            strict_accuracy: Some(strict_accuracy),
        };
        let best_before = |name: &str, word_perplexity, strict_accuracy| Self {
            name: name.to_owned(),
            megatron: false,
            parameters: None,
            tokens: None,
            word_perplexity,
            strict_accuracy,
        };
        vec![
            megatron("355M", 354_871_296, 19.31, 0.4518),
            megatron("2.5B", 2_488_934_400, 12.76, 0.6173),
            megatron("8.3B", 8_317_040_640, 10.81, 0.6651),
            best_before("kNN-LM", Some(15.79), None),
            best_before("GPT-2 1.5B", None, Some(0.6324)),
        ]
    }
}

impl PaperOverlap {
    /// The overlap in 8-grams that the paper states for its two zero-shot test sets.
    pub(crate) fn table3() -> Vec<Self> {
        let of = |task, at_most| Self { task, ngram_words: 8, at_most };
        vec![of(super::Task::WikiText103, 0.108), of(super::Task::Lambada, 0.014)]
    }
}
