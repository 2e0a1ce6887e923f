//! The passages of a test file as a model is asked about them, and how each went.

use std::num::NonZeroUsize;

use corpus::Document;
use serde::Serialize;
use training::inference::Window;
use training::parallel::TokenScore;

use super::Lambada;
use crate::cloze::{self, ClozeExample, Question};
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::ExampleScore;
use crate::protocol::Protocol;

/// Passages of the published test set, and bytes of all their texts.
const PUBLISHED_TEST_SET: (usize, usize) = (5_153, 1_688_837);

/// Characters of a passage's context that an item shows.
const CONTEXT_TAIL: usize = 80;

/// The passages of a test file, and as many of them as the plan allows, encoded.
pub(super) struct TestSet {
    passages: Vec<Document>,
    examples: Vec<ClozeExample>,
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

impl TestSet {
    /// Reads the file of `task`.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub(super) fn read(
        task: &Lambada,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<Self, EvalError> {
        let passages = cloze::read(&task.data)?;
        let limit = plan.limit.map_or(usize::MAX, NonZeroUsize::get);
        let example = |passage| match task.protocol {
            Protocol::Megatron => ClozeExample::new(passage, model),
            Protocol::LmEval => ClozeExample::lm_eval(passage, model),
        };
        let examples = passages.iter().take(limit).map(example);
        Ok(Self { examples: examples.collect::<Result<_, _>>()?, passages })
    }

    /// Passages of the file, those beyond the limit included.
    pub(super) fn num_passages(&self) -> usize {
        self.passages.len()
    }

    /// Whether it has the number and the size of the published passages.
    pub(super) fn is_published(&self) -> bool {
        let bytes = self.passages.iter().map(|passage| passage.text.len()).sum();
        (self.passages.len(), bytes) == PUBLISHED_TEST_SET
    }

    /// Whether the limit leaves passages out.
    pub(super) fn is_partial(&self) -> bool {
        self.examples.len() < self.passages.len()
    }

    /// The strict question of every example.
    pub(super) fn strict(&self) -> Vec<Window<'_>> {
        self.examples.iter().map(|example| example.strict.window()).collect()
    }

    /// The last-token questions that the strict ones do not answer.
    pub(super) fn last_token(&self) -> Vec<Window<'_>> {
        self.examples
            .iter()
            .filter_map(|example| Some(example.last_token.as_ref()?.window()))
            .collect()
    }

    /// How every example went, given the scores of both kinds of questions.
    pub(super) fn items(
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

impl Counts {
    pub(super) fn new(test: &TestSet) -> Self {
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
