//! The page's figures: what each shows, what is said of it, and its numbers as a table.

use std::collections::BTreeMap;

use super::ReproductionReport;
use super::chart::{
    Axis, Bar, BarChart, BarKind, Format, Heading, Line, LineChart, Marks, Point, Reference, Scale,
    Series,
};
use super::facts::{Contamination, CorpusState, NGramOverlap, Reproduction, Size, Task};
use super::numerals::{grouped, loss, or_dash, percent, perplexity, share, short};
use super::page::Table;
use super::sentences::listed;
use super::verdict::Metric;

/// Size in pixels of a chart that has the page's width, and of one that has half of it.
const WHOLE: (f64, f64) = (736.0, 380.0);
const HALF: (f64, f64) = (456.0, 300.0);

/// Ticks of an axis at most.
const TICKS: usize = 8;

/// From this accuracy on, the paper's values are drawn with ours: below, one scale cannot show both.
const DRAWN_WITH_PAPER: f64 = 0.2;

/// A figure.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// The chart.
    pub(super) svg: String,
    /// What it shows, and what is to be known about it.
    pub(super) caption: String,
    /// Its numbers.
    pub(super) table: Table,
}

/// Loss against tokens, by size; none without a point.
pub(super) fn losses(report: &ReproductionReport) -> Option<Figure> {
    let sizes = &report.found.sizes;
    let curves =
        || sizes.iter().flat_map(|it| [&it.training.loss_curve, &it.training.validation_curve]);
    if curves().all(Vec::is_empty) {
        return None;
    }
    let tokens = curves().flatten().map(|point| point.tokens as f64);
    let values = curves().flatten().map(|point| point.loss);
    let mut series = Vec::new();
    for (style, size) in sizes.iter().enumerate() {
        let name = format!("{}, {}", size.name, short(size.parameters as f64));
        let of = |kind: &str, points: &[super::CurvePoint]| -> Vec<Point> {
            let point = |it: &super::CurvePoint| Point {
                x: it.tokens as f64,
                y: it.loss,
                error: None,
                label: None,
                hint: format!(
                    "{}, {kind} loss {} after {} tokens",
                    size.name,
                    loss(it.loss),
                    short(it.tokens as f64)
                ),
            };
            points.iter().map(point).collect()
        };
        let training = of("training", &size.training.loss_curve);
        let validation = of("validation", &size.training.validation_curve);
        let (line_name, mark_name) =
            if training.is_empty() { (String::new(), name) } else { (name, String::new()) };
        series.push(Series {
            name: line_name,
            style,
            line: Line::Joined,
            marks: Marks::None,
            points: training,
        });
        series.push(Series {
            name: mark_name,
            style,
            line: Line::None,
            marks: Marks::Hollow,
            points: validation,
        });
    }
    let ends: Vec<_> = sizes
        .iter()
        .filter_map(|it| Some(format!("{} {}", it.name, loss(it.training.validation_loss?))))
        .collect();
    let description = match ends.as_slice() {
        [] => "Training loss falls with the tokens seen, one line for each size.".to_owned(),
        ends => format!(
            "One line for each size: its loss in training against the tokens seen. Validation loss \
             at the end: {}.",
            listed(ends, "and")
        ),
    };
    let chart = LineChart {
        heading: heading("losses", "Loss against tokens seen, by size", description),
        size: WHOLE,
        x: Axis {
            title: "tokens seen".to_owned(),
            scale: Scale::linear([0.0].into_iter().chain(tokens), TICKS),
            format: Format::Short,
        },
        y: Axis {
            title: "loss, nats a token".to_owned(),
            scale: Scale::linear(values, TICKS),
            format: Format::Plain,
        },
        series,
        references: Vec::new(),
    };
    Some(Figure {
        svg: chart.svg(),
        caption:
            "Lines: loss in training, each point the mean of a stretch of steps. Marks: loss on \
                  documents that were held out of training."
                .to_owned(),
        table: loss_table(sizes),
    })
}

/// A row for each number of tokens at which any size has a loss.
fn loss_table(sizes: &[Size]) -> Table {
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let width = 2 * sizes.len();
    for (index, size) in sizes.iter().enumerate() {
        for (column, curve) in [
            (2 * index, &size.training.loss_curve),
            (2 * index + 1, &size.training.validation_curve),
        ] {
            for point in curve {
                let row = rows.entry(point.tokens).or_insert_with(|| vec![String::new(); width]);
                row[column] = loss(point.loss);
            }
        }
    }
    let names = sizes.iter().flat_map(|size| {
        [format!("{}, training", size.name), format!("{}, validation", size.name)]
    });
    Table::of_numbers(
        ["tokens seen".to_owned()].into_iter().chain(names),
        rows.into_iter()
            .map(|(tokens, losses)| [grouped(tokens)].into_iter().chain(losses).collect())
            .collect(),
    )
}

/// Word perplexity against parameters, with the paper's where the test set is the same; none
/// without a value.
pub(super) fn word_perplexity(report: &ReproductionReport) -> Option<Figure> {
    let found = &report.found;
    let metric = Metric::WordPerplexity;
    let ours = points(found, metric, |size| size.name.clone());
    let has_paper = is_published(found, Task::WikiText103);
    let papers = if has_paper { paper_points(found, metric) } else { Vec::new() };
    let best = found.paper.iter().filter(|it| !it.megatron && has_paper);
    let references: Vec<_> = best
        .filter_map(|row| {
            let label = format!("{}, the best before the paper", row.name);
            Some(Reference { y: row.word_perplexity?, label })
        })
        .collect();
    let caption = if has_paper {
        "Both axes are logarithmic, lower is better. Filled: this run. Outlined: the paper, whose \
         models were trained on other data, on more tokens, and see 1,024 of them at once: the two \
         lines show how far apart the scales are, not which program is better."
    } else {
        "Both axes are logarithmic, lower is better. The paper's values are of another test set and \
         are not drawn."
    };
    metric_figure(
        report,
        metric,
        WHOLE,
        (ours, papers),
        references,
        Format::Short,
        caption.to_owned(),
    )
}

/// Strict accuracy against parameters, with its standard error; none without a value.
pub(super) fn strict_accuracy(report: &ReproductionReport) -> Option<Figure> {
    let found = &report.found;
    let metric = Metric::StrictAccuracy;
    let ours = points(found, metric, |size| size.name.clone());
    let best = ours.iter().map(|point| point.y).fold(0.0, f64::max);
    let is_published = is_published(found, Task::Lambada);
    let papers = if is_published && best >= DRAWN_WITH_PAPER {
        paper_points(found, metric)
    } else {
        Vec::new()
    };
    let mut caption = "Share of last words that are right, every token of them; higher is better. \
                       Bars: one standard error."
        .to_owned();
    let values: Vec<f64> = found
        .paper
        .iter()
        .filter(|row| row.megatron)
        .filter_map(|row| row.strict_accuracy)
        .collect();
    if let [first, .., last] = values.as_slice()
        && papers.is_empty()
    {
        caption.push_str(&format!(
            " The paper's models reach {} to {} of LAMBADA, far above this scale.",
            percent(*first),
            percent(*last)
        ));
    }
    metric_figure(report, metric, HALF, (ours, papers), Vec::new(), Format::Percent, caption)
}

/// Target perplexity against parameters; none without a value.
pub(super) fn target_perplexity(report: &ReproductionReport) -> Option<Figure> {
    let found = &report.found;
    let ours = points(found, Metric::TargetPerplexity, |size| size.name.clone());
    let uniform = found.sizes.iter().find_map(|size| {
        let score = size.lambada.as_ref()?;
        Some(score.uniform_target_perplexity(size.model.vocab_size))
    });
    // A level far above all points would flatten what there is to see.
    let highest = ours.iter().map(|point| point.y).fold(0.0, f64::max);
    let is_near = uniform.is_some_and(|uniform| uniform <= 1e3 * highest);
    let references: Vec<_> = uniform
        .filter(|_| is_near)
        .map(|y| Reference { y, label: "all tokens alike".to_owned() })
        .into_iter()
        .collect();
    let guessing = or_dash(uniform, perplexity);
    let caption = format!(
        "How surprising the right word is, whether or not it is the first guess; both axes are \
         logarithmic, lower is better. To a model to which all tokens are alike it would be \
         {guessing}. It tells sizes apart where accuracy is near zero."
    );
    metric_figure(
        report,
        Metric::TargetPerplexity,
        HALF,
        (ours, Vec::new()),
        references,
        Format::Short,
        caption,
    )
}

/// A figure of one metric against parameters.
fn metric_figure(
    report: &ReproductionReport,
    metric: Metric,
    size: (f64, f64),
    (ours, papers): (Vec<Point>, Vec<Point>),
    references: Vec<Reference>,
    format: Format,
    caption: String,
) -> Option<Figure> {
    if ours.is_empty() {
        return None;
    }
    let name = report.found.metric_name(metric);
    let table = metric_table(report, metric, &papers, &references);
    let trend = report.trends.iter().find(|trend| trend.metric == metric);
    let verdict = trend.map(|trend| format!(" Verdict: {}.", trend.label())).unwrap_or_default();
    let values: Vec<_> = ours.iter().map(|point| point.hint.clone()).collect();
    let description = format!("{name} against parameters: {}.{verdict}", listed(&values, "and"));
    let all = || ours.iter().chain(&papers);
    let levels = references.iter().map(|it| it.y);
    let y = match format {
        Format::Percent => {
            let tops = all()
                .flat_map(|it| [it.y - it.error.unwrap_or(0.0), it.y + it.error.unwrap_or(0.0)]);
            Scale::linear([0.0].into_iter().chain(tops.map(|it| it.max(0.0))).chain(levels), TICKS)
        }
        Format::Short | Format::Plain => Scale::log(all().map(|it| it.y).chain(levels), TICKS),
    };
    let x = Scale::log(all().map(|it| it.x), TICKS);
    let series = |style, marks, points| Series {
        name: String::new(),
        style,
        line: Line::Joined,
        marks,
        points,
    };
    let chart = LineChart {
        heading: heading(&format!("{metric:?}").to_lowercase(), &name, description),
        size,
        x: Axis { title: "parameters".to_owned(), scale: x, format: Format::Short },
        y: Axis { title: name, scale: y, format },
        series: vec![series(1, Marks::Hollow, papers), series(0, Marks::Filled, ours)],
        references,
    };
    Some(Figure { svg: chart.svg(), caption, table })
}

/// Our sizes' values.
fn points(found: &Reproduction, metric: Metric, label: fn(&Size) -> String) -> Vec<Point> {
    let point = |size: &Size| {
        let error = match metric {
            Metric::StrictAccuracy => size.lambada.as_ref().map(|it| it.strict_stderr),
            _ => None,
        };
        let text = metric.text_of(size)?;
        Some(Point {
            x: size.parameters as f64,
            y: metric.of(size)?,
            error,
            label: Some(label(size)),
            hint: format!("{} {text}", size.name),
        })
    };
    found.sizes.iter().filter_map(point).collect()
}

/// The paper's values.
fn paper_points(found: &Reproduction, metric: Metric) -> Vec<Point> {
    let point = |row: &super::PaperRow| {
        let value = metric.of_paper(row)?;
        Some(Point {
            x: row.parameters? as f64,
            y: value,
            error: None,
            label: Some(format!("paper {}", row.name)),
            hint: format!("the paper's {} {}", row.name, metric.text(value)),
        })
    };
    found.paper.iter().filter(|row| row.megatron).filter_map(point).collect()
}

fn metric_table(
    report: &ReproductionReport,
    metric: Metric,
    papers: &[Point],
    references: &[Reference],
) -> Table {
    let found = &report.found;
    let mut rows = Vec::new();
    for size in &found.sizes {
        let Some(text) = metric.text_of(size) else { continue };
        let error = match (metric, &size.lambada) {
            (Metric::StrictAccuracy, Some(score)) => format!(" ± {}", percent(score.strict_stderr)),
            _ => String::new(),
        };
        rows.push(vec![size.name.clone(), grouped(size.parameters), format!("{text}{error}")]);
    }
    let drawn = found.paper.iter().filter(|row| row.megatron && !papers.is_empty());
    for row in drawn {
        rows.push(vec![
            format!("paper {}", row.name),
            or_dash(row.parameters, grouped),
            or_dash(metric.of_paper(row), |it| metric.text(it)),
        ]);
    }
    for level in references {
        rows.push(vec![level.label.clone(), "-".to_owned(), metric.text(level.y)]);
    }
    let columns = ["model".to_owned(), "parameters".to_owned(), found.metric_name(metric)];
    Table::named(columns, rows)
}

fn is_published(found: &Reproduction, task: Task) -> bool {
    found.test_set(task).is_some_and(|test_set| test_set.published)
}

/// What became of the documents; none where that is not known.
pub(super) fn funnel(report: &ReproductionReport) -> Option<Figure> {
    let curation = report.found.curation.as_ref()?;
    let all = curation.documents_in;
    let value = |count| format!("{} ({})", grouped(count), share(count, all));
    let bar = |name: &str, from: u64, to: u64, kind| Bar {
        name: name.to_owned(),
        from: from as f64,
        to: to as f64,
        kind,
        value: value(to.abs_diff(from)),
    };
    let mut bars = vec![bar("documents in", 0, all, BarKind::There)];
    let mut left = all;
    for dropped in &curation.dropped {
        let rest = left.saturating_sub(dropped.documents);
        bars.push(Bar {
            value: value(dropped.documents),
            ..bar(&dropped.reason, rest, left, BarKind::Gone)
        });
        left = rest;
    }
    bars.push(bar("kept", 0, curation.documents_kept, BarKind::There));
    let rows = bars.iter().map(|bar| vec![bar.name.clone(), bar.value.clone()]).collect();
    let description = format!(
        "{} of {} documents are kept; {}.",
        grouped(curation.documents_kept),
        grouped(all),
        match curation.dropped.as_slice() {
            [] => "none was dropped".to_owned(),
            dropped => {
                let reasons: Vec<_> = dropped
                    .iter()
                    .map(|it| format!("{} for {}", grouped(it.documents), it.reason))
                    .collect();
                format!("dropped were {}", listed(&reasons, "and"))
            }
        }
    );
    let chart = BarChart {
        heading: heading("funnel", "What became of the documents", description),
        width: WHOLE.0,
        whole: all as f64,
        bars,
    };
    Some(Figure {
        svg: chart.svg(),
        caption:
            "From the top: what came in, what each reason took of the rest, and what is left. \
                  A document goes for the first reason that it gives."
                .to_owned(),
        table: Table::named(["documents".to_owned(), "number".to_owned()], rows),
    })
}

/// For each test set, how much of it is in the corpus.
pub(super) fn contamination(report: &ReproductionReport) -> Vec<(String, Figure)> {
    let found = &report.found;
    let mut names: Vec<&str> = Vec::new();
    for it in &found.contamination {
        if !names.contains(&it.test_set.as_str()) && !it.by_ngram.is_empty() {
            names.push(&it.test_set);
        }
    }
    names
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let of_set: Vec<_> =
                found.contamination.iter().filter(|it| it.test_set == name).collect();
            (name.to_owned(), contamination_of(report, index, name, &of_set))
        })
        .collect()
}

fn contamination_of(
    report: &ReproductionReport,
    index: usize,
    name: &str,
    states: &[&Contamination],
) -> Figure {
    let sentences: Vec<_> = states.iter().filter_map(|it| eight_gram_sentence(it)).collect();
    let heading = heading(
        &format!("contamination-{index}"),
        &format!("Share of {name} that is in the corpus"),
        sentences.join(" "),
    );
    let is_one_length = states.iter().all(|it| it.by_ngram.len() == 1);
    let svg = if is_one_length {
        contamination_bars(heading, states).svg()
    } else {
        contamination_lines(heading, states).svg()
    };
    let task = report.found.test_sets.iter().find(|it| it.name == name).map(|it| it.task);
    let mut caption = sentences.join(" ");
    for paper in report.found.paper_overlap.iter().filter(|it| Some(it.task) == task) {
        caption.push_str(&format!(
            " The paper states at most {} of {}-grams for {} and its own corpus.",
            short_percent(paper.at_most),
            paper.ngram_words,
            paper.task.benchmark()
        ));
    }
    Figure { svg, caption, table: overlap_table(states) }
}

fn eight_gram_sentence(found: &Contamination) -> Option<String> {
    let overlap =
        found.by_ngram.iter().find(|it| it.ngram_words == 8).or(found.by_ngram.first())?;
    Some(format!(
        "{}: {} of {} positions have an {}-gram in common ({}).",
        capitalized(corpus_name(found.corpus)),
        grouped(overlap.matched_positions),
        grouped(overlap.positions),
        overlap.ngram_words,
        percent(overlap.position_share())
    ))
}

fn contamination_lines(heading: Heading, states: &[&Contamination]) -> LineChart {
    let overlaps = || states.iter().flat_map(|it| &it.by_ngram);
    let series = states.iter().map(|state| Series {
        name: match state.corpus {
            CorpusState::Raw => "raw".to_owned(),
            CorpusState::Curated => "curated".to_owned(),
        },
        style: match state.corpus {
            CorpusState::Raw => 1,
            CorpusState::Curated => 0,
        },
        line: Line::Joined,
        marks: match state.corpus {
            CorpusState::Raw => Marks::Hollow,
            CorpusState::Curated => Marks::Filled,
        },
        points: state.by_ngram.iter().map(|it| overlap_point(state.corpus, it)).collect(),
    });
    LineChart {
        heading,
        size: HALF,
        x: Axis {
            title: "words of an n-gram".to_owned(),
            scale: Scale::linear(overlaps().map(|it| it.ngram_words as f64), 10),
            format: Format::Plain,
        },
        y: Axis {
            title: "share of positions in the corpus".to_owned(),
            scale: Scale::linear(
                [0.0].into_iter().chain(overlaps().map(NGramOverlap::position_share)),
                TICKS,
            ),
            format: Format::Percent,
        },
        series: series.collect(),
        references: Vec::new(),
    }
}

fn overlap_point(corpus: CorpusState, overlap: &NGramOverlap) -> Point {
    let share = overlap.position_share();
    Point {
        x: overlap.ngram_words as f64,
        y: share,
        error: None,
        label: None,
        hint: format!("{}, {}-grams: {}", corpus_name(corpus), overlap.ngram_words, percent(share)),
    }
}

fn contamination_bars(heading: Heading, states: &[&Contamination]) -> BarChart {
    let bars: Vec<_> = states
        .iter()
        .flat_map(|state| state.by_ngram.iter().map(|it| (state.corpus, it)))
        .map(|(corpus, overlap)| Bar {
            name: format!("{}, {}-grams", corpus_name(corpus), overlap.ngram_words),
            from: 0.0,
            to: overlap.position_share(),
            kind: BarKind::There,
            value: percent(overlap.position_share()),
        })
        .collect();
    // The bars compare with one another: of the whole test set they would mostly be nothing.
    let whole = bars.iter().map(|bar| bar.to).fold(0.0, f64::max);
    BarChart { heading, width: HALF.0, whole, bars }
}

fn overlap_table(states: &[&Contamination]) -> Table {
    let columns = [
        "corpus",
        "words",
        "positions",
        "in the corpus",
        "share",
        "distinct",
        "in the corpus",
        "share",
    ];
    let row = |corpus, it: &NGramOverlap| {
        vec![
            corpus_name(corpus).to_owned(),
            it.ngram_words.to_string(),
            grouped(it.positions),
            grouped(it.matched_positions),
            percent(it.position_share()),
            grouped(it.distinct),
            grouped(it.matched_distinct),
            percent(it.distinct_share()),
        ]
    };
    let rows = states.iter().flat_map(|it| it.by_ngram.iter().map(|of_n| row(it.corpus, of_n)));
    Table::named(columns.map(str::to_owned), rows.collect())
}

fn corpus_name(corpus: CorpusState) -> &'static str {
    match corpus {
        CorpusState::Raw => "raw corpus",
        CorpusState::Curated => "curated corpus",
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `10.8%`: a share as the paper prints it.
fn short_percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn heading(id: &str, title: &str, description: String) -> Heading {
    Heading { id: format!("figure-{id}"), title: title.to_owned(), description }
}
