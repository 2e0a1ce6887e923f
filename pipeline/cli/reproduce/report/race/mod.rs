//! RACE (section 5.3 of the paper): a BERT fine-tuned from several seeds, the one with the median
//! accuracy on `dev`, and the ensemble of all.
//!
//! [`Race`] holds what was found. [`RaceReport`] adds what follows from it by rule: whether a model is
//! better than chance, and how it stands to the paper's.

mod csv;
mod facts;
mod figure;
mod page;
mod paper;
mod table;

use serde::{Deserialize, Serialize};

use super::numerals::percent;
pub(crate) use facts::{Accuracies, Accuracy, FineTuned, Race, RaceModel};
pub(crate) use paper::paper_models;

/// What was found, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceReport {
    /// What was found.
    #[serde(flatten)]
    pub(crate) found: Race,
    /// Whether a part of it is missing: such a report compares with no other.
    pub(crate) partial: bool,
    /// For each model, whether its accuracy on `test` is better than chance.
    pub(crate) verdicts: Vec<Verdict>,
    /// What a reader should know before the numbers, in sentences.
    pub(crate) cautions: Vec<String>,
}

/// Whether a model is better than one that guesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The model, as the configuration has it.
    pub(crate) model: String,
    /// Whether its median's accuracy on `test` lies more than two standard errors of guessing above
    /// chance; the same for the ensemble.
    pub(crate) median_beats_chance: bool,
    /// The same for the ensemble of all seeds.
    pub(crate) ensemble_beats_chance: bool,
}

impl RaceReport {
    /// Judges what was found. The models are put in the order of their parameters.
    pub(crate) fn of(mut found: Race) -> Self {
        found.models.sort_by_key(|model| model.parameters);
        let verdicts = found.models.iter().map(|model| Verdict {
            model: model.name.clone(),
            median_beats_chance: model.median().is_some_and(|it| it.test.overall.beats_chance()),
            ensemble_beats_chance: model.ensemble_test.overall.beats_chance(),
        });
        Self {
            partial: found.is_partial(),
            verdicts: verdicts.collect(),
            cautions: found.cautions(),
            found,
        }
    }

    /// Why the report is partial; none where it is whole.
    pub(super) fn partial_sentence(&self) -> Option<String> {
        let missing = self.found.ground.missing_parts();
        let reason = match missing.is_empty() {
            true => "a limit left questions unscored".to_owned(),
            false => format!("not done: {}", super::words::listed(&missing, "and")),
        };
        self.partial.then(|| format!("PARTIAL; {reason}. Compare these numbers with no other."))
    }

    /// What was found, in a sentence or two.
    pub(super) fn finding_sentence(&self) -> String {
        let sentences = self.found.models.iter().zip(&self.verdicts).map(|(model, verdict)| {
            let Some(median) = model.median() else {
                return format!("{}: nothing was scored.", model.name);
            };
            let [median, ensemble] =
                [&median.test, &model.ensemble_test].map(|it| percent(it.overall.accuracy));
            let questions = model.ensemble_test.overall.questions;
            let judged = match (verdict.median_beats_chance, verdict.ensemble_beats_chance) {
                (true, true) => "both better than",
                (true, false) => "the median better than, the ensemble NOT better than",
                (false, true) => "the ensemble better than, the median NOT better than",
                (false, false) => "NOT better than",
            };
            format!(
                "{}: {median} of {questions} test questions right by the median of {} seeds, \
                 {ensemble} by their ensemble; {judged} the 25% of chance.",
                model.name,
                model.seeds.len()
            )
        });
        sentences.collect::<Vec<_>>().join(" ")
    }
}
