//! What was found on RACE.

use serde::{Deserialize, Serialize};

use super::super::ground::Ground;
use super::super::model::ModelShape;
use super::super::numerals::{or_dash, percent};
use super::paper::PaperModel;

/// Accuracy of who guesses: each question has four options.
pub(crate) const CHANCE: f64 = 0.25;

/// All that was done and found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Race {
    /// What it was made with and from: the text of the pre-training.
    #[serde(flatten)]
    pub(crate) ground: Ground,
    /// The folder of RACE.
    pub(crate) data: String,
    /// Questions of `train`, `dev` and `test`.
    pub(crate) questions: [u64; 3],
    /// Questions of `test` of which the end of the article found no room in the model's window.
    pub(crate) test_questions_article_cut: u64,
    /// Accuracy of who guesses.
    pub(crate) chance: f64,
    /// The pre-trained models, each fine-tuned from every seed.
    pub(crate) models: Vec<RaceModel>,
    /// What the paper printed.
    pub(crate) paper: Vec<PaperModel>,
}

/// A pre-trained model, and what was fine-tuned from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceModel {
    /// Its name, as the configuration has it.
    pub(crate) name: String,
    /// Its sizes.
    pub(crate) model: ModelShape,
    /// Parameters in pre-training, with the rows that pad the vocabulary.
    pub(crate) parameters: u64,
    /// Tokens that it saw in pre-training.
    pub(crate) pretraining_tokens: u64,
    /// Loss of masked tokens on held-out documents at the end of it, in nats.
    pub(crate) pretraining_validation_loss: Option<f64>,
    /// Wall time of the pre-training, in seconds.
    pub(crate) pretraining_seconds: f64,
    /// What was fine-tuned, a model for each seed, in the order of the configuration.
    pub(crate) seeds: Vec<FineTuned>,
    /// The seed whose accuracy on `dev` is the median.
    pub(crate) median_seed: u64,
    /// Accuracy on `dev` of the ensemble, which averages the models' probabilities.
    pub(crate) ensemble_dev: Accuracies,
    /// The same on `test`.
    pub(crate) ensemble_test: Accuracies,
}

/// A model fine-tuned from one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FineTuned {
    /// The seed.
    pub(crate) seed: u64,
    /// Optimizer steps.
    pub(crate) steps: u64,
    /// Mean loss of the last steps, in nats a question.
    pub(crate) final_loss: Option<f64>,
    /// Accuracy on `dev`.
    pub(crate) dev: Accuracies,
    /// Accuracy on `test`.
    pub(crate) test: Accuracies,
    /// Wall time of the fine-tuning, in seconds.
    pub(crate) seconds: f64,
    /// Wall time of scoring `dev` and `test`, in seconds.
    pub(crate) scoring_seconds: f64,
}

/// Accuracy over all questions and by level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accuracies {
    /// Over all questions, each counted once.
    pub(crate) overall: Accuracy,
    /// Middle school; `None` where a limit left no question of it.
    pub(crate) middle: Option<Accuracy>,
    /// High school; the same.
    pub(crate) high: Option<Accuracy>,
}

/// A share of questions with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accuracy {
    /// The share that was answered rightly.
    pub(crate) accuracy: f64,
    /// Its standard error.
    pub(crate) stderr: f64,
    /// The questions.
    pub(crate) questions: u64,
}

impl Accuracy {
    /// Whether it lies more than two standard errors of guessing above chance.
    pub(crate) fn beats_chance(&self) -> bool {
        let questions = self.questions.max(1) as f64;
        self.accuracy - CHANCE > 2.0 * (CHANCE * (1.0 - CHANCE) / questions).sqrt()
    }

    /// With its standard error, in words.
    pub(super) fn text(&self) -> String {
        format!("{} ± {}", percent(self.accuracy), percent(self.stderr))
    }
}

impl Accuracies {
    /// All three with their standard errors, in words.
    pub(super) fn texts(&self) -> [String; 3] {
        let level = |accuracy: Option<Accuracy>| or_dash(accuracy, |it| it.text());
        [self.overall.text(), level(self.middle), level(self.high)]
    }
}

impl RaceModel {
    /// What was fine-tuned from the seed whose accuracy on `dev` is the median.
    pub(crate) fn median(&self) -> Option<&FineTuned> {
        self.seeds.iter().find(|it| it.seed == self.median_seed)
    }
}

impl Race {
    /// Whether a part was not done, or questions were left unscored.
    pub(super) fn is_partial(&self) -> bool {
        let [_, dev, test] = self.questions;
        let is_short = |model: &RaceModel| {
            model.ensemble_dev.overall.questions < dev
                || model.ensemble_test.overall.questions < test
        };
        self.ground.is_missing_a_part() || self.models.iter().any(is_short)
    }

    /// What a reader should know before the numbers.
    pub(super) fn cautions(&self) -> Vec<String> {
        let mut cautions = self.ground.warnings.clone();
        let [train, _, test] = self.questions;
        // RACE has 87,866 questions to train on.
        if train < 10_000 {
            cautions.push(format!(
                "{train} questions to learn from, where RACE has 87,866: that a model guesses is \
                 what is to be expected."
            ));
        }
        if self.test_questions_article_cut > 0 {
            cautions.push(format!(
                "Of {} of {test} test questions the end of the article finds no room in the model's \
                 window, and is not read.",
                self.test_questions_article_cut
            ));
        }
        let error = (CHANCE * (1.0 - CHANCE) / test.max(1) as f64).sqrt();
        if error > 0.02 {
            cautions.push(format!(
                "With {test} test questions, who guesses is right in 25% ± {}: less than twice that \
                 tells nothing.",
                percent(error)
            ));
        }
        cautions
    }
}
