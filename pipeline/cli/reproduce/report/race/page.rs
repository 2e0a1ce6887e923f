//! The report as one HTML page; its words stand in `templates/race.html`.

use askama::Template;

use super::super::figure::Figure;
use super::super::numerals::{duration, grouped, loss, or_dash, percent, short};
use super::super::page::{Fact, GroundPage, Table};
use super::facts::RaceModel;
use super::{RaceReport, figure};

impl RaceReport {
    /// The report as an HTML page.
    ///
    /// # Panics
    ///
    /// Where a string does not take the text, which does not happen.
    pub(crate) fn page(&self) -> String {
        Page::of(self).render().expect("a page is text, and a string takes all text")
    }
}

#[derive(Template)]
#[template(path = "race.html", config = "pipeline/cli/askama.toml")]
struct Page<'r> {
    ground: GroundPage<'r>,
    partial: Option<String>,
    /// What was found, in a sentence or two.
    lead: String,
    cautions: &'r [String],
    facts: Vec<Fact>,
    results: Table,
    accuracies: Option<Figure>,
    seeds: Table,
    paper: Table,
    models: Table,
    data: &'r str,
}

impl<'r> Page<'r> {
    fn of(report: &'r RaceReport) -> Self {
        let found = &report.found;
        Self {
            ground: GroundPage::of(&found.ground),
            partial: report.partial_sentence(),
            lead: report.finding_sentence(),
            cautions: &report.cautions,
            facts: facts(report),
            results: results(report),
            accuracies: figure::accuracies(report),
            seeds: seeds(&found.models),
            paper: paper(report),
            models: models(&found.models),
            data: &found.data,
        }
    }
}

/// The numbers that a reader wants first.
fn facts(report: &RaceReport) -> Vec<Fact> {
    let found = &report.found;
    let names = ["questions to train on", "of dev", "of test"];
    let questions = names.into_iter().zip(found.questions);
    let mut facts: Vec<_> =
        questions.map(|(name, count)| Fact { name, value: grouped(count) }).collect();
    facts.push(Fact { name: "chance", value: percent(found.chance) });
    if let Some(model) = found.models.last() {
        facts.push(Fact { name: "parameters", value: short(model.parameters as f64) });
    }
    facts
}

/// For each model its median and its ensemble on `test`.
fn results(report: &RaceReport) -> Table {
    let columns = ["model", "all", "middle", "high", "better than chance"].map(str::to_owned);
    let mut rows = Vec::new();
    for (model, verdict) in report.found.models.iter().zip(&report.verdicts) {
        let median = model.median().map(|it| {
            (format!("{}, seed {}", model.name, it.seed), &it.test, verdict.median_beats_chance)
        });
        let name = format!("{}, ensemble of {}", model.name, model.seeds.len());
        let ensemble = (name, &model.ensemble_test, verdict.ensemble_beats_chance);
        for (name, found, beats) in median.into_iter().chain([ensemble]) {
            let verdict = if beats { "yes" } else { "NO" }.to_owned();
            rows.push([name].into_iter().chain(found.texts()).chain([verdict]).collect());
        }
    }
    Table::named(columns, rows)
}

/// A row for each model that was fine-tuned.
fn seeds(models: &[RaceModel]) -> Table {
    let columns =
        ["model, seed", "dev", "test", "steps", "loss at the end", "fine-tuning", "scoring"];
    let rows = models.iter().flat_map(|model| {
        model.seeds.iter().map(|it| {
            let mark = if it.seed == model.median_seed { " (median of dev)" } else { "" };
            vec![
                format!("{}, {}{mark}", model.name, it.seed),
                it.dev.overall.text(),
                it.test.overall.text(),
                grouped(it.steps),
                or_dash(it.final_loss, loss),
                duration(it.seconds),
                duration(it.scoring_seconds),
            ]
        })
    });
    Table::named(columns.map(str::to_owned), rows.collect())
}

fn paper(report: &RaceReport) -> Table {
    let columns = ["model", "all", "middle", "high"].map(str::to_owned);
    let rows = report.found.paper.iter().map(|row| {
        let name = match row.megatron {
            true => format!("paper: {}", row.name),
            false => format!("before: {}", row.name),
        };
        [name].into_iter().chain(row.accuracy.map(percent)).collect()
    });
    Table::named(columns, rows.collect())
}

/// A line of a table that has a column for each model.
type Line = (&'static str, fn(&RaceModel) -> String);

fn models(models: &[RaceModel]) -> Table {
    const LINES: &[Line] = &[
        ("layers", |it| it.model.num_layers.to_string()),
        ("hidden size", |it| grouped(it.model.hidden_size as u64)),
        ("attention heads", |it| it.model.num_attention_heads.to_string()),
        ("sequence length", |it| grouped(it.model.seq_length as u64)),
        ("vocabulary", |it| grouped(it.model.vocab_size as u64)),
        ("parameters, the vocabulary padded", |it| grouped(it.parameters)),
        ("tokens seen in pre-training", |it| grouped(it.pretraining_tokens)),
        ("validation loss of masked tokens, nats", |it| {
            or_dash(it.pretraining_validation_loss, loss)
        }),
        ("pre-training, wall time", |it| duration(it.pretraining_seconds)),
    ];
    let names = ["model".to_owned()].into_iter().chain(models.iter().map(|it| it.name.clone()));
    let row = |(name, value): &Line| {
        [(*name).to_owned()].into_iter().chain(models.iter().map(value)).collect()
    };
    Table::named(names, LINES.iter().map(row).collect())
}
