//! The report as one HTML page; its words stand in `templates/table3.html`.

mod scores;
mod table;

use askama::Template;

use self::scores::{ComparisonGroup, ScoreGroup, TrendRow};
use self::table::Protocol;
use super::super::figure::Figure;
use super::super::numerals::{figures as three_figures, short};
use super::super::page::{Fact, GroundPage, Table};
use super::Table3Report;
use super::figures;

impl Table3Report {
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
#[template(path = "table3.html", config = "pipeline/cli/askama.toml")]
struct Page<'r> {
    ground: GroundPage<'r>,
    partial: Option<String>,
    /// What was found, in a sentence or two.
    lead: String,
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
    test_sets: Table,
    contamination: Vec<(String, Figure)>,
    models: Table,
    protocols: Vec<Protocol>,
}

impl<'r> Page<'r> {
    fn of(report: &'r Table3Report) -> Self {
        let found = &report.found;
        let lead = [report.trend_sentence()].into_iter().chain(report.paper_sentence());
        Self {
            ground: GroundPage::of(&found.ground),
            partial: report.partial_sentence(),
            lead: lead.collect::<Vec<_>>().join(" "),
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
            test_sets: table::test_sets(report),
            contamination: figures::contamination(report),
            models: table::models(&found.sizes),
            protocols: table::protocols(report),
        }
    }
}

/// The numbers that a reader wants first.
fn facts(report: &Table3Report) -> Vec<Fact> {
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
    if let Some(curation) = &found.ground.curation {
        add("tokens of the corpus", count(curation.tokens));
    }
    facts
}
