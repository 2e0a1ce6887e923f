//! Charts as SVG: lines over two axes, and bars.
//!
//! A chart is one `<svg>` element that stands in the page: no script, no other file. Colors,
//! fonts and strokes are the page's, by class, so that they follow its light and its dark form.
//! Series are told apart by dash, mark and a label at their end too, so that a print without color
//! can be read. A figure's number has its place in a table beside it; here the text alternative
//! says what there is to see.

mod axis;
mod bar;
mod line;
mod scale;
mod svg;

pub(crate) use axis::{Axis, Format};
pub(crate) use bar::{Bar, BarChart, BarKind};
pub(crate) use line::{Line, LineChart, Marks, Point, Reference, Series};
pub(crate) use scale::Scale;

/// What every chart has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    /// Its name in the page, from which the elements' ids are made.
    pub(crate) id: String,
    /// What it shows.
    pub(crate) title: String,
    /// What there is to see, for those who do not see it.
    pub(crate) description: String,
}

/// The part of a chart that data is drawn in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Width of `text` in the charts' 12-pixel font, rather too much than too little: which font it is
/// depends on the reader's system.
fn text_width(text: &str) -> f64 {
    let width = |letter| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ' ' | '(' | ')' => 4.8,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 11.8,
        'A'..='Z' => 8.6,
        // Ideographs and the like are as wide as high.
        '\u{1100}'.. => 12.5,
        _ => 7.7,
    };
    text.chars().map(width).sum()
}

/// The same in the bold of a series's name.
fn bold_width(text: &str) -> f64 {
    1.12 * text_width(text)
}

/// `text`, or its beginning where it is longer than `most` characters.
fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
