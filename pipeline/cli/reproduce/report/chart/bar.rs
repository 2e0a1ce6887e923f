//! Horizontal bars, each with its name on the left and its value on the right.

use super::svg::{Anchor, Svg};
use super::{Heading, clipped, text_width};

/// Height of a row and of its bar.
const ROW: f64 = 27.0;
const BAR: f64 = 16.0;

/// Longest name and longest value in characters.
const NAME: usize = 30;
const VALUE: usize = 32;

/// A chart of bars.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarChart {
    /// Its text alternative.
    pub(crate) heading: Heading,
    /// Width in pixels; the height follows from the number of bars.
    pub(crate) width: f64,
    /// The value at the right end; a bar beyond it is drawn to there.
    pub(crate) whole: f64,
    /// The bars, from the top.
    pub(crate) bars: Vec<Bar>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// What it is of.
    pub(crate) name: String,
    /// Where it begins.
    pub(crate) from: f64,
    /// Where it ends.
    pub(crate) to: f64,
    /// What it stands for.
    pub(crate) kind: BarKind,
    /// Its value as it is written.
    pub(crate) value: String,
}

/// What a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarKind {
    /// What is there.
    There,
    /// What went.
    Gone,
}

impl BarChart {
    /// The chart as an `<svg>` element.
    pub(crate) fn svg(&self) -> String {
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text_width(&text)).fold(0.0, f64::max)
        };
        let left = widest(&mut self.bars.iter().map(|bar| clipped(&bar.name, NAME))) + 12.0;
        let values = widest(&mut self.bars.iter().map(|bar| clipped(&bar.value, VALUE)));
        let right = self.width - values - 12.0;
        let height = self.bars.len().max(1) as f64 * ROW;
        let x = |value: f64| {
            let position = value / self.whole;
            let position = if position.is_finite() { position.clamp(0.0, 1.0) } else { 0.0 };
            left + position * (right - left)
        };

        let mut svg = Svg::new(&self.heading, self.width, height);
        svg.line("axis", (left, 0.0), (left, height));
        for (index, bar) in self.bars.iter().enumerate() {
            let top = index as f64 * ROW + (ROW - BAR) / 2.0;
            let base = top + BAR / 2.0 + 4.0;
            svg.text("name", (left - 10.0, base), Anchor::End, &clipped(&bar.name, NAME));
            let (from, to) = (x(bar.from.min(bar.to)), x(bar.to.max(bar.from)));
            if bar.from != bar.to {
                let class = match bar.kind {
                    BarKind::There => "there",
                    BarKind::Gone => "gone",
                };
                // However little it is, there is something to see.
                let from = from.min(right - 1.0);
                let size = ((to - from).max(1.0), BAR);
                svg.rect(class, (from, top), size, &format!("{}: {}", bar.name, bar.value));
            }
            svg.text("value", (self.width, base), Anchor::End, &clipped(&bar.value, VALUE));
        }
        svg.finish()
    }
}
