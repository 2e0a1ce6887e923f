//! The vote of several models, and which of them a paper would tell of.
//!
//! The probabilities that the models give an option are averaged in `f64`, question by question, by
//! the question's name, and the option with the largest mean is chosen; of equal ones the first.
//!
//! # Source
//!
//! Shoeybi et al., section 5.3: of five models that were fine-tuned with five seeds the one with the
//! median accuracy on `dev` is evaluated on `test`; and `tasks/ensemble_classifier.py` of Megatron-LM,
//! which adds up the softmax vectors of the five by the names of the questions.

use std::collections::HashMap;

use corpus::race::OPTIONS;
use serde::Serialize;
use tracing::warn;

use super::metrics::{Counts, told};
use super::{CHANCE, ENSEMBLE, ENSEMBLE_NAME, LETTERS, LevelAccuracy, Prediction, Predictions};
use crate::error::EvalError;
use crate::items::{ChoiceScore, Items};
use crate::report::{self, Findings, TaskResult};

/// The vote of several models.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensemble {
    /// The models, in the order in which they were given.
    pub members: Vec<Member>,
    /// The mean of what they make of each question, in the order of the first model's questions.
    pub predictions: Predictions,
}

/// A model that votes.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Which model.
    pub model: String,
    /// Its own accuracies.
    pub accuracy: LevelAccuracy,
}

/// How well the models answer, together and each by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnsembleMetrics {
    /// Share of all questions that the vote answers rightly.
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
    /// The model with the median accuracy: with the split `dev`, the one to evaluate on `test`.
    pub median_member: String,
    /// Its accuracy.
    pub median_accuracy: f64,
    /// Each model by itself.
    pub members: Vec<MemberMetrics>,
}

/// How well one of the models answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberMetrics {
    /// Which model.
    pub model: String,
    /// Share of all questions that it answers rightly.
    pub accuracy: f64,
    /// Share of those of middle school; `None` where a limit left none.
    pub middle_accuracy: Option<f64>,
    /// Share of those of high school; `None` where a limit left none.
    pub high_accuracy: Option<f64>,
}

/// How the vote was taken, and of which models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnsembleSettings {
    /// How.
    pub vote: &'static str,
    /// Which of the models is the median one.
    pub median: &'static str,
    /// The models.
    pub models: Vec<String>,
}

impl Ensemble {
    /// The vote of `members`.
    ///
    /// # Errors
    ///
    /// [`EvalError::NothingGiven`] when there is none; [`EvalError::EnsembleDiffers`] when they were
    /// not asked the same questions, each once.
    pub fn of(members: &[Predictions]) -> Result<Self, EvalError> {
        let Some(first) = members.first().filter(|first| !first.questions.is_empty()) else {
            return Err(EvalError::NothingGiven {
                what: "answer of a model",
                remedy: "an ensemble needs the answers of one model at least",
            });
        };
        let by_name: Vec<HashMap<&str, &Prediction>> =
            members.iter().map(by_name).collect::<Result<_, _>>()?;
        for (member, found) in members.iter().zip(&by_name) {
            check_alike(first, member, &by_name[0], found)?;
        }
        let mean = |question: &Prediction| {
            let mut probabilities = [0.0; OPTIONS];
            for found in &by_name {
                let theirs = &found[question.id.as_str()].probabilities;
                probabilities.iter_mut().zip(theirs).for_each(|(sum, share)| *sum += share);
            }
            let probabilities = probabilities.map(|sum| sum / members.len() as f64);
            Prediction { probabilities, ..question.clone() }
        };
        let questions = first.questions.iter().map(mean).collect();
        let member = |it: &Predictions| Member { model: it.model.clone(), accuracy: it.accuracy() };
        Ok(Self {
            members: members.iter().map(member).collect(),
            predictions: Predictions { model: ENSEMBLE.to_owned(), questions },
        })
    }

    /// The accuracies of the vote.
    #[must_use]
    pub fn accuracy(&self) -> LevelAccuracy {
        self.predictions.accuracy()
    }

    /// The member with the median accuracy on all questions; of an even number the lower of the two
    /// in the middle, and of equal ones the earlier.
    ///
    /// # Panics
    ///
    /// When there are no members, which [`of`](Self::of) refuses.
    #[must_use]
    pub fn median(&self) -> &Member {
        let mut order: Vec<&Member> = self.members.iter().collect();
        // All have the same number of questions.
        order.sort_by_key(|member| member.accuracy.all().right);
        let middle = order[(order.len() - 1) / 2].accuracy.all().right;
        order[order.partition_point(|member| member.accuracy.all().right < middle)]
    }

    /// The vote as a result among those of its members, whose counts are `counts`.
    pub(crate) fn result(&self, counts: Counts, partial: bool, seconds: f64) -> TaskResult {
        let metrics = EnsembleMetrics::new(self);
        self.warn_if_guessing(&metrics, &counts);
        let settings = EnsembleSettings {
            vote: "the mean of the models' probabilities, question by question; of equal ones the \
                   first option",
            median: "the model in the middle by accuracy on all questions; of an even number the \
                     lower of two",
            models: self.members.iter().map(|member| member.model.clone()).collect(),
        };
        let findings = Findings { protocol: "megatron", metrics, counts, settings };
        TaskResult {
            task: ENSEMBLE_NAME.to_owned(),
            measured: report::Measured::RaceEnsemble(Box::new(findings)),
            partial,
            seconds,
            items: Some(Items::Choices(self.items())),
        }
    }

    /// Warns of a vote that shows nothing that the models have learned, as of each of them.
    fn warn_if_guessing(&self, metrics: &EnsembleMetrics, counts: &Counts) {
        if metrics.better_than_chance {
            return;
        }
        warn!(
            task = ENSEMBLE_NAME,
            accuracy = metrics.accuracy,
            questions = counts.questions,
            "the vote of {} models is not better than chance ({CHANCE}): within two standard errors \
             of a guess among four answers",
            self.members.len()
        );
    }

    fn items(&self) -> Vec<ChoiceScore> {
        let item = |(index, question): (usize, &Prediction)| ChoiceScore {
            index,
            id: question.id.clone(),
            level: question.level,
            line: None,
            model: ENSEMBLE.to_owned(),
            logits: None,
            probabilities: question.probabilities,
            predicted: LETTERS[question.choice()],
            answer: LETTERS[question.answer],
            correct: question.is_right(),
            // A mean that is 0 has no logarithm.
            nll: -question.probabilities[question.answer].max(f64::MIN_POSITIVE).ln(),
        };
        self.predictions.questions.iter().enumerate().map(item).collect()
    }
}

/// The questions of a model by their names.
fn by_name(model: &Predictions) -> Result<HashMap<&str, &Prediction>, EvalError> {
    let mut found = HashMap::new();
    for question in &model.questions {
        if found.insert(question.id.as_str(), question).is_some() {
            let difference = format!("question {} is there twice", question.id);
            return Err(EvalError::EnsembleDiffers { model: model.model.clone(), difference });
        }
    }
    Ok(found)
}

/// Refuses a member that was asked other questions than the first.
fn check_alike(
    first: &Predictions,
    member: &Predictions,
    ours: &HashMap<&str, &Prediction>,
    theirs: &HashMap<&str, &Prediction>,
) -> Result<(), EvalError> {
    let lacks = |one: &Predictions, other: &HashMap<&str, &Prediction>| {
        one.questions.iter().find(|it| !other.contains_key(it.id.as_str())).map(|it| it.id.clone())
    };
    let difference = if let Some(id) = lacks(first, theirs) {
        format!("question {id} is there in {} and not here", first.model)
    } else if let Some(id) = lacks(member, ours) {
        format!("question {id} is not there in {}", first.model)
    } else {
        let is_another = |it: &&Prediction| {
            let other = theirs[it.id.as_str()];
            (other.answer, other.level) != (it.answer, it.level)
        };
        let Some(question) = first.questions.iter().find(is_another) else { return Ok(()) };
        let (there, here) = (question.answer, theirs[question.id.as_str()].answer);
        format!(
            "the answer to question {} is {} in {} and {} here, or its level is another",
            question.id, LETTERS[there], first.model, LETTERS[here]
        )
    };
    Err(EvalError::EnsembleDiffers { model: member.model.clone(), difference })
}

impl EnsembleMetrics {
    fn new(ensemble: &Ensemble) -> Self {
        let (accuracy, median) = (ensemble.accuracy(), ensemble.median());
        let (middle_accuracy, middle_stderr) = told(accuracy.middle);
        let (high_accuracy, high_stderr) = told(accuracy.high);
        let member = |member: &Member| MemberMetrics {
            model: member.model.clone(),
            accuracy: member.accuracy.all().value(),
            middle_accuracy: told(member.accuracy.middle).0,
            high_accuracy: told(member.accuracy.high).0,
        };
        Self {
            accuracy: accuracy.all().value(),
            stderr: accuracy.all().standard_error(),
            middle_accuracy,
            middle_stderr,
            high_accuracy,
            high_stderr,
            chance: CHANCE,
            better_than_chance: accuracy.is_better_than_chance(),
            median_member: median.model.clone(),
            median_accuracy: median.accuracy.all().value(),
            members: ensemble.members.iter().map(member).collect(),
        }
    }
}
