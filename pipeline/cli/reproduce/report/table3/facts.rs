//! What was found for Table 3, in the order in which the page tells it.
//!
//! Plain data: counts are of what was done, absent is `None`, and no number is derived here that
//! another one determines.

use serde::{Deserialize, Deserializer, Serialize};

use super::super::ground::Ground;
use super::super::model::{ModelShape, Training};
use super::paper::{PaperOverlap, PaperRow};

/// All that was done and found for Table 3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table3 {
    /// What it was made with and from.
    #[serde(flatten)]
    pub(crate) ground: Ground,
    /// Whether models, tokens and test sets are meant to be the paper's own.
    pub(crate) paper_scale: bool,
    /// The test sets, in the order of the paper.
    pub(crate) test_sets: Vec<TestSet>,
    /// The overlap of each test set with each state of the corpus.
    pub(crate) contamination: Vec<Contamination>,
    /// The models, each with its scores.
    pub(crate) sizes: Vec<Size>,
    /// What the paper printed.
    pub(crate) paper: Vec<PaperRow>,
    /// The overlap of its test sets with its corpus that the paper printed.
    pub(crate) paper_overlap: Vec<PaperOverlap>,
}

/// A test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestSet {
    /// Which of the paper's it is or stands for.
    pub(crate) task: Task,
    /// What it is called: `wikitext103`, or `demo-wikitext` for one made of the text.
    pub(crate) name: String,
    /// Its file.
    pub(crate) file: String,
    /// Whether it is the published test set, by size and count.
    pub(crate) published: bool,
}

/// One of the paper's two zero-shot tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Task {
    /// Word perplexity.
    WikiText103,
    /// Accuracy on last words.
    Lambada,
}

/// The overlap of one test set with one state of the corpus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contamination {
    /// Name of the test set.
    pub(crate) test_set: String,
    /// The state of the corpus.
    pub(crate) corpus: CorpusState,
    /// The overlap by the number of words of an n-gram, ascending.
    pub(crate) by_ngram: Vec<NGramOverlap>,
}

/// The corpus before or after curation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CorpusState {
    /// As it was found.
    Raw,
    /// As the models saw it.
    Curated,
}

/// How many n-grams of a test set are in a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NGramOverlap {
    /// Words of an n-gram.
    pub(crate) ngram_words: usize,
    /// Positions of the test set at which an n-gram begins.
    pub(crate) positions: u64,
    /// Positions of them whose n-gram is in the corpus.
    pub(crate) matched_positions: u64,
    /// Different n-grams of the test set.
    pub(crate) distinct: u64,
    /// Different n-grams of them that are in the corpus.
    pub(crate) matched_distinct: u64,
}

/// A model with its training and its scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Size {
    /// Its name, as the configuration has it.
    pub(crate) name: String,
    /// Name of the [`PaperRow`] that it stands beside.
    pub(crate) paper_row: Option<String>,
    /// Its sizes.
    pub(crate) model: ModelShape,
    /// Parameters, tied embeddings once, as the paper counts its own: with the rows that pad the
    /// vocabulary for so many tensor-parallel ranks as trained it.
    pub(crate) parameters: u64,
    /// The same without these rows, which no token has.
    pub(crate) parameters_without_padding: u64,
    /// How it was trained.
    pub(crate) training: Training,
    /// Its score on the text in WikiText103's form; `None` where it was not taken.
    pub(crate) wikitext103: Option<WikiText103>,
    /// Its score on the passages in LAMBADA's form; `None` where it was not taken.
    pub(crate) lambada: Option<Lambada>,
    /// The most memory that the process had held when the size was done, in bytes.
    pub(crate) peak_rss_bytes: Option<u64>,
}

/// A score on the text in WikiText103's form; names as in the report of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WikiText103 {
    /// Whose rules the numbers follow.
    pub(crate) protocol: String,
    /// `exp(total_nll / (original_tokens - 1))`.
    pub(crate) word_perplexity: f64,
    /// `exp(total_nll / (tokens - 1))`.
    pub(crate) token_perplexity: f64,
    /// Whether a perplexity ended at `exp(20)`: it is at least that.
    pub(crate) capped: bool,
    /// Negative log-likelihood of all targets, in nats.
    pub(crate) total_nll: f64,
    /// `total_nll`, in bits, per byte of the test file.
    pub(crate) bits_per_byte: f64,
    /// T: tokens of the text after detokenizing and encoding.
    pub(crate) tokens: u64,
    /// To: space-separated pieces of the file.
    pub(crate) original_tokens: u64,
    /// `(T - 1) / (To - 1)`.
    pub(crate) token_ratio: f64,
    /// Targets scored.
    pub(crate) targets: u64,
    /// Tokens that a prediction sees at most.
    pub(crate) window: usize,
    /// Tokens between the starts of two windows.
    pub(crate) overlap: usize,
    /// Whether a limit left a part unscored.
    pub(crate) partial: bool,
    /// Wall time, in seconds.
    pub(crate) seconds: f64,
}

/// A score on passages in LAMBADA's form; names as in the report of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lambada {
    /// Whose rules the numbers follow.
    pub(crate) protocol: String,
    /// Share of examples whose last word is right, every token of it.
    pub(crate) strict_accuracy: f64,
    /// Its standard error.
    pub(crate) strict_stderr: f64,
    /// Share of examples whose last token is right.
    pub(crate) last_token_accuracy: f64,
    /// Its standard error.
    pub(crate) last_token_stderr: f64,
    /// `exp` of the mean negative log-likelihood of a last word; infinite, and `null` in JSON, where
    /// it is beyond all numbers.
    #[serde(deserialize_with = "infinite_if_null")]
    pub(crate) target_perplexity: f64,
    /// Examples scored.
    pub(crate) examples: u64,
    /// Tokens of their last words.
    pub(crate) label_tokens: u64,
    /// Tokens that a prediction sees at most.
    pub(crate) window: usize,
    /// Whether a limit left a part unscored.
    pub(crate) partial: bool,
    /// Wall time, in seconds.
    pub(crate) seconds: f64,
}

/// A number of which JSON has `null` where it is infinite.
fn infinite_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// How much of a score there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScoreState {
    /// All, or there is no test set to have one on.
    Whole,
    /// A limit left a part of the test set unscored.
    Partial,
    /// None.
    Missing,
}

impl Table3 {
    /// Whether a part, a score of a test set, or a part of a score is missing.
    pub(crate) fn is_partial(&self) -> bool {
        let is_incomplete = |size: &Size| {
            [Task::WikiText103, Task::Lambada]
                .into_iter()
                .any(|task| self.state(size, task) != ScoreState::Whole)
        };
        self.ground.is_missing_a_part() || self.sizes.iter().any(is_incomplete)
    }

    /// How much there is of the score of `size` on the test set of `task`.
    pub(super) fn state(&self, size: &Size, task: Task) -> ScoreState {
        let partial = match task {
            Task::WikiText103 => size.wikitext103.as_ref().map(|score| score.partial),
            Task::Lambada => size.lambada.as_ref().map(|score| score.partial),
        };
        match (partial, self.test_set(task)) {
            (Some(true), _) => ScoreState::Partial,
            (None, Some(_)) => ScoreState::Missing,
            (Some(false), _) | (None, None) => ScoreState::Whole,
        }
    }

    /// The test set of `task`.
    pub(crate) fn test_set(&self, task: Task) -> Option<&TestSet> {
        self.test_sets.iter().find(|test_set| test_set.task == task)
    }
}

impl Lambada {
    /// Target perplexity of a model to which all tokens of a vocabulary are alike.
    pub(crate) fn uniform_target_perplexity(&self, vocab_size: usize) -> f64 {
        (vocab_size as f64).powf(self.label_tokens as f64 / self.examples.max(1) as f64)
    }
}

impl NGramOverlap {
    /// Share of the positions whose n-gram is in the corpus; 0 where the test set has none.
    pub(crate) fn position_share(&self) -> f64 {
        self.matched_positions as f64 / self.positions.max(1) as f64
    }

    /// Share of the different n-grams that are in the corpus.
    pub(crate) fn distinct_share(&self) -> f64 {
        self.matched_distinct as f64 / self.distinct.max(1) as f64
    }
}
