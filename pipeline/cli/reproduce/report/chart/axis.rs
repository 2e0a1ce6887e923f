//! An axis: its title, its scale, and how its values are written.

use super::super::numerals::short;
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::{Plot, text_width};

/// An axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// What its values are, with their unit.
    pub(crate) title: String,
    /// Its range.
    pub(crate) scale: Scale,
    /// How its values are written.
    pub(crate) format: Format,
}

/// How the values of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// With the letter of their size: `1M`.
    Short,
    /// With as many decimals as tell the ticks apart.
    Plain,
    /// In percent.
    Percent,
}

impl Axis {
    /// What stands at each tick.
    pub(crate) fn labels(&self) -> Vec<String> {
        let percent = if self.format == Format::Percent { 100.0 } else { 1.0 };
        let places = match self.scale.step() {
            Some(step) => (-(step * percent).log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize,
            None => 0,
        };
        let unit = if self.format == Format::Percent { "%" } else { "" };
        let short_from = if self.format == Format::Short { 1e3 } else { 1e4 };
        let label = |tick: f64| {
            let value = tick * percent;
            match value.abs() {
                size if size >= short_from => format!("{}{unit}", bare(&short(value))),
                size if size > 0.0 && size < 1e-6 => format!("{value:.0e}{unit}"),
                _ if self.scale.step().is_some() => format!("{value:.places$}{unit}"),
                _ => format!("{value}{unit}"),
            }
        };
        self.scale.ticks().iter().map(|&tick| label(tick)).collect()
    }

    /// Room that the labels of a vertical axis need, `most` of it at most.
    pub(super) fn width(&self, most: f64) -> f64 {
        let widest = self.labels().iter().map(|label| text_width(label)).fold(0.0, f64::max);
        (widest + 10.0).min(most)
    }

    /// Draws the axis along the foot of `plot`.
    pub(super) fn draw_horizontal(&self, svg: &mut Svg, plot: Plot) {
        svg.line("axis", (plot.left, plot.bottom), (plot.right, plot.bottom));
        let mut free_from = f64::NEG_INFINITY;
        for (&tick, label) in self.scale.ticks().iter().zip(self.labels()) {
            let x = self.x(tick, plot);
            svg.line("axis", (x, plot.bottom), (x, plot.bottom + 4.0));
            // Labels that would touch are left out; their ticks stay.
            if x - text_width(&label) / 2.0 > free_from {
                svg.text("tick", (x, plot.bottom + 18.0), Anchor::Middle, &label);
                free_from = x + text_width(&label) / 2.0 + 4.0;
            }
        }
        svg.text("axis-title", (plot.right, plot.bottom + 36.0), Anchor::End, &self.title);
    }

    /// Draws the axis up the left side of `plot`, with a line across it at each tick.
    pub(super) fn draw_vertical(&self, svg: &mut Svg, plot: Plot) {
        for (&tick, label) in self.scale.ticks().iter().zip(self.labels()) {
            let y = self.y(tick, plot);
            svg.line("grid", (plot.left, y), (plot.right, y));
            svg.text("tick", (plot.left - 8.0, y + 4.0), Anchor::End, &label);
        }
        svg.text("axis-title", (0.0, 12.0), Anchor::Start, &self.title);
    }

    pub(super) fn x(&self, value: f64, plot: Plot) -> f64 {
        plot.left + self.scale.position(value) * (plot.right - plot.left)
    }

    pub(super) fn y(&self, value: f64, plot: Plot) -> f64 {
        plot.bottom - self.scale.position(value) * (plot.bottom - plot.top)
    }
}

/// `1.00M` as `1M`, `2.50K` as `2.5K`: round values need no more figures than they have.
fn bare(number: &str) -> String {
    let end = number.find(|it: char| it.is_ascii_uppercase()).unwrap_or(number.len());
    let (digits, unit) = number.split_at(end);
    match digits.contains('.') && !digits.contains('×') {
        true => format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.')),
        false => number.to_owned(),
    }
}
