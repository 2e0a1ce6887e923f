//! WikiText103 perplexity, by the protocol of the original implementation.
//!
//! The test file is one stream: no documents, no separators, headings and blank lines included. It is detokenized,
//! encoded in one go and scored in overlapping windows. The total negative log-likelihood is then spread over the
//! *original* words, `exp(total_nll / (original_tokens - 1))`, so that models with different tokenizers compare; over the
//! tokens it gives the token perplexity.
//!
//! The paper's formula divides by all original tokens, its program by one less, as here: a factor of 1.00001.
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), appendix E.1, and
//! `tasks/zeroshot_gpt2` of Megatron-LM v1.0.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::inference::Window;

use crate::config::EvalPlan;
use crate::detokenizer::{self, count_original_tokens, detokenize};
use crate::error::EvalError;
use crate::evaluate::EvaluatedModel;
use crate::report::{self, TaskResult};
use crate::windows::OverlapWindows;

/// What reports call the task on the benchmark's own text.
pub const NAME: &str = "wikitext103";

/// Bytes and original tokens of the published test split, `wiki.test.tokens` with its `<unk>`. The paper prints the second.
const PUBLISHED_TEST_SPLIT: (usize, usize) = (1_281_077, 245_566);

/// Largest mean loss that a perplexity is computed from, as in the original: perplexities end at `exp(20)`.
const MAX_MEAN_LOSS: f64 = 20.0;

/// Word perplexity of a text in WikiText103's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WikiText103 {
    /// What the report calls the task: [`NAME`] for the benchmark, another name for any other text.
    pub name: String,
    /// The test file.
    pub data: PathBuf,
}

/// What the task found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Always `megatron`: other programs define other perplexities of the same text.
    pub protocol: &'static str,
    /// The numbers.
    pub metrics: Metrics,
    /// What they were computed over.
    pub counts: Counts,
    /// How.
    pub settings: Settings,
}

/// The perplexities of a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// `exp(total_nll / (original_tokens - 1))`: the number to compare with the paper's.
    pub word_perplexity: f64,
    /// `exp(total_nll / (tokens - 1))`.
    pub token_perplexity: f64,
    /// Sum over the targets of the negative natural logarithm of their probability.
    pub total_nll: f64,
    /// `total_nll`, in bits, per byte of the test file.
    pub bits_per_byte: f64,
}

/// Sizes of a text and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytes of the test file.
    pub bytes: usize,
    /// Space-separated pieces of the test file.
    pub original_tokens: usize,
    /// Tokens after detokenizing and encoding.
    pub tokens: usize,
    /// Targets scored: `tokens - 1`, unless a limit left some out.
    pub targets: usize,
    /// Windows as the original counts them; the last ones may score nothing.
    pub windows: usize,
    /// Windows computed: those that score something, within the limit.
    pub windows_scored: usize,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Tokens that a prediction can see at most: the model's `seq_length`. The paper's models have 1024.
    pub window: usize,
    /// Tokens between the starts of two windows.
    pub overlap: usize,
    /// Rules that undo the text's tokenization.
    pub detokenizer: &'static str,
    /// The model's tokenizer.
    pub tokenizer: String,
    /// `(tokens - 1) / (original_tokens - 1)`: the word perplexity is the token perplexity to this power.
    pub token_ratio: f64,
    /// What happens to the rows that only pad the vocabulary: `masked`, they have no probability.
    pub padded_vocabulary: &'static str,
    /// Mean losses above this are cut, as in the original.
    pub max_mean_loss: f64,
    /// The test file.
    pub data: PathBuf,
    /// Whether the file has the size and the words of WikiText-103's published test split. Without, its numbers are not
    /// those of the benchmark.
    pub published_test_split: bool,
    /// The model's checkpoint.
    pub checkpoint: String,
    /// Ranks that shared the model.
    pub tensor_parallel_size: usize,
    /// Windows per forward pass.
    pub micro_batch_size: usize,
    /// Windows after which scoring stopped, where that was asked for.
    pub limit: Option<usize>,
}

/// A test file and what the protocol makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestText {
    /// Bytes of the file.
    pub bytes: usize,
    /// Space-separated pieces of the file.
    pub original_tokens: usize,
    /// The detokenized text, encoded.
    pub tokens: Vec<u32>,
}

/// Losses summed so far.
#[derive(Debug, Clone, Copy, Default)]
struct Scored {
    total_nll: f64,
    targets: usize,
    windows: usize,
}

impl WikiText103 {
    /// Scores the text of the test file with `model`.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, a setting does not fit the model, the model fails or gives a loss that is no
    /// number, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let window = model.scorer.seq_length();
        check_overlap(plan.overlap, window)?;
        let text = TestText::read(&self.data, model)?;
        if self.name == NAME && !text.is_published_test_split() {
            warn!(
                data = %self.data.display(),
                original_tokens = text.original_tokens,
                "not WikiText-103's published test split: its numbers compare with no paper's"
            );
        }
        let windows = OverlapWindows::new(&text.tokens, window, plan.overlap);
        info!(
            task = self.name,
            original_tokens = text.original_tokens,
            tokens = text.tokens.len(),
            windows = windows.num_windows(),
            "scoring"
        );

        let limit = plan.limit.map_or(usize::MAX, NonZeroUsize::get);
        let scoring: Vec<Window<'_>> = windows.scoring().take(limit).collect();
        observer.begin(&self.name, Some(scoring.len() as u64), Unit::Windows);
        let scored = score_all(&scoring, model, plan, observer)?;
        observer.finish();

        let measured = Measured {
            protocol: "megatron",
            metrics: Metrics::new(&text, scored),
            counts: Counts::new(&text, scored, &windows),
            settings: self.settings(&text, model, plan),
        };
        Ok(TaskResult {
            task: self.name.clone(),
            measured: report::Measured::WikiText103(measured),
            partial: scored.targets < windows.num_targets(),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn settings(&self, text: &TestText, model: &EvaluatedModel, plan: &EvalPlan) -> Settings {
        Settings {
            window: model.scorer.seq_length(),
            overlap: plan.overlap.get(),
            detokenizer: detokenizer::NAME,
            tokenizer: model.tokenizer.name().to_owned(),
            token_ratio: text.token_ratio(),
            padded_vocabulary: "masked",
            max_mean_loss: MAX_MEAN_LOSS,
            data: self.data.clone(),
            published_test_split: text.is_published_test_split(),
            checkpoint: model.checkpoint.clone(),
            tensor_parallel_size: plan.tensor_parallel_size.get(),
            micro_batch_size: plan.micro_batch_size.get(),
            limit: plan.limit.map(NonZeroUsize::get),
        }
    }
}

impl TestText {
    /// Reads a test file, counts its words, detokenizes and encodes it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not UTF-8, is empty, or has fewer than two words or tokens; or when the tokenizer gives a
    /// token that the model does not have.
    pub fn read(path: &Path, model: &EvaluatedModel) -> Result<Self, EvalError> {
        let original = read_utf8(path)?;
        if original.trim().is_empty() {
            return Err(EvalError::Empty { path: path.to_owned() });
        }
        let original_tokens = count_original_tokens(&original);
        let mut tokens = Vec::new();
        model.tokenizer.encode(&detokenize(&original), &mut tokens);
        if original_tokens < 2 || tokens.len() < 2 {
            return Err(EvalError::TooShort {
                path: path.to_owned(),
                original_tokens,
                tokens: tokens.len(),
            });
        }
        let vocab_size = model.scorer.vocab_size();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
            let tokenizer = model.tokenizer.name().to_owned();
            return Err(EvalError::UnknownToken { tokenizer, token, vocab_size });
        }
        Ok(Self { bytes: original.len(), original_tokens, tokens })
    }

    /// Whether this has the size and the words of WikiText-103's published test split.
    #[must_use]
    pub fn is_published_test_split(&self) -> bool {
        (self.bytes, self.original_tokens) == PUBLISHED_TEST_SPLIT
    }

    /// Targets per original word that has one before it.
    #[must_use]
    pub fn token_ratio(&self) -> f64 {
        (self.tokens.len() - 1) as f64 / (self.original_tokens - 1) as f64
    }
}

impl Metrics {
    /// The perplexities, from the targets that were scored.
    ///
    /// With a limit, words and bytes count in proportion to the targets.
    fn new(text: &TestText, scored: Scored) -> Self {
        let share = scored.targets as f64 / (text.tokens.len() - 1) as f64;
        let words = (text.original_tokens - 1) as f64 * share;
        let bytes = text.bytes as f64 * share;
        let nll = scored.total_nll;
        Self {
            word_perplexity: perplexity(nll / words),
            token_perplexity: perplexity(nll / scored.targets as f64),
            total_nll: nll,
            bits_per_byte: nll / std::f64::consts::LN_2 / bytes,
        }
    }
}

impl Counts {
    fn new(text: &TestText, scored: Scored, windows: &OverlapWindows<'_>) -> Self {
        Self {
            bytes: text.bytes,
            original_tokens: text.original_tokens,
            tokens: text.tokens.len(),
            targets: scored.targets,
            windows: windows.num_windows(),
            windows_scored: scored.windows,
        }
    }
}

fn perplexity(mean_loss: f64) -> f64 {
    mean_loss.min(MAX_MEAN_LOSS).exp()
}

fn check_overlap(overlap: NonZeroUsize, window: usize) -> Result<(), EvalError> {
    if overlap.get() <= window {
        return Ok(());
    }
    Err(EvalError::Setting {
        field: "overlap",
        value: overlap.get(),
        problem: format!("exceeds the model's seq_length; allowed: 1 to {window}"),
    })
}

fn read_utf8(path: &Path) -> Result<String, EvalError> {
    let bytes =
        fs::read(path).map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| {
        let byte_offset = error.utf8_error().valid_up_to();
        let line_ends = error.as_bytes()[..byte_offset].iter().filter(|&&byte| byte == b'\n');
        EvalError::NotUtf8 { path: path.to_owned(), byte_offset, line: line_ends.count() + 1 }
    })
}

/// Sums the losses of `windows`, in their order, so that the batch size does not change the order of the sum.
fn score_all(
    windows: &[Window<'_>],
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
    observer: &dyn Observer,
) -> Result<Scored, EvalError> {
    let mut scored = Scored::default();
    for batch in windows.chunks(plan.micro_batch_size.get()) {
        if observer.stop_requested() {
            return Err(EvalError::Stopped);
        }
        for scores in model.scorer.score(batch)? {
            scored.add(scores.iter().map(|score| score.loss))?;
        }
        observer.advance(batch.len() as u64);
    }
    Ok(scored)
}

impl Scored {
    fn add(&mut self, losses: impl ExactSizeIterator<Item = f32>) -> Result<(), EvalError> {
        self.targets += losses.len();
        for loss in losses {
            if !loss.is_finite() {
                return Err(EvalError::NonFinite { loss, window: self.windows });
            }
            self.total_nll += f64::from(loss);
        }
        self.windows += 1;
        Ok(())
    }
}
