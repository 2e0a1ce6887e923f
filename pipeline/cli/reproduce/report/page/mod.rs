//! The report as one HTML page: no script, no other file, light and dark, and fit to be printed.
//!
//! Its words stand in `templates/reproduction.html`; here numbers become text. What comes from the
//! user (names, paths, settings) is escaped by the template, and by the charts in theirs.

mod scores;
mod settings;
mod table;

pub(super) use table::Table;

use askama::Template;

use self::scores::{ComparisonGroup, ScoreGroup, TrendRow};
use self::settings::SettingGroup;
use self::table::Protocol;
use super::ReproductionReport;
use super::date::readable;
use super::facts::TextKind;
use super::figures::{self, Figure};
use super::numerals::{bytes, duration, figures as three_figures, grouped, share, short};

impl ReproductionReport {
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
#[template(path = "reproduction.html", config = "pipeline/cli/askama.toml")]
struct Page<'r> {
    title: &'r str,
    experiment: &'r str,
    date: String,
    version: &'r str,
    command: Option<&'r str>,
    partial: Option<String>,
    trend_sentence: String,
    paper_sentence: Option<String>,
    machine: String,
    total_time: Option<String>,
    cautions: &'r [String],
    facts: Vec<Fact>,
    score_columns: Vec<String>,
    score_groups: Vec<ScoreGroup>,
    /// What the scores depend on, a line for each test set.
    score_notes: Vec<String>,
    trends: Vec<TrendRow>,
    comparisons: Vec<ComparisonGroup>,
    losses: Option<Figure>,
    word_perplexity: Option<Figure>,
    accuracy_pair: Vec<Figure>,
    text: String,
    curation: Option<String>,
    funnel: Option<Figure>,
    test_sets: Table,
    contamination: Vec<(String, Figure)>,
    models: Table,
    protocols: Vec<Protocol>,
    parts: Table,
    warnings: Option<Table>,
    settings: Vec<SettingGroup>,
}

/// A number of the page's head.
struct Fact {
    name: &'static str,
    value: String,
}

impl<'r> Page<'r> {
    fn of(report: &'r ReproductionReport) -> Self {
        let found = &report.found;
        Self {
            title: &found.title,
            experiment: &found.experiment,
            date: readable(&found.date),
            version: &found.version,
            command: found.command.as_deref(),
            partial: report.partial_sentence(),
            trend_sentence: report.trend_sentence(),
            paper_sentence: report.paper_sentence(),
            machine: report.machine_sentence(),
            total_time: report.total_seconds().map(duration),
            cautions: &report.cautions,
            facts: facts(report),
            score_columns: scores::score_columns(report),
            score_groups: scores::score_groups(report),
            score_notes: scores::score_notes(report),
            trends: scores::trends(report),
            comparisons: scores::comparisons(report),
            losses: figures::losses(report),
            word_perplexity: figures::word_perplexity(report),
            accuracy_pair: [figures::strict_accuracy(report), figures::target_perplexity(report)]
                .into_iter()
                .flatten()
                .collect(),
            text: text(report),
            curation: curation(report),
            funnel: figures::funnel(report),
            test_sets: table::test_sets(report),
            contamination: figures::contamination(report),
            models: table::models(&found.sizes),
            protocols: table::protocols(report),
            parts: table::parts(report),
            warnings: table::warnings(report),
            settings: settings::settings(&found.settings),
        }
    }
}

/// The numbers that a reader wants first.
fn facts(report: &ReproductionReport) -> Vec<Fact> {
    let found = &report.found;
    let mut facts = Vec::new();
    let mut add = |name, value| facts.push(Fact { name, value });
    let count = |number: u64| short(number as f64);
    add("sizes", found.sizes.len().to_string());
    if let [first, .., last] = found.sizes.as_slice() {
        add("parameters", format!("{} to {}", count(first.parameters), count(last.parameters)));
        add(
            "largest to smallest",
            format!("{}×", three_figures(last.parameters as f64 / first.parameters.max(1) as f64)),
        );
    }
    let tokens = || found.sizes.iter().map(|size| size.training.tokens);
    if let (Some(least), Some(most)) = (tokens().min(), tokens().max()) {
        let range = format!("{} to {}", count(least), count(most));
        add("tokens seen by each", if least == most { count(most) } else { range });
    }
    if let Some(curation) = &found.curation {
        add("tokens of the corpus", count(curation.tokens));
    }
    facts
}

/// What the corpus was made from, in a sentence or two.
fn text(report: &ReproductionReport) -> String {
    let text = &report.found.text;
    let kind = match text.kind {
        TextKind::Machine => "Text that this machine has anyway",
        TextKind::Own => "Text that the user named",
    };
    let held_out = match text.held_out_documents {
        0 => String::new(),
        1 => " One of them was held out to make the test sets from.".to_owned(),
        count => format!(" {} of them were held out to make the test sets from.", grouped(count)),
    };
    format!(
        "{kind}: {} with {} documents, {}.{held_out}",
        text.root,
        grouped(text.documents),
        bytes(text.bytes)
    )
}

fn curation(report: &ReproductionReport) -> Option<String> {
    let curation = report.found.curation.as_ref()?;
    Some(format!(
        "{} of {} documents ({}) are in the corpus: {} tokens of {}.",
        grouped(curation.documents_kept),
        grouped(curation.documents_in),
        share(curation.documents_kept, curation.documents_in),
        grouped(curation.tokens),
        curation.tokenizer
    ))
}
