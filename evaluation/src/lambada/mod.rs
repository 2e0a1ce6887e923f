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
//! said in [`cloze`].
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), appendix
//! E.2, and `tasks/zeroshot_gpt2` of Megatron-LM v1.0 with `--strict-lambada`. Paperno et al., *The
//! LAMBADA dataset*, [arXiv 1606.06031](https://arxiv.org/abs/1606.06031).

pub mod lm_eval;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use corpus::{Document, Observer, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::inference::Window;
use training::parallel::TokenScore;

use crate::batches::Batches;
use crate::cloze::{self, ClozeExample, Question};
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::items::{ExampleScore, Items};
use crate::model::{CheckpointKind, EvaluatedModel, ModelIdentity, Stage};
use crate::protocol::Protocol;
use crate::report::{self, TaskResult};
use crate::summary::TaskSummary;

/// What reports call the task on the benchmark's own passages.
pub const NAME: &str = "lambada";

/// Passages of the published test set, and bytes of all their texts.
const PUBLISHED_TEST_SET: (usize, usize) = (5_153, 1_688_837);

/// Characters of a passage's context that an item shows.
const CONTEXT_TAIL: usize = 80;

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

/// Sizes of the test and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Examples scored: all of the file, unless a limit left some out.
    pub examples: usize,
    /// Examples of the file.
    pub examples_in_file: usize,
    /// Tokens of the contexts before the last words, before any was cut.
    pub context_tokens: usize,
    /// Tokens of the last words: the targets.
    pub label_tokens: usize,
    /// Examples whose last word has more than one token.
    pub multi_token_words: usize,
    /// Tokens of the longest example, its last word included.
    pub longest_example: usize,
    /// Examples whose context is longer than the model sees and was cut at its beginning.
    pub examples_cut: usize,
    /// Tokens that were cut.
    pub context_tokens_cut: usize,
    /// Examples that are other tokens when they are encoded in one go; they take a pass of their
    /// own for the last token.
    pub examples_encoded_twice: usize,
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

/// What the numbers of both protocols depend on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommonSettings {
    /// Tokens that a prediction can see at most: the model's `seq_length`.
    pub window: usize,
    /// The model's tokenizer.
    pub tokenizer: String,
    /// Tokens of the model's vocabulary, without padding.
    pub vocab_size: usize,
    /// What happens to the rows that only pad the vocabulary: `masked`, they are never predicted.
    pub padded_vocabulary: &'static str,
    /// The test file.
    pub data: PathBuf,
    /// Whether the file has the number and the size of LAMBADA's published test passages. Without,
    /// its numbers are not those of the benchmark.
    pub published_test_set: bool,
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
    /// Examples per forward pass.
    pub micro_batch_size: usize,
    /// Examples after which scoring stopped, where that was asked for.
    pub limit: Option<usize>,
}

/// The passages of a test file, and as many of them as the plan allows, encoded.
struct TestSet {
    passages: Vec<Document>,
    examples: Vec<ClozeExample>,
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
        let test = self.read(&model.identity, plan)?;
        if self.name == NAME && !test.is_published() {
            warn!(
                data = %self.data.display(),
                examples = test.passages.len(),
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
        let common = self.settings(&test, &model.identity, plan);
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
        let test = self.read(model, plan)?;
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

    fn read(&self, model: &ModelIdentity, plan: &EvalPlan) -> Result<TestSet, EvalError> {
        let passages = cloze::read(&self.data)?;
        let limit = plan.limit.map_or(usize::MAX, NonZeroUsize::get);
        let example = |passage| match self.protocol {
            Protocol::Megatron => ClozeExample::new(passage, model),
            Protocol::LmEval => ClozeExample::lm_eval(passage, model),
        };
        let examples = passages.iter().take(limit).map(example);
        Ok(TestSet { examples: examples.collect::<Result<_, _>>()?, passages })
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

    fn settings(&self, test: &TestSet, model: &ModelIdentity, plan: &EvalPlan) -> CommonSettings {
        CommonSettings {
            window: model.config.seq_length,
            tokenizer: model.tokenizer.name().to_owned(),
            vocab_size: model.config.vocab_size,
            padded_vocabulary: "masked",
            data: self.data.clone(),
            published_test_set: test.is_published(),
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

impl TestSet {
    fn is_published(&self) -> bool {
        let bytes = self.passages.iter().map(|passage| passage.text.len()).sum();
        (self.passages.len(), bytes) == PUBLISHED_TEST_SET
    }

    fn is_partial(&self) -> bool {
        self.examples.len() < self.passages.len()
    }

    /// The strict question of every example.
    fn strict(&self) -> Vec<Window<'_>> {
        self.examples.iter().map(|example| example.strict.window()).collect()
    }

    /// The last-token questions that the strict ones do not answer.
    fn last_token(&self) -> Vec<Window<'_>> {
        self.examples
            .iter()
            .filter_map(|example| Some(example.last_token.as_ref()?.window()))
            .collect()
    }

    /// How every example went, given the scores of both kinds of questions.
    fn items(
        &self,
        strict: &[Vec<TokenScore>],
        last_token: &[Vec<TokenScore>],
        model: &ModelIdentity,
    ) -> Vec<ExampleScore> {
        let mut last_token = last_token.iter();
        let item = |(index, (example, strict)): (usize, (&ClozeExample, &Vec<TokenScore>))| {
            let right = right_labels(&example.strict, strict);
            let is_last_token_right = match &example.last_token {
                None => right.last().copied(),
                Some(question) => last_token
                    .next()
                    .and_then(|scores| right_labels(question, scores).last().copied()),
            };
            let predicted_tokens: Vec<u32> = strict.iter().map(|score| score.predicted).collect();
            let context = model.tokenizer.decode(example.strict.context());
            let tail = context.char_indices().rev().nth(CONTEXT_TAIL - 1).map_or(0, |it| it.0);
            ExampleScore {
                index,
                line: self.passages[index].provenance.line.unwrap_or(1),
                context_tail: context[tail..].to_owned(),
                target: model.tokenizer.decode(example.strict.labels()),
                target_tokens: example.strict.labels().to_vec(),
                predicted: model.tokenizer.decode(&predicted_tokens),
                predicted_tokens,
                strict: right.iter().all(|&right| right),
                last_token: is_last_token_right.unwrap_or(false),
                nll: strict.iter().map(|score| f64::from(score.loss)).sum(),
            }
        };
        self.examples.iter().zip(strict).enumerate().map(item).collect()
    }
}

/// Which labels of the question are the most probable tokens.
fn right_labels(question: &Question, scores: &[TokenScore]) -> Vec<bool> {
    question.labels().iter().zip(scores).map(|(&label, score)| score.predicted == label).collect()
}

impl Settings {
    fn new(common: CommonSettings) -> Self {
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
    fn new(items: &[ExampleScore]) -> Self {
        let count = items.len() as f64;
        let share = |is_right: fn(&ExampleScore) -> bool| {
            let share = items.iter().filter(|&item| is_right(item)).count() as f64 / count;
            (share, (share * (1.0 - share) / count).sqrt())
        };
        let (strict_accuracy, strict_stderr) = share(|item| item.strict);
        let (last_token_accuracy, last_token_stderr) = share(|item| item.last_token);
        let total_nll: f64 = items.iter().map(|item| item.nll).sum();
        Self {
            strict_accuracy,
            strict_stderr,
            last_token_accuracy,
            last_token_stderr,
            target_perplexity: (total_nll / count).exp(),
            total_nll,
        }
    }
}

impl Counts {
    fn new(test: &TestSet) -> Self {
        let strict = || test.examples.iter().map(|example| &example.strict);
        let label_tokens = strict().map(|question| question.labels().len()).sum();
        Self {
            examples: test.examples.len(),
            examples_in_file: test.passages.len(),
            context_tokens: strict().map(Question::num_tokens).sum::<usize>() - label_tokens,
            label_tokens,
            multi_token_words: strict().filter(|question| question.labels().len() > 1).count(),
            longest_example: strict().map(Question::num_tokens).max().unwrap_or(0),
            examples_cut: strict().filter(|question| question.num_cut() > 0).count(),
            context_tokens_cut: strict().map(Question::num_cut).sum(),
            examples_encoded_twice: test
                .examples
                .iter()
                .filter(|it| it.last_token.is_some())
                .count(),
        }
    }
}
