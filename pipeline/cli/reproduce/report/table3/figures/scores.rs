//! The scores against parameters.

use super::super::super::chart::{
    Axis, Format, Line, LineChart, Marks, Point, Reference, Scale, Series,
};
use super::super::super::figure::{Figure, HALF, TICKS, WHOLE, heading};
use super::super::super::numerals::{grouped, or_dash, percent, perplexity};
use super::super::super::page::Table;
use super::super::super::words::listed;
use super::super::facts::{Size, Table3, Task};
use super::super::verdict::Metric;
use super::super::{PaperRow, Table3Report};
use super::share_scale;

/// From this accuracy on, the paper's values are drawn with ours: below, one scale cannot show both.
const DRAWN_WITH_PAPER: f64 = 0.2;

/// Word perplexity against parameters, with the paper's where the test set is the same; none
/// without a value.
pub(crate) fn word_perplexity(report: &Table3Report) -> Option<Figure> {
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
    let caption = if has_paper && found.paper_scale {
        "Both axes are logarithmic, lower is better. Filled: this run. Outlined: the paper, whose \
         corpus cannot be had, only one made by its rules."
    } else if has_paper {
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
pub(crate) fn strict_accuracy(report: &Table3Report) -> Option<Figure> {
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
        let apart = match best < DRAWN_WITH_PAPER {
            true => "far above this scale",
            false => "which is another test set",
        };
        caption.push_str(&format!(
            " The paper's models reach {} to {} of LAMBADA, {apart}.",
            percent(*first),
            percent(*last)
        ));
    }
    let mut scores = found.sizes.iter().filter_map(|size| size.lambada.as_ref());
    if let Some(score) = scores.find(|it| it.strict_accuracy == 0.0) {
        // The rule of three: were the chance 3 / n, none of n would be right once in twenty times.
        caption.push_str(&format!(
            " None right of {} leaves room for an accuracy of up to {}.",
            grouped(score.examples),
            percent((3.0 / score.examples.max(1) as f64).min(1.0))
        ));
    }
    metric_figure(report, metric, HALF, (ours, papers), Vec::new(), Format::Percent, caption)
}

/// Target perplexity against parameters; none without a value.
pub(crate) fn target_perplexity(report: &Table3Report) -> Option<Figure> {
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
    report: &Table3Report,
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
            let top =
                |point: &Point| point.y + point.error.filter(|it| it.is_finite()).unwrap_or(0.0);
            share_scale(all().map(top).chain(levels))
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
fn points(found: &Table3, metric: Metric, label: fn(&Size) -> String) -> Vec<Point> {
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
fn paper_points(found: &Table3, metric: Metric) -> Vec<Point> {
    let point = |row: &PaperRow| {
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
    report: &Table3Report,
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

fn is_published(found: &Table3, task: Task) -> bool {
    found.test_set(task).is_some_and(|test_set| test_set.published)
}
