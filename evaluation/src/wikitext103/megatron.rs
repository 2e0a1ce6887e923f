//! The protocol of the original implementation.
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

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::inference::Window;
use training::parallel::TokenScore;

use super::articles::{self, Article};
use super::form::Form;
use super::{NAME, WikiText103};
use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::detokenizer::{self, count_original_tokens, detokenize_marked};
use crate::error::EvalError;
use crate::items::{ArticleScore, Items};
use crate::model::{CheckpointKind, EvaluatedModel, ModelIdentity, Stage};
use crate::report::{self, TaskResult};
use crate::summary::TaskSummary;
use crate::test_file;
use crate::windows::OverlapWindows;

/// Bytes and original tokens of the published test split, `wiki.test.tokens` with its `<unk>`. The
/// paper prints the second.
const PUBLISHED_TEST_SPLIT: (usize, usize) = (1_281_077, 245_566);

/// Largest mean loss that a perplexity is computed from, as in the original: perplexities end at
/// `exp(20)`.
const MAX_MEAN_LOSS: f64 = 20.0;

/// What the task found by this protocol.
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
    /// What tells its form.
    pub form: Form,
    /// The file's articles.
    articles: Vec<Article>,
    /// Original tokens of each article, but for the first of the file.
    words: Vec<usize>,
    /// Index of each article's first token; `None` where the tokens do not give back the text.
    first_tokens: Option<Vec<usize>>,
}

/// The sum of the losses.
#[derive(Debug, Clone, Copy, Default)]
struct Scored {
    total_nll: f64,
    targets: usize,
    windows: usize,
}

/// [`WikiText103::run`] by this protocol.
pub(super) fn run(
    task: &WikiText103,
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
    observer: &dyn Observer,
) -> Result<TaskResult, EvalError> {
    let start = Instant::now();
    let text = TestText::read(&task.data, &model.identity)?;
    if task.name == NAME && !text.is_published_test_split() {
        warn!(
            data = %task.data.display(),
            original_tokens = text.original_tokens,
            "not WikiText-103's published test split: its numbers compare with no paper's"
        );
        text.form.warn_if_not_tokens(&task.data, text.token_ratio());
    }
    let windows = text.windows(&model.identity, plan)?;
    info!(
        task = task.name,
        original_tokens = text.original_tokens,
        tokens = text.tokens.len(),
        windows = windows.num_windows(),
        "scoring"
    );

    let scoring: Vec<Window<'_>> = within_limit(windows, plan).collect();
    let stage = Stage { name: &task.name, unit: Unit::Windows, windows: &scoring };
    let scores = model.score(&stage, plan.micro_batch_size, observer)?;
    let scored = Scored::sum(&scores);

    let measured = Measured {
        protocol: task.protocol.name(),
        metrics: Metrics::new(&text, scored),
        counts: Counts::new(&text, scored, &windows),
        settings: settings(task, &text, &model.identity, plan),
    };
    report::warn_if_worse_than_guessing(
        &task.name,
        measured.metrics.token_perplexity,
        &model.identity,
    );
    Ok(TaskResult {
        task: task.name.clone(),
        measured: report::Measured::WikiText103(measured),
        partial: scored.targets < windows.num_targets(),
        seconds: start.elapsed().as_secs_f64(),
        items: text.items(&scores),
    })
}

/// [`WikiText103::summary`] by this protocol.
pub(super) fn summary(
    task: &WikiText103,
    model: &ModelIdentity,
    plan: &EvalPlan,
) -> Result<TaskSummary, EvalError> {
    let text = TestText::read(&task.data, model)?;
    let windows = text.windows(model, plan)?;
    let scoring: Vec<Window<'_>> = within_limit(windows, plan).collect();
    let targets = scoring.iter().map(|window| window.scored.len()).sum();
    let batches = Batches::new(&scoring, plan.micro_batch_size);
    Ok(TaskSummary {
        task: task.name.clone(),
        data: task.data.clone(),
        tokens: text.tokens.len(),
        windows: Some(scoring.len()),
        examples: None,
        targets,
        forward_passes: batches.iter().len(),
        token_positions: batches.token_positions(),
        partial: targets < windows.num_targets(),
    })
}

fn settings(
    task: &WikiText103,
    text: &TestText,
    model: &ModelIdentity,
    plan: &EvalPlan,
) -> Settings {
    Settings {
        window: model.config.seq_length,
        overlap: plan.overlap.get(),
        detokenizer: detokenizer::NAME,
        tokenizer: model.tokenizer.name().to_owned(),
        token_ratio: text.token_ratio(),
        padded_vocabulary: "masked",
        max_mean_loss: MAX_MEAN_LOSS,
        data: task.data.clone(),
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

impl TestText {
    /// Reads a test file, counts its words, detokenizes and encodes it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not UTF-8 with lines that end in a line feed, is empty, or
    /// has fewer than two words or tokens; or when the tokenizer gives a token that the model does
    /// not have.
    pub fn read(path: &Path, model: &ModelIdentity) -> Result<Self, EvalError> {
        let original = test_file::read_with_line_feeds(path)?;
        let original_tokens = count_original_tokens(&original);
        let articles = articles::cut(&original);
        let mut starts: Vec<usize> = articles.iter().map(|article| article.bytes.start).collect();
        let text = detokenize_marked(&original, &mut starts);
        let tokens = model.encode(&text)?;
        if original_tokens < 2 || tokens.len() < 2 {
            return Err(EvalError::TooShort {
                path: path.to_owned(),
                original_tokens,
                tokens: tokens.len(),
            });
        }
        Ok(Self {
            bytes: original.len(),
            original_tokens,
            form: Form::of(&original),
            words: articles::words(&original, &articles),
            first_tokens: articles::first_tokens(&text, &starts, &tokens, &*model.tokenizer),
            articles,
            tokens,
        })
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
        plan.check_overlap(&model.config)?;
        Ok(OverlapWindows::new(&self.tokens, model.config.seq_length, plan.overlap))
    }

    /// What each article had of the losses of `scores`, those of the windows in order; `None` where
    /// the tokens do not tell whose they are.
    fn items(&self, scores: &[Vec<TokenScore>]) -> Option<Items> {
        // The scored targets of the windows follow each other: token 1, token 2, and so on.
        let losses: Vec<f64> = scores.iter().flatten().map(|it| f64::from(it.loss)).collect();
        let firsts = self.first_tokens.as_ref()?;
        let ends = firsts.iter().skip(1).copied().chain([self.tokens.len()]);
        let scored = |(index, (&first, end)): (usize, (&usize, usize))| {
            // Token 0 is no target, and target 1 has the first loss.
            let targets = first.max(1) - 1..end.max(1) - 1;
            let own = &losses[targets.start.min(losses.len())..targets.end.min(losses.len())];
            let article = &self.articles[index];
            let nll = own.iter().sum::<f64>();
            let words = self.words[index] as f64 * own.len() as f64 / targets.len() as f64;
            ArticleScore {
                index,
                title: article.title.clone(),
                line: article.line,
                bytes: article.bytes.clone(),
                words: self.words[index],
                targets: targets.len(),
                scored: own.len(),
                nll,
                word_perplexity: (words > 0.0).then(|| perplexity(nll / words)),
            }
        };
        let items = firsts.iter().zip(ends).enumerate().map(scored);
        Some(Items::Articles(items.filter(|item| item.scored > 0 || item.targets == 0).collect()))
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

pub(super) fn perplexity(mean_loss: f64) -> f64 {
    mean_loss.min(MAX_MEAN_LOSS).exp()
}

/// The windows that score something, as many as the plan allows.
fn within_limit<'a>(
    windows: OverlapWindows<'a>,
    plan: &EvalPlan,
) -> impl Iterator<Item = Window<'a>> {
    windows.scoring().take(plan.limit.map_or(usize::MAX, NonZeroUsize::get))
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
