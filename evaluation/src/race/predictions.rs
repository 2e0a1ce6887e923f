//! What a model makes of each question: kept apart from the model, so that several can vote.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use corpus::race::{OPTIONS, RaceLevel};
use serde::Deserialize;

use super::{LETTERS, LevelAccuracy, largest};
use crate::error::EvalError;
use crate::items::ChoiceScore;

/// The name under which the vote of several models stands among their items.
pub const ENSEMBLE: &str = "ensemble";

/// What one model makes of the questions of a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// Which model: its checkpoint.
    pub model: String,
    /// Its questions, each once.
    pub questions: Vec<Prediction>,
}

/// What a model makes of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The question's name, such as `test/high/high132.txt#0`.
    pub id: String,
    /// The examinations it is from.
    pub level: RaceLevel,
    /// Which of its options is right, from 0.
    pub answer: usize,
    /// The probability that the model gives each option.
    pub probabilities: [f64; OPTIONS],
}

/// A line of a file of items, as far as it is needed.
#[derive(Deserialize)]
struct Line {
    model: String,
    id: String,
    level: String,
    answer: char,
    probabilities: [f64; OPTIONS],
}

impl Prediction {
    /// The option with the largest probability, from 0; of equal ones the first.
    #[must_use]
    pub fn choice(&self) -> usize {
        largest(&self.probabilities)
    }

    /// Whether that is right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.choice() == self.answer
    }
}

impl Predictions {
    /// Those of the items that one model's evaluation gave.
    #[must_use]
    pub fn of_items(items: &[ChoiceScore]) -> Self {
        let prediction = |item: &ChoiceScore| Prediction {
            id: item.id.clone(),
            level: item.level,
            answer: letter(item.answer).unwrap_or_default(),
            probabilities: item.probabilities,
        };
        let model = items.first().map(|item| item.model.clone()).unwrap_or_default();
        Self { model, questions: items.iter().map(prediction).collect() }
    }

    /// Those that evaluations have written to a file of items, by model in the order of the file. The
    /// vote of several models that may stand among them is left out.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or a line of it is no item of a question: the error has the
    /// line.
    pub fn read(path: &Path) -> Result<Vec<Self>, EvalError> {
        let text = fs::read_to_string(path)
            .map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
        let mut models: Vec<Self> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let (model, prediction) = prediction_of(line).map_err(|problem| {
                EvalError::BadExample { path: path.to_owned(), line: number, problem }
            })?;
            if model == ENSEMBLE {
                continue;
            }
            let place = *places.entry(model.clone()).or_insert_with(|| {
                models.push(Self { model, questions: Vec::new() });
                models.len() - 1
            });
            models[place].questions.push(prediction);
        }
        match models.is_empty() {
            false => Ok(models),
            true => Err(EvalError::Empty { path: path.to_owned() }),
        }
    }

    /// The accuracies on both levels.
    #[must_use]
    pub fn accuracy(&self) -> LevelAccuracy {
        LevelAccuracy::of(self.questions.iter().map(|it| (it.level, it.is_right())))
    }
}

/// The model of a line of items, and what it makes of the line's question.
fn prediction_of(line: &str) -> Result<(String, Prediction), String> {
    const FORM: &str = "an item that `pipeline eval --task race --items` wrote is needed";
    let Line { model, id, level, answer, probabilities } =
        serde_json::from_str(line).map_err(|error| format!("{error}; {FORM}"))?;
    let level = RaceLevel::ALL
        .into_iter()
        .find(|it| it.name() == level)
        .ok_or_else(|| format!("the level {level:?} is neither middle nor high; {FORM}"))?;
    let answer = letter(answer)
        .ok_or_else(|| format!("the answer is {answer:?}; A, B, C or D is needed; {FORM}"))?;
    if !probabilities.iter().all(|share| (0.0..=1.0).contains(share)) {
        return Err(format!("the probabilities are {probabilities:?}; {FORM}"));
    }
    Ok((model, Prediction { id, level, answer, probabilities }))
}

/// The option of that letter, from 0.
fn letter(answer: char) -> Option<usize> {
    LETTERS.iter().position(|&letter| letter == answer)
}
