//! The report as one HTML page: no script, no other file, light and dark, and fit to be printed.
//!
//! Its words stand in `templates/reproduction.html`; here numbers become text. What comes from the
//! user (names, paths, settings) is escaped by the template, and by the charts in theirs.

use askama::Template;
use serde_json::Value;

use super::ReproductionReport;
use super::date::readable;
use super::facts::{PartState, Size, Task, TextKind};
use super::figures::{self, Figure};
use super::numerals::{
    bytes, duration, figures as three_figures, grouped, loss, or_dash, percent, perplexity, rate,
    ratio, share, short,
};
use super::verdict::{Comparison, Metric, Outcome, Trend, Verdict};

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
    settings: Vec<SettingGroup>,
}

/// A number of the page's head.
struct Fact {
    name: &'static str,
    value: String,
}

/// A table of text. The first column is a name.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// Whether its cells stand flush right.
    pub(super) is_number: bool,
}

/// Rows of the table of scores that belong together.
struct ScoreGroup {
    title: &'static str,
    rows: Vec<ScoreRow>,
}

struct ScoreRow {
    name: String,
    cells: Vec<String>,
}

struct TrendRow {
    metric: String,
    class: &'static str,
    label: &'static str,
    reason: String,
}

/// A row of the paper's beside ours.
struct ComparisonGroup {
    title: String,
    rows: Vec<ComparisonRow>,
}

struct ComparisonRow {
    metric: &'static str,
    paper: String,
    ours: String,
    ratio: String,
    class: &'static str,
    label: &'static str,
}

/// What the scores on one test set depend on.
struct Protocol {
    title: String,
    text: &'static str,
    table: Table,
}

/// Settings with the same first key.
struct SettingGroup {
    lines: Vec<String>,
}

impl Table {
    /// A table whose columns all hold numbers.
    pub(super) fn of_numbers(
        columns: impl IntoIterator<Item = String>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(|name| Column { name, is_number: true }).collect();
        Self { columns, rows }
    }

    /// A table whose first column holds names, and all others numbers.
    pub(super) fn named(columns: impl IntoIterator<Item = String>, rows: Vec<Vec<String>>) -> Self {
        let mut table = Self::of_numbers(columns, rows);
        if let Some(first) = table.columns.first_mut() {
            first.is_number = false;
        }
        table
    }

    /// The cells of `row` with their columns.
    fn cells<'t>(&'t self, row: &'t [String]) -> impl Iterator<Item = (&'t Column, &'t str)> {
        self.columns.iter().zip(row.iter().map(String::as_str))
    }
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
            score_columns: score_columns(report),
            score_groups: score_groups(report),
            score_notes: score_notes(report),
            trends: trends(report),
            comparisons: comparisons(report),
            losses: figures::losses(report),
            word_perplexity: figures::word_perplexity(report),
            accuracy_pair: [figures::strict_accuracy(report), figures::target_perplexity(report)]
                .into_iter()
                .flatten()
                .collect(),
            text: text(report),
            curation: curation(report),
            funnel: figures::funnel(report),
            test_sets: test_sets(report),
            contamination: figures::contamination(report),
            models: models(&found.sizes),
            protocols: protocols(report),
            parts: parts(report),
            settings: settings(&found.settings),
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

fn score_columns(report: &ReproductionReport) -> Vec<String> {
    let metrics = Metric::ALL.map(|metric| report.found.metric_name(metric));
    ["parameters".to_owned(), "tokens seen".to_owned()].into_iter().chain(metrics).collect()
}

fn score_groups(report: &ReproductionReport) -> Vec<ScoreGroup> {
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

fn score_notes(report: &ReproductionReport) -> Vec<String> {
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
fn score(metric: Metric, size: &Size) -> String {
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

fn trends(report: &ReproductionReport) -> Vec<TrendRow> {
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

fn comparisons(report: &ReproductionReport) -> Vec<ComparisonGroup> {
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
    fn of(comparison: &Comparison, report: &ReproductionReport) -> Self {
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

fn test_sets(report: &ReproductionReport) -> Table {
    let rows = report.found.test_sets.iter().map(|test_set| {
        let published = match test_set.published {
            true => format!("the published {}", test_set.task.benchmark()),
            false => format!("in the form of {}, not the benchmark", test_set.task.benchmark()),
        };
        vec![test_set.name.clone(), published, test_set.file.clone()]
    });
    let columns = ["test set", "what it is", "file"];
    Table {
        columns: columns.map(|name| Column { name: name.to_owned(), is_number: false }).to_vec(),
        rows: rows.collect(),
    }
}

/// A line of a table that has a column for each size.
type Line = (&'static str, fn(&Size) -> String);

/// A table with a column for each size.
fn by_size(first: &str, sizes: &[&Size], lines: &[Line]) -> Table {
    let columns = [first.to_owned()].into_iter().chain(sizes.iter().map(|it| it.name.clone()));
    let rows = lines.iter().map(|(name, value)| {
        [(*name).to_owned()].into_iter().chain(sizes.iter().map(|size| value(size))).collect()
    });
    Table::named(columns, rows.collect())
}

fn models(sizes: &[Size]) -> Table {
    const LINES: &[Line] = &[
        ("parameters", |it| grouped(it.parameters)),
        ("layers", |it| it.model.num_layers.to_string()),
        ("hidden size", |it| grouped(it.model.hidden_size as u64)),
        ("attention heads", |it| it.model.num_attention_heads.to_string()),
        ("sequence length", |it| grouped(it.model.seq_length as u64)),
        ("vocabulary", |it| grouped(it.model.vocab_size as u64)),
        ("tokens seen", |it| grouped(it.training.tokens)),
        ("epochs", |it| or_dash(it.training.epochs, |epochs| format!("{epochs:.2}"))),
        ("steps", |it| grouped(it.training.steps)),
        ("sequences of a step", |it| grouped(it.training.global_batch_size as u64)),
        ("highest learning rate", |it| rate(it.training.lr)),
        ("tensor-parallel × data-parallel ranks", |it| {
            format!("{} × {}", it.training.tensor_parallel_size, it.training.data_parallel_size)
        }),
        ("training loss at the end, nats a token", |it| or_dash(it.training.final_loss, loss)),
        ("validation loss at the end, nats a token", |it| {
            or_dash(it.training.validation_loss, loss)
        }),
        ("training, wall time", |it| duration(it.training.seconds)),
        ("tokens a second", |it| {
            or_dash(it.training.tokens_per_second(), |speed| grouped(speed as u64))
        }),
        ("peak memory of the process", |it| or_dash(it.peak_rss_bytes, bytes)),
        ("stands beside the paper's", |it| or_dash(it.paper_row.clone(), |name| name)),
    ];
    by_size("model", &sizes.iter().collect::<Vec<_>>(), LINES)
}

fn protocols(report: &ReproductionReport) -> Vec<Protocol> {
    const WIKITEXT103: &[Line] = &[
        ("word perplexity", |it| of_wikitext103(it, |_| score(Metric::WordPerplexity, it))),
        ("token perplexity", |it| of_wikitext103(it, |s| perplexity(s.token_perplexity))),
        ("bits a byte", |it| of_wikitext103(it, |s| format!("{:.4}", s.bits_per_byte))),
        ("negative log-likelihood, nats", |it| {
            of_wikitext103(it, |s| grouped(s.total_nll.max(0.0).round() as u64))
        }),
        ("T, tokens after detokenizing", |it| of_wikitext103(it, |s| grouped(s.tokens))),
        ("To, words of the file", |it| of_wikitext103(it, |s| grouped(s.original_tokens))),
        ("(T - 1) / (To - 1)", |it| of_wikitext103(it, |s| format!("{:.6}", s.token_ratio))),
        ("targets scored", |it| of_wikitext103(it, |s| grouped(s.targets))),
        ("window, tokens", |it| of_wikitext103(it, |s| grouped(s.window as u64))),
        ("overlap, tokens", |it| of_wikitext103(it, |s| grouped(s.overlap as u64))),
        ("protocol", |it| of_wikitext103(it, |s| s.protocol.clone())),
        ("wall time", |it| of_wikitext103(it, |s| duration(s.seconds))),
    ];
    const LAMBADA: &[Line] = &[
        ("strict accuracy", |it| of_lambada(it, |_| score(Metric::StrictAccuracy, it))),
        ("last-token accuracy", |it| {
            of_lambada(it, |s| {
                format!("{} ± {}", percent(s.last_token_accuracy), percent(s.last_token_stderr))
            })
        }),
        ("target perplexity", |it| of_lambada(it, |s| perplexity(s.target_perplexity))),
        ("the same, all tokens alike", |it| {
            of_lambada(it, |s| perplexity(s.uniform_target_perplexity(it.model.vocab_size)))
        }),
        ("examples", |it| of_lambada(it, |s| grouped(s.examples))),
        ("tokens of the last words", |it| of_lambada(it, |s| grouped(s.label_tokens))),
        ("window, tokens", |it| of_lambada(it, |s| grouped(s.window as u64))),
        ("protocol", |it| of_lambada(it, |s| s.protocol.clone())),
        ("wall time", |it| of_lambada(it, |s| duration(s.seconds))),
    ];
    let found = &report.found;
    let of = |task, text, lines: &[Line], has: fn(&Size) -> bool| {
        let sizes: Vec<_> = found.sizes.iter().filter(|size| has(size)).collect();
        (!sizes.is_empty()).then(|| Protocol {
            title: found.name_of(task),
            text,
            table: by_size("model", &sizes, lines),
        })
    };
    let wikitext103 = of(
        Task::WikiText103,
        "Word perplexity is exp(NLL / (To - 1)): the likelihood of the detokenized text's tokens, \
         per word of the original file. Windows of the model's sequence length start every \
         overlap tokens; each token is scored once.",
        WIKITEXT103,
        |size| size.wikitext103.is_some(),
    );
    let lambada = of(
        Task::Lambada,
        "Strict accuracy: every token of the last word must be the most probable one. Last-token \
         accuracy asks for the last token only and is always shown apart. Target perplexity: exp \
         of the mean negative log-likelihood of a last word, summed over its tokens.",
        LAMBADA,
        |size| size.lambada.is_some(),
    );
    wikitext103.into_iter().chain(lambada).collect()
}

fn of_wikitext103(size: &Size, text: impl FnOnce(&super::WikiText103) -> String) -> String {
    or_dash(size.wikitext103.as_ref(), text)
}

fn of_lambada(size: &Size, text: impl FnOnce(&super::Lambada) -> String) -> String {
    or_dash(size.lambada.as_ref(), text)
}

fn parts(report: &ReproductionReport) -> Table {
    let rows = report.found.parts.iter().map(|part| {
        let state = match part.state {
            PartState::Done => "done",
            PartState::Kept => "done by an earlier call",
            PartState::Missing => "not done",
        };
        vec![
            part.name.clone(),
            state.to_owned(),
            or_dash(part.seconds, duration),
            or_dash(part.peak_rss_bytes, bytes),
        ]
    });
    let columns = [
        ("part", false),
        ("state", false),
        ("wall time", true),
        ("peak memory of the process", true),
    ];
    let column = |(name, is_number): (&str, bool)| Column { name: name.to_owned(), is_number };
    Table { columns: columns.map(column).to_vec(), rows: rows.collect() }
}

/// The settings as lines `key = value` with the path of each key, those of one first key together.
fn settings(settings: &Value) -> Vec<SettingGroup> {
    let groups = match settings {
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.as_str(), value)).collect()
        }
        Value::Null => Vec::new(),
        other => vec![("settings", other)],
    };
    groups
        .into_iter()
        .map(|(key, value)| {
            let mut lines = Vec::new();
            push_setting_lines(key, value, &mut lines);
            SettingGroup { lines }
        })
        .filter(|group| !group.lines.is_empty())
        .collect()
}

fn push_setting_lines(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                push_setting_lines(&format!("{path}.{key}"), value, lines);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (number, value) in values.iter().enumerate() {
                push_setting_lines(&format!("{path}.{number}"), value, lines);
            }
        }
        Value::Null => {}
        // A table without keys is on all the same.
        Value::Object(_) => lines.push(format!("{path} = on")),
        value => lines.push(format!("{path} = {value}")),
    }
}
