//! The report as one HTML page; its words stand in `templates/figure7.html`.

use askama::Template;

use super::super::figure::Figure;
use super::super::numerals::{
    bytes, duration, figures as three_figures, grouped, loss, or_dash, perplexity, rate, short,
};
use super::super::page::{Fact, GroundPage, Table};
use super::facts::Run;
use super::{Figure7Report, figures};

impl Figure7Report {
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
#[template(path = "figure7.html", config = "pipeline/cli/askama.toml")]
struct Page<'r> {
    ground: GroundPage<'r>,
    partial: Option<String>,
    /// What was found, in a sentence or two.
    lead: String,
    cautions: &'r [String],
    facts: Vec<Fact>,
    losses: Option<Figure>,
    grad_norms: Option<Figure>,
    results: Table,
    statements: Vec<StatementRow>,
    models: Table,
}

/// A statement of the paper's, and whether it holds.
struct StatementRow {
    claim: &'static str,
    class: &'static str,
    label: &'static str,
    reason: String,
}

impl<'r> Page<'r> {
    fn of(report: &'r Figure7Report) -> Self {
        let statements = report.statements.iter().map(|statement| StatementRow {
            claim: statement.sentence(),
            class: match statement.holds {
                Some(true) => "good",
                Some(false) => "bad",
                None => "open",
            },
            label: statement.label(),
            reason: statement.reason(),
        });
        Self {
            ground: GroundPage::of(&report.found.ground),
            partial: report.partial_sentence(),
            lead: report.finding_sentence(),
            cautions: &report.cautions,
            facts: facts(report),
            losses: figures::losses(report),
            grad_norms: figures::grad_norms(report),
            results: results(&report.found.runs),
            statements: statements.collect(),
            models: models(&report.found.runs),
        }
    }
}

/// The numbers that a reader wants first.
fn facts(report: &Figure7Report) -> Vec<Fact> {
    let runs = &report.found.runs;
    let mut facts = vec![Fact { name: "models", value: runs.len().to_string() }];
    let parameters = || runs.iter().map(|run| run.parameters);
    if let (Some(least), Some(most)) = (parameters().min(), parameters().max()) {
        let [least, most] = [least, most].map(|it| short(it as f64));
        facts.push(Fact { name: "parameters", value: format!("{least} to {most}") });
    }
    if let Some(tokens) = runs.iter().map(|run| run.training.tokens).max() {
        facts.push(Fact { name: "tokens seen by each", value: short(tokens as f64) });
    }
    if let Some(curation) = &report.found.ground.curation {
        let value = short(curation.tokens as f64);
        facts.push(Fact { name: "tokens of the corpus", value });
    }
    facts
}

/// A row for each model: what it came to.
fn results(runs: &[Run]) -> Table {
    let columns = [
        "model",
        "arrangement",
        "layers",
        "parameters",
        "training loss",
        "validation loss",
        "perplexity",
        "largest gradient norm",
    ];
    let rows = runs.iter().map(|run| {
        let end = |text: fn(f64) -> String, value: Option<f64>| match run.diverged_at {
            Some(step) => format!("diverged in step {step}"),
            None => or_dash(value, text),
        };
        vec![
            run.name.clone(),
            run.arrangement.title().to_owned(),
            run.model.num_layers.to_string(),
            short(run.parameters as f64),
            end(loss, run.training.final_loss),
            end(loss, run.training.validation_loss),
            end(perplexity, run.validation_perplexity()),
            or_dash(run.largest_grad_norm, three_figures),
        ]
    });
    let mut table = Table::named(columns.map(str::to_owned), rows.collect());
    table.columns[1].is_number = false;
    table
}

/// A line of a table that has a column for each model.
type Line = (&'static str, fn(&Run) -> String);

fn models(runs: &[Run]) -> Table {
    const LINES: &[Line] = &[
        ("arrangement", |it| it.arrangement.name().to_owned()),
        ("layers", |it| it.model.num_layers.to_string()),
        ("hidden size", |it| grouped(it.model.hidden_size as u64)),
        ("attention heads", |it| it.model.num_attention_heads.to_string()),
        ("sequence length", |it| grouped(it.model.seq_length as u64)),
        ("vocabulary", |it| grouped(it.model.vocab_size as u64)),
        ("vocabulary, padded", |it| grouped(it.model.padded_vocab_size)),
        ("parameters, the vocabulary padded", |it| grouped(it.parameters)),
        ("parameters without the padding", |it| grouped(it.parameters_without_padding)),
        ("tokens seen", |it| grouped(it.training.tokens)),
        ("epochs", |it| or_dash(it.training.epochs, |epochs| format!("{epochs:.2}"))),
        ("steps", |it| grouped(it.training.steps)),
        ("samples of a step", |it| grouped(it.training.global_batch_size as u64)),
        ("highest learning rate", |it| rate(it.training.lr)),
        ("tensor-parallel × data-parallel ranks", |it| {
            format!("{} × {}", it.training.tensor_parallel_size, it.training.data_parallel_size)
        }),
        ("masked tokens of a validation", |it| or_dash(it.validation_targets, grouped)),
        ("training, wall time", |it| duration(it.training.seconds)),
        ("tokens a second", |it| {
            or_dash(it.training.tokens_per_second(), |speed| grouped(speed as u64))
        }),
        ("peak memory of the process", |it| or_dash(it.peak_rss_bytes, bytes)),
    ];
    let names = ["model".to_owned()].into_iter().chain(runs.iter().map(|run| run.name.clone()));
    let row = |(name, value): &Line| {
        [(*name).to_owned()].into_iter().chain(runs.iter().map(value)).collect()
    };
    Table::named(names, LINES.iter().map(row).collect())
}
