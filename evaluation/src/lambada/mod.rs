//! LAMBADA: guessing the last word of a passage, by the protocol of the original implementation.
//!
//! Two accuracies carry this name in print, and one model can have 33% by one and 47% by the other,
//! so both are measured and neither is called just LAMBADA:
//!
//! - `strict_accuracy`, the paper's: the whole last word must be right, every token of it being the
//!   most probable one after the passage and the right tokens before it;
//! - `last_token_accuracy`, that of GPT-2's authors: only the last token of the passage must be.
//!
//! With the protocol `lm-eval` the numbers are those of lm-evaluation-harness instead, by its names
//! ([`lm_eval`]).
//!
//! `target_perplexity` is `exp` of the mean over the examples of the strict target's negative
//! log-likelihood, summed over the word's tokens. What a passage and its last word are as tokens is
//! said in [`cloze`](crate::cloze).
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), appendix
//! E.2, and `tasks/zeroshot_gpt2` of Megatron-LM v1.0 with `--strict-lambada`. Paperno et al., *The
//! LAMBADA dataset*, [arXiv 1606.06031](https://arxiv.org/abs/1606.06031).

pub mod lm_eval;
mod megatron;
mod test_set;

use std::path::PathBuf;
use std::time::Instant;

use corpus::{Observer, Unit};
pub use megatron::{Measured, Metrics, Settings};
use serde::Serialize;
pub use test_set::Counts;
use test_set::TestSet;
use tracing::{info, warn};
use training::inference::Window;
use training::parallel::TokenScore;

use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::Items;
use crate::model::{EvaluatedModel, Stage};
use crate::protocol::Protocol;
use crate::report::{self, ScoringSettings, TaskResult};
use crate::summary::TaskSummary;

/// What reports call the task on the benchmark's own passages.
pub const NAME: &str = "lambada";

/// Accuracy on the last words of passages in LAMBADA's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lambada {
    /// What the report calls the task: [`NAME`] for the benchmark, another name for any other
    /// passages.
    pub name: String,
    /// The test file: JSONL whose lines hold a passage each under `text`.
    pub data: PathBuf,
    /// Whose rules.
    pub protocol: Protocol,
}

/// What the numbers of both protocols depend on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommonSettings {
    /// Whether the file has the number and the size of LAMBADA's published test passages. Without,
    /// its numbers are not those of the benchmark.
    pub published_test_set: bool,
    /// The model, the test file, and how many examples were scored at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
}

impl Lambada {
    /// Has `model` guess the last words of the test file.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, the model fails or gives a loss that is no number, or
    /// `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let test = TestSet::read(self, &model.identity, plan)?;
        if self.name == NAME && !test.is_published() {
            warn!(
                data = %self.data.display(),
                examples = test.num_passages(),
                "not LAMBADA's published test set: its numbers compare with no paper's"
            );
        }
        let counts = Counts::new(&test);
        info!(
            task = self.name,
            examples = counts.examples,
            context_tokens = counts.context_tokens,
            label_tokens = counts.label_tokens,
            examples_cut = counts.examples_cut,
            "scoring"
        );

        let strict = self.ask(&test.strict(), "last words", model, plan, observer)?;
        let last_token = self.ask(&test.last_token(), "last tokens", model, plan, observer)?;
        let items = test.items(&strict, &last_token, &model.identity);
        let total_nll: f64 = items.iter().map(|item| item.nll).sum();
        let token_perplexity = (total_nll / counts.label_tokens as f64).exp();
        report::warn_if_worse_than_guessing(&self.name, token_perplexity, &model.identity);

        let protocol = self.protocol.name();
        let common = CommonSettings {
            published_test_set: test.is_published(),
            scoring: ScoringSettings::new(&self.data, &model.identity, plan),
        };
        let measured = match self.protocol {
            Protocol::Megatron => {
                let metrics = Metrics::new(&items);
                let settings = Settings::new(common);
                report::Measured::Lambada(Measured { protocol, metrics, counts, settings })
            }
            Protocol::LmEval => {
                let metrics = lm_eval::Metrics::new(&items);
                let settings = lm_eval::Settings::new(common);
                report::Measured::LambadaLmEval(lm_eval::Measured {
                    protocol,
                    metrics,
                    counts,
                    settings,
                })
            }
        };
        Ok(TaskResult {
            task: self.name.clone(),
            measured,
            partial: test.is_partial(),
            seconds: start.elapsed().as_secs_f64(),
            items: Some(Items::Examples(items)),
        })
    }

    /// What [`run`](Self::run) would do.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        let test = TestSet::read(self, model, plan)?;
        let (strict, last_token) = (test.strict(), test.last_token());
        let passes =
            [&strict, &last_token].map(|windows| Batches::new(windows, plan.micro_batch_size));
        let counts = Counts::new(&test);
        Ok(TaskSummary {
            task: self.name.clone(),
            data: self.data.clone(),
            tokens: counts.context_tokens + counts.label_tokens,
            windows: None,
            examples: Some(counts.examples),
            targets: counts.label_tokens,
            forward_passes: passes.iter().map(|batches| batches.iter().len()).sum(),
            token_positions: passes.iter().map(Batches::token_positions).sum(),
            partial: test.is_partial(),
        })
    }

    /// The scores of `windows`; `what` they ask for is shown with the progress.
    fn ask(
        &self,
        windows: &[Window<'_>],
        what: &str,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<TokenScore>>, EvalError> {
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let name = format!("{}, {what}", self.name);
        let stage = Stage { name: &name, unit: Unit::Examples, windows };
        model.score(&stage, plan.micro_batch_size, observer)
    }
}
