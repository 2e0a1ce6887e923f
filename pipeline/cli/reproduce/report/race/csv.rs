//! The report as CSV: one row for each fine-tuned model, for each ensemble, and for each row of the
//! paper's table; shares are shares, not percent, and what is absent is empty.

use super::super::csv::{line, text};
use super::RaceReport;
use super::facts::{Accuracies, Accuracy, FineTuned, RaceModel};
use super::paper::PaperModel;

/// What a row is about.
enum Row<'r> {
    Seed(&'r RaceModel, &'r FineTuned),
    Ensemble(&'r RaceModel),
    Paper(&'r PaperModel),
}

/// A column: its name, and its value in a row.
type Column = (&'static str, fn(&Row<'_>) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("source", |row| text(row.source())),
    ("name", |row| text(row.name())),
    ("seed", |row| text(row.seed()?.seed)),
    ("is_median_of_dev", |row| match row {
        Row::Seed(model, seed) => text(seed.seed == model.median_seed),
        Row::Ensemble(_) | Row::Paper(_) => None,
    }),
    ("parameters", |row| text(row.model()?.parameters)),
    ("pretraining_tokens", |row| text(row.model()?.pretraining_tokens)),
    ("pretraining_validation_mlm_loss", |row| text(row.model()?.pretraining_validation_loss?)),
    ("steps", |row| text(row.seed()?.steps)),
    ("final_loss", |row| text(row.seed()?.final_loss?)),
    ("dev_accuracy", |row| text(row.dev()?.overall.accuracy)),
    ("dev_stderr", |row| text(row.dev()?.overall.stderr)),
    ("dev_questions", |row| text(row.dev()?.overall.questions)),
    ("test_accuracy", |row| row.test(0)),
    ("test_accuracy_middle", |row| row.test(1)),
    ("test_accuracy_high", |row| row.test(2)),
    ("test_stderr", |row| text(row.test_found()?.overall.stderr)),
    ("test_questions", |row| text(row.test_found()?.overall.questions)),
    ("finetuning_seconds", |row| text(row.seed()?.seconds)),
    ("scoring_seconds", |row| text(row.seed()?.scoring_seconds)),
];

impl RaceReport {
    /// The report as CSV, its header first.
    pub(crate) fn csv(&self) -> String {
        let ours = self.found.models.iter().flat_map(|model| {
            let seeds = model.seeds.iter().map(move |seed| Row::Seed(model, seed));
            seeds.chain([Row::Ensemble(model)])
        });
        let rows = ours.chain(self.found.paper.iter().map(Row::Paper));
        let mut csv = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for row in rows {
            csv.push_str(&line(COLUMNS.iter().map(|(_, value)| value(&row).unwrap_or_default())));
        }
        csv
    }
}

impl<'r> Row<'r> {
    fn source(&self) -> &'static str {
        match self {
            Self::Seed(..) => "ours",
            Self::Ensemble(_) => "ensemble",
            Self::Paper(PaperModel { megatron: true, .. }) => "paper",
            Self::Paper(_) => "earlier",
        }
    }

    fn name(&self) -> &'r str {
        match self {
            Self::Seed(model, _) | Self::Ensemble(model) => &model.name,
            Self::Paper(row) => &row.name,
        }
    }

    fn model(&self) -> Option<&'r RaceModel> {
        match self {
            Self::Seed(model, _) | Self::Ensemble(model) => Some(model),
            Self::Paper(_) => None,
        }
    }

    fn seed(&self) -> Option<&'r FineTuned> {
        match self {
            Self::Seed(_, seed) => Some(seed),
            Self::Ensemble(_) | Self::Paper(_) => None,
        }
    }

    fn dev(&self) -> Option<&'r Accuracies> {
        match self {
            Self::Seed(_, seed) => Some(&seed.dev),
            Self::Ensemble(model) => Some(&model.ensemble_dev),
            Self::Paper(_) => None,
        }
    }

    fn test_found(&self) -> Option<&'r Accuracies> {
        match self {
            Self::Seed(_, seed) => Some(&seed.test),
            Self::Ensemble(model) => Some(&model.ensemble_test),
            Self::Paper(_) => None,
        }
    }

    /// The share of all test questions, of middle or of high school.
    fn test(&self, place: usize) -> Option<String> {
        if let Self::Paper(row) = self {
            return text(row.accuracy[place]);
        }
        let Accuracies { overall, middle, high } = self.test_found()?;
        let found: [Option<Accuracy>; 3] = [Some(*overall), *middle, *high];
        text(found[place]?.accuracy)
    }
}
