//! An SVG element, written shape by shape.

use std::fmt::Write;

use super::Heading;

/// Where a text lies relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Right of it.
    Start,
    /// About it.
    Middle,
    /// Left of it.
    End,
}

/// An `<svg>` element in the making. What it takes as text is escaped.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
    open_groups: usize,
}

impl Svg {
    /// An element of `width` by `height` with the text alternative of `heading`.
    pub(super) fn new(heading: &Heading, width: f64, height: f64) -> Self {
        let Heading { id, title, description } = heading;
        let (id, title, description) = (escaped(id), escaped(title), escaped(description));
        let (width, height) = (number(width), number(height));
        let text = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-text\">\n\
             <title id=\"{id}-title\">{title}</title>\n\
             <desc id=\"{id}-text\">{description}</desc>\n"
        );
        Self { text, open_groups: 0 }
    }

    /// Begins a group of `class`.
    pub(super) fn open(&mut self, class: &str) {
        self.push(format_args!("<g class=\"{}\">\n", escaped(class)));
        self.open_groups += 1;
    }

    /// Ends the last group that was begun.
    pub(super) fn close(&mut self) {
        assert!(self.open_groups > 0, "a group ends that was not begun");
        self.open_groups -= 1;
        self.text.push_str("</g>\n");
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
            escaped(class),
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1)
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> =
            points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        self.push(format_args!(
            "<polyline class=\"{}\" points=\"{}\"/>\n",
            escaped(class),
            points.join(" ")
        ));
    }

    /// A closed shape about `center`, `corners` being offsets from it; `hint` appears where a
    /// pointer rests.
    pub(super) fn polygon(
        &mut self,
        class: &str,
        center: (f64, f64),
        corners: &[(f64, f64)],
        hint: &str,
    ) {
        let points: Vec<_> = corners
            .iter()
            .map(|(x, y)| format!("{},{}", number(center.0 + x), number(center.1 + y)))
            .collect();
        self.push(format_args!(
            "<polygon class=\"{}\" points=\"{}\"><title>{}</title></polygon>\n",
            escaped(class),
            points.join(" "),
            escaped(hint)
        ));
    }

    pub(super) fn circle(&mut self, class: &str, center: (f64, f64), radius: f64, hint: &str) {
        self.push(format_args!(
            "<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>\n",
            escaped(class),
            number(center.0),
            number(center.1),
            number(radius),
            escaped(hint)
        ));
    }

    pub(super) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), hint: &str) {
        self.push(format_args!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title>\
             </rect>\n",
            escaped(class),
            number(corner.0),
            number(corner.1),
            number(size.0),
            number(size.1),
            escaped(hint)
        ));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            "<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>\n",
            escaped(class),
            number(at.0),
            number(at.1),
            escaped(text)
        ));
    }

    /// The whole element.
    pub(super) fn finish(mut self) -> String {
        assert_eq!(self.open_groups, 0, "a group was not ended");
        self.text.push_str("</svg>");
        self.text
    }

    fn push(&mut self, piece: std::fmt::Arguments<'_>) {
        self.text.write_fmt(piece).expect("a string takes all text");
    }
}

/// A coordinate to a tenth of a pixel.
///
/// # Panics
///
/// If it is no number: charts are drawn of finite ones only.
fn number(coordinate: f64) -> String {
    assert!(coordinate.is_finite(), "a coordinate is {coordinate}");
    // No "-0".
    let tenths = (coordinate * 10.0).round() + 0.0;
    (tenths / 10.0).to_string()
}

/// `text` as the content of an element or of an attribute in double quotes. Control characters,
/// which XML cannot hold, become U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            _ if letter.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(letter),
        }
    }
    escaped
}
