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
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::inference::Window;
use training::parallel::TokenScore;

use super::test_text::TestText;
use super::{NAME, WikiText103};
use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::detokenizer;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::model::{EvaluatedModel, Stage};
use crate::perplexity::{MAX_MEAN_LOSS, is_capped, perplexity};
use crate::report::{self, ScoringSettings, TaskResult};
use crate::summary::TaskSummary;
use crate::windows::OverlapWindows;

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
    /// Tokens between the starts of two windows.
    pub overlap: usize,
    /// Rules that undo the text's tokenization.
    pub detokenizer: &'static str,
    /// `(tokens - 1) / (original_tokens - 1)`: the word perplexity is the token perplexity to this
    /// power.
    pub token_ratio: f64,
    /// Mean losses above this are cut, as in the original.
    pub max_mean_loss: f64,
    /// Whether the file has the size and the words of WikiText-103's published test split. Without,
    /// its numbers are not those of the benchmark.
    pub published_test_split: bool,
    /// The model, the test file, and how many windows were scored at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
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
        overlap: plan.overlap.get(),
        detokenizer: detokenizer::NAME,
        token_ratio: text.token_ratio(),
        max_mean_loss: MAX_MEAN_LOSS,
        published_test_split: text.is_published_test_split(),
        scoring: ScoringSettings::new(&task.data, model, plan),
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
            capped: is_capped(nll / words.min(scored.targets as f64)),
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
