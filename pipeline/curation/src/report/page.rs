//! The report as a page: `report.html`, one file that needs no other and runs nothing.
//!
//! All that is computed stands here, as rows of text and as lengths of bars; the template
//! (`templates/report.html`) lays it out. Bars are labelled with their numbers, so that the page is
//! read without color as well, and on paper.

use askama::Template;
use serde_json::Value;

use super::clusters::ClusterExample;
use super::sources::{self, SourceCounts};
use super::{CurationReport, SimilarityHistogram};
use crate::decontaminate::{ContaminationReport, TestSetOverlap};
use crate::filter::DropReason;

/// Name of the page in a data folder.
pub const REPORT_PAGE: &str = "report.html";

/// Width in pixels of the bar that stands for all documents.
const ALL_DOCUMENTS_WIDTH: u64 = 430;

/// Height in pixels of the tallest bar of the histogram, and where its foot stands.
const TALLEST: u64 = 160;
const FOOT: u64 = 180;

/// Rows of a list that may be long.
const ROWS_SHOWN: usize = 100;

/// The page of a report. `settings` is the resolved configuration of the run.
///
/// # Panics
///
/// Where a string does not take the text, which does not happen.
#[must_use]
pub fn page(report: &CurationReport, settings: &Value) -> String {
    Page::of(report, settings).render().expect("a page is text, and a string takes all text")
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'r> {
    report: &'r CurationReport,
    documents_in: String,
    kept: String,
    removed: String,
    facts: Vec<Pair>,
    warnings: &'r [String],
    fates: Fates,
    /// What is kept of each source, and what went.
    sources: [SourceTable; 2],
    similarity: Option<Histogram>,
    cluster_sizes: Vec<ClusterRow>,
    largest: Vec<ClusterRow>,
    hot_buckets: Vec<Pair>,
    hot_bucket_seconds: String,
    contamination: Option<Contamination<'r>>,
    input: Vec<Pair>,
    settings: Vec<String>,
}

/// A name and what stands beside it.
struct Pair {
    name: String,
    value: String,
}

/// A line of a table: a name and numbers.
struct Row {
    name: String,
    cells: Vec<String>,
}

/// A table with a line for each source.
struct SourceTable {
    columns: Vec<String>,
    rows: Vec<Row>,
    /// The sum of all sources, where there are several.
    total: Option<Row>,
}

/// A bar for what is kept and for each reason.
struct Fates {
    height: usize,
    bars: Vec<FateBar>,
}

struct FateBar {
    name: String,
    class: &'static str,
    y: usize,
    width: u64,
    label_x: u64,
    label: String,
}

/// The histogram of similarities.
struct Histogram {
    total: String,
    /// Number of documents that the tallest bar stands for.
    most: String,
    bars: Vec<HistogramBar>,
}

struct HistogramBar {
    x: usize,
    y: u64,
    height: u64,
    label: String,
    /// What stands below every fifth bar.
    tick: Option<String>,
}

struct ClusterRow {
    size: String,
    clusters: String,
    documents: String,
    kept: String,
    removed: String,
    jaccard: String,
}

struct Contamination<'r> {
    documents: String,
    flagged: String,
    overlaps: Vec<Overlap>,
    examples: Vec<ContaminationRow<'r>>,
}

/// The overlap of the test sets in n-grams of one number of words.
struct Overlap {
    ngram_words: usize,
    rows: Vec<Row>,
}

struct ContaminationRow<'r> {
    document: String,
    item: String,
    rule: String,
    ngrams: String,
    excerpt: &'r str,
}

impl<'r> Page<'r> {
    fn of(report: &'r CurationReport, settings: &Value) -> Self {
        Self {
            documents_in: grouped(report.documents_in),
            kept: grouped(report.documents_kept),
            removed: grouped(report.documents_in - report.documents_kept),
            facts: facts(report),
            warnings: &report.warnings,
            fates: Fates::of(report),
            sources: [SourceTable::kept(report), SourceTable::gone(report)],
            similarity: report.similarity.as_ref().and_then(Histogram::of),
            cluster_sizes: report
                .cluster_sizes
                .iter()
                .map(|size| {
                    let sizes = match (size.from, size.to) {
                        (from, to) if from == to => grouped(from),
                        (from, to) => format!("{} to {}", grouped(from), grouped(to)),
                    };
                    ClusterRow::new(sizes, size.clusters, size.documents, &size.example)
                })
                .collect(),
            largest: report
                .clusters
                .iter()
                .map(|it| ClusterRow::new(grouped(it.size), 1, it.size, &it.example))
                .collect(),
            hot_buckets: report
                .hot_buckets
                .iter()
                .take(ROWS_SHOWN)
                .map(|bucket| Pair::new(grouped(bucket.members), bucket.example.to_string()))
                .collect(),
            hot_bucket_seconds: format!("{:.1}", report.hot_bucket_seconds),
            contamination: report.contamination.as_ref().map(Contamination::of),
            input: input(report),
            settings: setting_lines(settings),
            report,
        }
    }
}

impl Pair {
    fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The numbers of the run as a whole.
fn facts(report: &CurationReport) -> Vec<Pair> {
    let megabytes = report.bytes_in as f64 / 1e6;
    let mut facts = vec![
        Pair::new("tokens", grouped(report.tokens)),
        Pair::new("documents kept", share(report.documents_kept, report.documents_in)),
        Pair::new("megabytes in", format!("{megabytes:.1}")),
        Pair::new("seconds", format!("{:.1}", report.seconds)),
        Pair::new("megabytes a second", format!("{:.1}", megabytes / report.seconds.max(1e-3))),
    ];
    facts.extend(report.sentences.map(|sentences| Pair::new("sentences", grouped(sentences))));
    if let Some(bytes) = report.peak_rss_bytes {
        facts.push(Pair::new("peak memory, MB", format!("{:.0}", bytes as f64 / 1e6)));
    }
    if let Some(documents) = report.unicode_repaired {
        facts.push(Pair::new("documents mended", grouped(documents)));
    }
    facts
}

impl Fates {
    fn of(report: &CurationReport) -> Self {
        let fates = [("kept".to_owned(), "kept", report.documents_kept)].into_iter().chain(
            report.dropped.iter().map(|(reason, &count)| (reason.to_string(), "gone", count)),
        );
        let bars: Vec<FateBar> = fates
            .enumerate()
            .map(|(number, (name, class, count))| {
                let all = report.documents_in.max(1);
                let width = (u128::from(ALL_DOCUMENTS_WIDTH) * u128::from(count))
                    .div_ceil(u128::from(all)) as u64;
                let label = format!("{} ({})", grouped(count), share(count, all));
                FateBar { name, class, y: number * 26, width, label_x: 150 + width + 8, label }
            })
            .collect();
        Self { height: bars.len() * 26, bars }
    }
}

impl SourceTable {
    fn kept(report: &CurationReport) -> Self {
        let columns = ["documents in", "kept", "share", "MB of text in", "kept", "tokens"];
        Self::new(report, columns.map(str::to_owned).to_vec(), |counts| {
            let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
            vec![
                grouped(counts.documents_in),
                grouped(counts.kept),
                share(counts.kept, counts.documents_in),
                megabytes(counts.bytes),
                megabytes(counts.bytes_kept),
                grouped(counts.tokens),
            ]
        })
    }

    fn gone(report: &CurationReport) -> Self {
        let reasons: Vec<DropReason> = report.dropped.keys().copied().collect();
        let names = reasons.iter().map(DropReason::to_string);
        let columns = ["documents gone".to_owned()].into_iter().chain(names).collect();
        Self::new(report, columns, |counts| {
            let of_reason =
                |reason| grouped(counts.dropped.get(reason).copied().unwrap_or_default());
            [grouped(counts.lost())].into_iter().chain(reasons.iter().map(of_reason)).collect()
        })
    }

    fn new(
        report: &CurationReport,
        columns: Vec<String>,
        cells: impl Fn(&SourceCounts) -> Vec<String>,
    ) -> Self {
        let row = |name: &str, counts| Row { name: name.to_owned(), cells: cells(counts) };
        let total = sources::total(report.sources.values());
        Self {
            columns,
            rows: report.sources.iter().map(|(name, counts)| row(name, counts)).collect(),
            total: (report.sources.len() > 1).then(|| row("all sources", &total)),
        }
    }
}

impl Histogram {
    /// The histogram; `None` where there is nothing to show.
    fn of(similarity: &SimilarityHistogram) -> Option<Self> {
        let most = similarity.bins().iter().map(|bin| bin.documents).max().filter(|&it| it > 0)?;
        let bars = similarity.bins().iter().enumerate().map(|(number, bin)| {
            let height =
                (u128::from(TALLEST) * u128::from(bin.documents)).div_ceil(u128::from(most)) as u64;
            HistogramBar {
                x: 44 + number * 21,
                y: FOOT - height,
                height,
                label: format!("{:.2}: {}", bin.jaccard, grouped(bin.documents)),
                tick: (number % 5 == 0).then(|| format!("{:.2}", bin.jaccard)),
            }
        });
        Some(Self { total: grouped(similarity.total()), most: grouped(most), bars: bars.collect() })
    }
}

impl ClusterRow {
    fn new(size: String, clusters: u64, documents: u64, example: &ClusterExample) -> Self {
        Self {
            size,
            clusters: grouped(clusters),
            documents: grouped(documents),
            kept: example.kept.to_string(),
            removed: example.removed.to_string(),
            jaccard: format!("{:.3}", example.jaccard),
        }
    }
}

impl<'r> Contamination<'r> {
    fn of(report: &'r ContaminationReport) -> Self {
        let flagged: Vec<String> = report
            .flagged
            .iter()
            .map(|(rule, &count)| format!("{} went by the rule {rule}", grouped(count)))
            .collect();
        let overlaps = report.overlap.iter().map(|overlap| Overlap {
            ngram_words: overlap.ngram_words,
            rows: overlap.test_sets.iter().map(overlap_row).collect(),
        });
        let examples = report.examples.iter().map(|example| ContaminationRow {
            document: example.document.to_string(),
            item: example.item.to_string(),
            rule: example.rule.to_string(),
            ngrams: example.shared.map_or_else(String::new, |shared| grouped(shared as u64)),
            excerpt: example.excerpt.as_deref().unwrap_or_default(),
        });
        Self {
            documents: grouped(report.documents),
            flagged: format!("{}.", flagged.join(", ")),
            overlaps: overlaps.collect(),
            examples: examples.collect(),
        }
    }
}

fn overlap_row(test_set: &TestSetOverlap) -> Row {
    let cells = vec![
        grouped(test_set.items),
        grouped(test_set.matched_items),
        grouped(test_set.ngrams),
        grouped(test_set.matched_ngrams),
        format!("{:.2}%", 100.0 * test_set.share),
        grouped(test_set.distinct_ngrams),
        grouped(test_set.matched_distinct_ngrams),
    ];
    Row { name: test_set.file.clone(), cells }
}

/// What of the input is no document.
fn input(report: &CurationReport) -> Vec<Pair> {
    let mut rows = Vec::new();
    for (reason, &count) in &report.rejected {
        rows.push(Pair::new(format!("records passed over, {reason}"), grouped(count)));
    }
    for (reason, &count) in &report.repaired {
        rows.push(Pair::new(
            format!("documents with replaced characters, {reason}"),
            grouped(count),
        ));
    }
    for file in report.truncated_files.iter().take(ROWS_SHOWN) {
        let kept =
            format!("{}; {} documents before it kept", file.problem, grouped(file.documents));
        rows.push(Pair::new(format!("broken: {}", file.file), kept));
    }
    for file in report.skipped_files.iter().take(ROWS_SHOWN) {
        rows.push(Pair::new(format!("left out: {}", file.file), &file.reason));
    }
    let shown =
        report.truncated_files.len().min(ROWS_SHOWN) + report.skipped_files.len().min(ROWS_SHOWN);
    let more = report.truncated_files.len() + report.skipped_files.len() - shown;
    if more > 0 {
        rows.push(Pair::new("more files", format!("{}, in report.json", grouped(more as u64))));
    }
    rows
}

/// The configuration as lines `key = value`, with the path of each key.
fn setting_lines(settings: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    push_setting_lines("", settings, &mut lines);
    lines
}

fn push_setting_lines(path: &str, value: &Value, lines: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                push_setting_lines(&below(key), value, lines);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (number, value) in values.iter().enumerate() {
                push_setting_lines(&below(&number.to_string()), value, lines);
            }
        }
        Value::Null => {}
        // A table without keys is on all the same.
        Value::Object(_) => lines.push(format!("{path} = on")),
        value => lines.push(format!("{path} = {value}")),
    }
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A part of a whole in percent.
fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests;
