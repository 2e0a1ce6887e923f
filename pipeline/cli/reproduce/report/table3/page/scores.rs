//! The table of scores, and what follows from it.

use super::super::super::numerals::{or_dash, percent, ratio, short};
use super::super::Table3Report;
use super::super::facts::{Size, Task};
use super::super::verdict::{Comparison, Metric, Outcome, Trend, Verdict};

/// Rows of the table of scores that belong together.
pub(super) struct ScoreGroup {
    pub(super) title: &'static str,
    pub(super) rows: Vec<ScoreRow>,
}

pub(super) struct ScoreRow {
    pub(super) name: String,
    pub(super) cells: Vec<String>,
}

pub(super) struct TrendRow {
    pub(super) metric: String,
    pub(super) class: &'static str,
    pub(super) label: &'static str,
    pub(super) reason: String,
}

/// A row of the paper's beside ours.
pub(super) struct ComparisonGroup {
    pub(super) title: String,
    pub(super) rows: Vec<ComparisonRow>,
}

pub(super) struct ComparisonRow {
    pub(super) metric: &'static str,
    pub(super) paper: String,
    pub(super) ours: String,
    pub(super) ratio: String,
    pub(super) class: &'static str,
    pub(super) label: &'static str,
}

pub(super) fn score_columns(report: &Table3Report) -> Vec<String> {
    let metrics = Metric::ALL.map(|metric| report.found.metric_name(metric));
    ["parameters".to_owned(), "tokens seen".to_owned()].into_iter().chain(metrics).collect()
}

pub(super) fn score_groups(report: &Table3Report) -> Vec<ScoreGroup> {
    let found = &report.found;
    let ours = found.sizes.iter().map(|size| {
        let mut cells = vec![short(size.parameters as f64), short(size.training.tokens as f64)];
        cells.extend(Metric::ALL.map(|metric| score(metric, size)));
        ScoreRow { name: size.name.clone(), cells }
    });
    let paper_rows = |is_megatron: bool| -> Vec<ScoreRow> {
        let rows = found.paper.iter().filter(|row| row.megatron == is_megatron);
        rows.map(|row| {
            let mut cells = vec![
                or_dash(row.parameters, |it| short(it as f64)),
                or_dash(row.tokens, |it| short(it as f64)),
            ];
            cells.extend(
                Metric::ALL.map(|metric| or_dash(metric.of_paper(row), |value| metric.text(value))),
            );
            ScoreRow { name: row.name.clone(), cells }
        })
        .collect()
    };
    let groups = [
        ("this run", ours.collect::<Vec<_>>()),
        ("the paper's Table 3, on WikiText103 and LAMBADA", paper_rows(true)),
        ("published before the paper", paper_rows(false)),
    ];
    groups
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(title, rows)| ScoreGroup { title, rows })
        .collect()
}

pub(super) fn score_notes(report: &Table3Report) -> Vec<String> {
    let found = &report.found;
    let wikitext103 = found.sizes.iter().find_map(Size::wikitext103_protocol).map(|protocol| {
        let name = found.name_of(Task::WikiText103);
        format!("{name}: {protocol}. The paper: window 1,024, overlap 32.")
    });
    let lambada = found
        .sizes
        .iter()
        .find_map(Size::lambada_protocol)
        .map(|protocol| format!("{}: {protocol}.", found.name_of(Task::Lambada)));
    wikitext103.into_iter().chain(lambada).collect()
}

/// A value with its standard error where there is one, and marked where it is of a part only.
pub(super) fn score(metric: Metric, size: &Size) -> String {
    let Some(text) = metric.text_of(size) else { return "-".to_owned() };
    let error = match (metric, &size.lambada) {
        (Metric::StrictAccuracy, Some(score)) => format!(" ± {}", percent(score.strict_stderr)),
        _ => String::new(),
    };
    let is_partial = match metric.task() {
        None => false,
        Some(Task::WikiText103) => size.wikitext103.as_ref().is_some_and(|it| it.partial),
        Some(Task::Lambada) => size.lambada.as_ref().is_some_and(|it| it.partial),
    };
    format!("{text}{error}{}", if is_partial { " PARTIAL" } else { "" })
}

pub(super) fn trends(report: &Table3Report) -> Vec<TrendRow> {
    let row = |trend: &Trend| TrendRow {
        metric: report.found.metric_name(trend.metric),
        class: match trend.verdict {
            Verdict::Better => "good",
            Verdict::NotBetter => "bad",
            Verdict::Undecided | Verdict::TooFew => "open",
        },
        label: trend.label(),
        reason: trend.reason(),
    };
    report.trends.iter().map(row).collect()
}

pub(super) fn comparisons(report: &Table3Report) -> Vec<ComparisonGroup> {
    let groups = report.comparisons.chunk_by(|one, other| one.paper_row == other.paper_row);
    groups
        .map(|group| {
            let measured = group.iter().filter(|it| it.outcome != Outcome::NotMeasured);
            let mut reasons: Vec<String> = measured.map(Comparison::reason).collect();
            reasons.dedup();
            if reasons.is_empty() {
                reasons.push("not measured".to_owned());
            }
            let beside =
                group[0].size.as_ref().map_or_else(String::new, |size| format!(" beside {size}"));
            ComparisonGroup {
                title: format!("{}{beside}: {}.", group[0].paper_row, reasons.join("; ")),
                rows: group.iter().map(|it| ComparisonRow::of(it, report)).collect(),
            }
        })
        .collect()
}

impl ComparisonRow {
    fn of(comparison: &Comparison, report: &Table3Report) -> Self {
        let metric = comparison.metric;
        let size = comparison
            .size
            .as_ref()
            .and_then(|name| report.found.sizes.iter().find(|size| size.name == *name));
        Self {
            metric: metric.name(),
            paper: metric.text(comparison.paper_value),
            ours: size.map_or_else(
                || "-".to_owned(),
                |size| {
                    let other = metric
                        .of(size)
                        .and(metric.task())
                        .and_then(|task| report.found.test_set(task))
                        .filter(|test_set| !test_set.published)
                        .map_or_else(String::new, |test_set| format!(" on {}", test_set.name));
                    format!("{}{other}", score(metric, size))
                },
            ),
            ratio: or_dash(comparison.ratio, ratio),
            class: match comparison.outcome {
                Outcome::Reproduced => "good",
                Outcome::NotReproduced => "bad",
                Outcome::NotAtThisScale { .. } | Outcome::NotMeasured => "open",
            },
            label: comparison.label(),
        }
    }
}
