//! What each part does, in a few words: the same before the work and during it.

use corpus::race::RaceSplit;
use indicatif::HumanCount;

use super::config::Experiment;
use super::journal::Journal;
use super::parts::{Part, Parts, REPORT_FILE};
use super::report::numerals::bytes;

impl Parts<'_> {
    /// What a part does.
    pub(super) fn describe(&self, part: Part, journal: &Journal) -> String {
        match part {
            Part::Text => {
                let most = self.config.text.as_ref().map(|text| bytes(text.max_bytes.get()));
                let most = most.unwrap_or_default();
                let sets = self.config.experiment.tasks().len();
                match sets - self.inputs.test_files.len() {
                    0 => format!("at most {most} of text"),
                    1 => format!("at most {most} of text, a test set held out of it"),
                    _ => format!("at most {most} of text, both test sets held out of it"),
                }
            }
            Part::Corpus => match self.config.experiment {
                Experiment::Table3 => "dedup, with the test sets kept out".to_owned(),
                Experiment::Figure7 | Experiment::Race => {
                    "dedup, a sequence for each sentence".to_owned()
                }
            },
            Part::Contamination => {
                format!("n-grams of {} words of the test sets in the corpus", self.ngram_words())
            }
            Part::Train(size) => {
                let config = self.config.train_config(&self.config.sizes[size]);
                let plan = config.summary();
                let [parameters, rows, steps] = plan
                    .map_or([0; 3], |plan| {
                        [plan.parameters, plan.padded_vocab_size, plan.train_steps]
                    })
                    .map(HumanCount);
                format!("{parameters} parameters, vocabulary padded to {rows}, {steps} steps")
            }
            Part::Eval(_, task) => {
                let sets = self.test_sets(journal);
                let set = sets.iter().find(|it| it.task == task);
                let is_given = self.inputs.test_files.iter().any(|it| it.task == task);
                match set {
                    // Only text that is the machine's or the user's stands in for a test set.
                    Some(_) if self.config.text.is_none() && !is_given => {
                        format!("{}, which is not given", task.benchmark())
                    }
                    Some(set) => format!("{} ({})", set.name, set.path.display()),
                    None => String::new(),
                }
            }
            Part::FineTune { size, .. } => {
                let Some(race) = &self.inputs.race else {
                    return "RACE, which is not given".into();
                };
                let questions = race.split(RaceSplit::Train).questions;
                let size = &self.config.sizes[size];
                let planned = self.config.planned_fine_tune_config(size, questions);
                let steps = planned.and_then(|it| it.summary().ok()).map_or(0, |it| it.train_steps);
                let [questions, steps] = [questions, steps].map(HumanCount);
                format!("{questions} questions, {steps} steps")
            }
            Part::Race { split, .. } => match &self.inputs.race {
                Some(race) => {
                    let questions = HumanCount(race.split(split).questions);
                    format!("{questions} questions ({})", race.path.display())
                }
                None => "RACE, which is not given".to_owned(),
            },
            Part::Page => format!("{REPORT_FILE}, {}, {}", self.csv_file(), self.page_file()),
        }
    }

    /// `5 to 13`, or `5, 8` where some are left out between.
    fn ngram_words(&self) -> String {
        let mut words: Vec<_> =
            self.config.contamination.ngram_words.iter().map(|words| words.get()).collect();
        words.sort_unstable();
        words.dedup();
        match words.as_slice() {
            [first, .., last] if words.len() > 2 && last - first == words.len() - 1 => {
                format!("{first} to {last}")
            }
            words => words.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}
