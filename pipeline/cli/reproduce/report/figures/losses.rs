//! Loss against tokens seen, by size.

use std::collections::BTreeMap;

use super::super::chart::{Axis, Format, Line, LineChart, Marks, Point, Scale, Series};
use super::super::facts::Size;
use super::super::numerals::{grouped, loss, short};
use super::super::page::Table;
use super::super::sentences::listed;
use super::super::{CurvePoint, ReproductionReport};
use super::{Figure, TICKS, WHOLE, heading};

/// Loss against tokens, by size; none without a point.
pub(crate) fn losses(report: &ReproductionReport) -> Option<Figure> {
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
        let of = |kind: &str, points: &[CurvePoint]| -> Vec<Point> {
            let point = |it: &CurvePoint| Point {
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
        [] => "One line for each size: its loss in training against the tokens seen.".to_owned(),
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
