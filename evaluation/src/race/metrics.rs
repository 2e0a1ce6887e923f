//! The numbers of one model, with the counts and settings that they depend on.

use corpus::race::{OPTIONS, RaceLevel};
use serde::Serialize;

use super::questions::QuestionSet;
use super::{CHANCE, LevelAccuracy, Race};
use crate::accuracy::Accuracy;
use crate::config::EvalPlan;
use crate::identity::ModelIdentity;
use crate::items::ChoiceScore;
use crate::report::{self, ScoringSettings};

/// What the task found of one model; the protocol is always `megatron`: the paper's.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// How well the questions were answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Share of all questions that were answered rightly: the paper's number.
    pub accuracy: f64,
    /// Its standard error, `√(p (1 - p) / questions)`.
    pub stderr: f64,
    /// Share of those of middle school; `None` where a limit left none.
    pub middle_accuracy: Option<f64>,
    /// Its standard error.
    pub middle_stderr: Option<f64>,
    /// Share of those of high school; `None` where a limit left none.
    pub high_accuracy: Option<f64>,
    /// Its standard error.
    pub high_stderr: Option<f64>,
    /// Share that a guess gets right.
    pub chance: f64,
    /// Whether `accuracy` is more than two standard errors of a guess above `chance`.
    pub better_than_chance: bool,
    /// Mean over the questions of the negative natural logarithm of the right answer's probability.
    pub loss: f64,
}

/// Sizes of the split and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Questions asked: all of the split, unless a limit left some out.
    pub questions: usize,
    /// Questions of the split.
    pub questions_in_split: usize,
    /// Questions of middle school that were asked.
    pub middle: usize,
    /// Questions of high school that were asked.
    pub high: usize,
    /// Articles of middle school that they are on.
    pub middle_articles: usize,
    /// Articles of high school that they are on.
    pub high_articles: usize,
    /// Questions of middle school of which a row had no room for the end of the article.
    pub middle_questions_article_cut: usize,
    /// Questions of high school of which a row had no room for the end of the article.
    pub high_questions_article_cut: usize,
    /// Questions that are cut at their end, with one of their options or more.
    pub questions_cut: usize,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// `train`, `dev` or `test`; the paper's table is of `test`, and its models are chosen by `dev`.
    pub split: &'static str,
    /// Whether both levels have as many questions as RACE's published split. Without, the numbers
    /// are not those of the benchmark.
    pub published_split: bool,
    /// Answers of a question.
    pub options: usize,
    /// Tokens of a question with an option at most.
    pub max_question_tokens: usize,
    /// What the model reads of a question.
    pub row: &'static str,
    /// The model, the folder, and how many questions were asked at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
}

/// An accuracy as it is told: none of no questions.
pub(super) fn told(accuracy: Accuracy) -> (Option<f64>, Option<f64>) {
    let is_known = accuracy.items > 0;
    (is_known.then(|| accuracy.value()), is_known.then(|| accuracy.standard_error()))
}

impl Metrics {
    pub(super) fn new(items: &[ChoiceScore]) -> Self {
        let answered = LevelAccuracy::of(items.iter().map(|item| (item.level, item.correct)));
        let loss = items.iter().map(|item| item.nll).sum::<f64>() / items.len() as f64;
        let (middle_accuracy, middle_stderr) = told(answered.middle);
        let (high_accuracy, high_stderr) = told(answered.high);
        Self {
            accuracy: answered.all().value(),
            stderr: answered.all().standard_error(),
            middle_accuracy,
            middle_stderr,
            high_accuracy,
            high_stderr,
            chance: CHANCE,
            better_than_chance: answered.is_better_than_chance(),
            loss,
        }
    }
}

impl Counts {
    pub(super) fn new(set: &QuestionSet) -> Self {
        let [middle, high] = [RaceLevel::Middle, RaceLevel::High].map(|level| set.of_level(level));
        Self {
            questions: set.len(),
            questions_in_split: set.num_in_split(),
            middle: middle.questions,
            high: high.questions,
            middle_articles: middle.articles,
            high_articles: high.articles,
            middle_questions_article_cut: middle.questions_article_cut,
            high_questions_article_cut: high.questions_article_cut,
            questions_cut: middle.questions_cut + high.questions_cut,
        }
    }
}

impl Settings {
    pub(super) fn new(
        task: &Race,
        set: &QuestionSet,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Self {
        Self {
            split: task.split.name(),
            published_split: set.is_published(),
            options: OPTIONS,
            max_question_tokens: set.max_question_tokens(),
            row: "[CLS] question with the option in its blanks or behind it [SEP] article [SEP]",
            scoring: ScoringSettings::new(&task.data, model, plan),
        }
    }
}
