//! Values of several models over the tokens that each has seen, as a figure.

use std::collections::BTreeMap;

use super::chart::{Axis, Format, Line, LineChart, Marks, Point, Scale, Series};
use super::figure::{Figure, TICKS, WHOLE, heading};
use super::numerals::{grouped, short};
use super::page::Table;

/// A value, and the tokens that were seen when it was taken.
pub(super) type At = (u64, f64);

/// The values of one model.
pub(super) struct Curves {
    /// What it is called, ...
    pub(super) model: String,
    /// ... and at the end of its line.
    pub(super) label: String,
    /// Joined by a line.
    pub(super) line: Vec<At>,
    /// Marked one by one.
    pub(super) marks: Vec<At>,
}

/// What the values are.
pub(super) struct Shown {
    /// What the figure goes by in the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Of the axis: the quantity with its unit.
    pub(super) y_title: &'static str,
    /// The quantities of the line and of the marks: `training loss`.
    pub(super) names: [&'static str; 2],
    pub(super) is_log: bool,
    /// A value in words.
    pub(super) text: fn(f64) -> String,
    /// For who does not see the chart.
    pub(super) description: String,
    pub(super) caption: &'static str,
}

/// The figure of `curves`, one style for each; none without a value.
pub(super) fn figure(shown: Shown, curves: &[Curves]) -> Option<Figure> {
    let all = || curves.iter().flat_map(|it| [&it.line, &it.marks]).flatten();
    all().next()?;
    let mut series = Vec::new();
    for (style, curves) in curves.iter().enumerate() {
        let points = |name: &str, values: &[At]| -> Vec<Point> {
            let point = |&(tokens, value): &At| Point {
                x: tokens as f64,
                y: value,
                error: None,
                label: None,
                hint: format!(
                    "{}, {name} {} after {} tokens",
                    curves.model,
                    (shown.text)(value),
                    short(tokens as f64)
                ),
            };
            values.iter().map(point).collect()
        };
        let (line, marks) =
            (points(shown.names[0], &curves.line), points(shown.names[1], &curves.marks));
        let label = curves.label.clone();
        let (line_name, mark_name) =
            if line.is_empty() { (String::new(), label) } else { (label, String::new()) };
        let of = |name, line, marks, points| Series { name, style, line, marks, points };
        let both = [
            of(line_name, Line::Joined, Marks::None, line),
            of(mark_name, Line::None, Marks::Hollow, marks),
        ];
        series.extend(both.into_iter().filter(|it| !it.points.is_empty()));
    }
    let values = all().map(|&(_, value)| value);
    let chart = LineChart {
        heading: heading(shown.id, shown.title, shown.description),
        size: WHOLE,
        x: Axis {
            title: "tokens seen".to_owned(),
            scale: Scale::linear([0.0].into_iter().chain(all().map(|&(at, _)| at as f64)), TICKS),
            format: Format::Short,
        },
        y: Axis {
            title: shown.y_title.to_owned(),
            scale: match shown.is_log {
                true => Scale::log(values, TICKS),
                false => Scale::linear(values, TICKS),
            },
            format: Format::Plain,
        },
        series,
        references: Vec::new(),
    };
    Some(Figure {
        svg: chart.svg(),
        caption: shown.caption.to_owned(),
        table: table(curves, shown.names, shown.text),
    })
}

/// A row for each number of tokens at which any model has a value.
fn table(curves: &[Curves], names: [&str; 2], text: fn(f64) -> String) -> Table {
    let columns = curves.iter().flat_map(|it| {
        [(it, names[0], &it.line), (it, names[1], &it.marks)]
            .into_iter()
            .filter(|(.., values)| !values.is_empty())
    });
    let columns: Vec<_> = columns.collect();
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (column, (.., values)) in columns.iter().enumerate() {
        for &(tokens, value) in *values {
            let row = rows.entry(tokens).or_insert_with(|| vec![String::new(); columns.len()]);
            row[column] = text(value);
        }
    }
    let names = columns.iter().map(|(curves, name, _)| format!("{}, {name}", curves.model));
    Table::of_numbers(
        ["tokens seen".to_owned()].into_iter().chain(names),
        rows.into_iter()
            .map(|(tokens, values)| [grouped(tokens)].into_iter().chain(values).collect())
            .collect(),
    )
}
