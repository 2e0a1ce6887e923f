//! WikiText103 perplexity, by the protocol of the original implementation.
//!
//! The test file is one stream: no documents, no separators, headings and blank lines included. It
//! is detokenized, encoded in one go and scored in overlapping windows. The total negative
//! log-likelihood is then spread over the *original* words, `exp(total_nll / (original_tokens -
//! 1))`, so that models with different tokenizers compare; over the tokens it gives the token
//! perplexity.
//!
//! The paper's formula divides by all original tokens, its program by one less, as here: a factor
//! of 1.00001.
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), appendix
//! E.1, and `tasks/zeroshot_gpt2` of Megatron-LM v1.0.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::inference::Window;
use training::parallel::TokenScore;

use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::detokenizer::{self, count_original_tokens, detokenize};
use crate::error::EvalError;
use crate::model::{CheckpointKind, EvaluatedModel, ModelIdentity, Stage};
use crate::report::{self, TaskResult};
use crate::summary::TaskSummary;
use crate::windows::OverlapWindows;

/// What reports call the task on the benchmark's own text.
pub const NAME: &str = "wikitext103";

/// Bytes and original tokens of the published test split, `wiki.test.tokens` with its `<unk>`. The
/// paper prints the second.
const PUBLISHED_TEST_SPLIT: (usize, usize) = (1_281_077, 245_566);

/// Largest mean loss that a perplexity is computed from, as in the original: perplexities end at
/// `exp(20)`.
const MAX_MEAN_LOSS: f64 = 20.0;

/// Word perplexity of a text in WikiText103's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WikiText103 {
    /// What the report calls the task: [`NAME`] for the benchmark, another name for any other text.
    pub name: String,
    /// The test file.
    pub data: PathBuf,
}

/// What the task found; the protocol is always `megatron`: other programs define other perplexities
/// of the same text.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// The perplexities of a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// `exp(total_nll / (original_tokens - 1))`: the number to compare with the paper's.
    pub word_perplexity: f64,
    /// `exp(total_nll / (tokens - 1))`.
    pub token_perplexity: f64,
    /// Whether a mean loss above `max_mean_loss` was cut: its perplexity says no more than that it
    /// is larger.
    pub capped: bool,
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
    /// Tokens that a prediction can see at most: the model's `seq_length`. The paper's models have
    /// 1024.
    pub window: usize,
    /// Tokens between the starts of two windows.
    pub overlap: usize,
    /// Rules that undo the text's tokenization.
    pub detokenizer: &'static str,
    /// The model's tokenizer.
    pub tokenizer: String,
    /// `(tokens - 1) / (original_tokens - 1)`: the word perplexity is the token perplexity to this
    /// power.
    pub token_ratio: f64,
    /// What happens to the rows that only pad the vocabulary: `masked`, they have no probability.
    pub padded_vocabulary: &'static str,
    /// Mean losses above this are cut, as in the original.
    pub max_mean_loss: f64,
    /// The test file.
    pub data: PathBuf,
    /// Whether the file has the size and the words of WikiText-103's published test split. Without,
    /// its numbers are not those of the benchmark.
    pub published_test_split: bool,
    /// The model's checkpoint.
    pub checkpoint: PathBuf,
    /// What the checkpoint is.
    pub checkpoint_kind: CheckpointKind,
    /// Optimizer steps that the checkpoint has behind it; `None` where that is not known.
    pub checkpoint_step: Option<u64>,
    /// Ranks that shared each copy of the model.
    pub tensor_parallel_size: usize,
    /// Copies of the model that scored side by side.
    pub data_parallel_size: usize,
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

/// The sum of the losses.
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
    /// When the file cannot be used, a setting does not fit the model, the model fails or gives a
    /// loss that is no number, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let text = TestText::read(&self.data, &model.identity)?;
        if self.name == NAME && !text.is_published_test_split() {
            warn!(
                data = %self.data.display(),
                original_tokens = text.original_tokens,
                "not WikiText-103's published test split: its numbers compare with no paper's"
            );
        }
        let windows = text.windows(&model.identity, plan)?;
        info!(
            task = self.name,
            original_tokens = text.original_tokens,
            tokens = text.tokens.len(),
            windows = windows.num_windows(),
            "scoring"
        );

        let scoring: Vec<Window<'_>> = within_limit(windows, plan).collect();
        let stage = Stage { name: &self.name, unit: Unit::Windows, windows: &scoring };
        let scores = model.score(&stage, plan.micro_batch_size, observer)?;
        let scored = Scored::sum(&scores);

        let measured = Measured {
            protocol: "megatron",
            metrics: Metrics::new(&text, scored),
            counts: Counts::new(&text, scored, &windows),
            settings: self.settings(&text, &model.identity, plan),
        };
        Ok(TaskResult {
            task: self.name.clone(),
            measured: report::Measured::WikiText103(measured),
            partial: scored.targets < windows.num_targets(),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// What [`run`](Self::run) would do.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, or a setting does not fit the model.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        let text = TestText::read(&self.data, model)?;
        let windows = text.windows(model, plan)?;
        let scoring: Vec<Window<'_>> = within_limit(windows, plan).collect();
        let targets = scoring.iter().map(|window| window.scored.len()).sum();
        let batches = Batches::new(&scoring, plan.micro_batch_size);
        Ok(TaskSummary {
            task: self.name.clone(),
            data: self.data.clone(),
            tokens: text.tokens.len(),
            windows: Some(scoring.len()),
            examples: None,
            targets,
            forward_passes: batches.iter().len(),
            token_positions: batches.token_positions(),
            partial: targets < windows.num_targets(),
        })
    }

    fn settings(&self, text: &TestText, model: &ModelIdentity, plan: &EvalPlan) -> Settings {
        Settings {
            window: model.config.seq_length,
            overlap: plan.overlap.get(),
            detokenizer: detokenizer::NAME,
            tokenizer: model.tokenizer.name().to_owned(),
            token_ratio: text.token_ratio(),
            padded_vocabulary: "masked",
            max_mean_loss: MAX_MEAN_LOSS,
            data: self.data.clone(),
            published_test_split: text.is_published_test_split(),
            checkpoint: model.checkpoint.clone(),
            checkpoint_kind: model.kind,
            checkpoint_step: model.step,
            tensor_parallel_size: plan.tensor_parallel_size.get(),
            data_parallel_size: plan.data_parallel_size.get(),
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
    /// When the file cannot be read, is not UTF-8, is empty, or has fewer than two words or tokens;
    /// or when the tokenizer gives a token that the model does not have.
    pub fn read(path: &Path, model: &ModelIdentity) -> Result<Self, EvalError> {
        let original = read_utf8(path)?;
        if original.trim().is_empty() {
            return Err(EvalError::Empty { path: path.to_owned() });
        }
        let original_tokens = count_original_tokens(&original);
        let tokens = model.encode(&detokenize(&original))?;
        if original_tokens < 2 || tokens.len() < 2 {
            return Err(EvalError::TooShort {
                path: path.to_owned(),
                original_tokens,
                tokens: tokens.len(),
            });
        }
        Ok(Self { bytes: original.len(), original_tokens, tokens })
    }

    /// The windows in which `model` sees the text.
    ///
    /// # Errors
    ///
    /// When the plan's overlap exceeds what the model sees.
    pub fn windows(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<OverlapWindows<'_>, EvalError> {
        let window = model.config.seq_length;
        if plan.overlap.get() > window {
            return Err(EvalError::Setting {
                field: "overlap",
                value: plan.overlap.get(),
                problem: format!("exceeds the model's seq_length; allowed: 1 to {window}"),
            });
        }
        Ok(OverlapWindows::new(&self.tokens, window, plan.overlap))
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
            capped: nll / words.min(scored.targets as f64) > MAX_MEAN_LOSS,
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

/// The windows that score something, as many as the plan allows.
fn within_limit<'a>(
    windows: OverlapWindows<'a>,
    plan: &EvalPlan,
) -> impl Iterator<Item = Window<'a>> {
    windows.scoring().take(plan.limit.map_or(usize::MAX, NonZeroUsize::get))
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

impl Scored {
    /// Adds up the losses of the windows in their order.
    fn sum(scores: &[Vec<TokenScore>]) -> Self {
        Self {
            total_nll: scores.iter().flatten().map(|score| f64::from(score.loss)).sum(),
            targets: scores.iter().map(Vec::len).sum(),
            windows: scores.len(),
        }
    }
}
