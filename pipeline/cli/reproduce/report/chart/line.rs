//! Lines and marks over two axes.

use super::axis::Axis;
use super::svg::{Anchor, Svg};
use super::{Heading, Plot, bold_width, clipped, text_width};

/// Room above the plot for the vertical axis's title, and below it for the horizontal axis.
const HEAD: f64 = 26.0;
const FOOT: f64 = 44.0;

/// Height of a label's line.
const LINE_HEIGHT: f64 = 15.0;

/// Longest label in characters.
const LABEL: usize = 26;

/// A chart of series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineChart {
    /// Its text alternative.
    pub(crate) heading: Heading,
    /// Width and height in pixels.
    pub(crate) size: (f64, f64),
    /// The horizontal axis.
    pub(crate) x: Axis,
    /// The vertical axis.
    pub(crate) y: Axis,
    /// What is drawn, the last on top.
    pub(crate) series: Vec<Series>,
    /// Levels to see the series by.
    pub(crate) references: Vec<Reference>,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// What stands at the end of its line; nothing where it is empty.
    pub(crate) name: String,
    /// Which color, dash and mark it has: series of one number look alike.
    pub(crate) style: usize,
    /// How its points are joined.
    pub(crate) line: Line,
    /// How each point is marked.
    pub(crate) marks: Marks,
    /// The points, in the order in which they are joined.
    pub(crate) points: Vec<Point>,
}

/// How points are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Not at all.
    None,
    /// By a line in the dash of their style.
    Joined,
}

/// How points are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Not at all, but for a series of a single point.
    None,
    /// By a filled shape.
    Filled,
    /// By an outlined shape.
    Hollow,
}

/// A point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Its value on the horizontal axis.
    pub(crate) x: f64,
    /// Its value on the vertical axis.
    pub(crate) y: f64,
    /// The error bar's half length, in values.
    pub(crate) error: Option<f64>,
    /// What stands above it.
    pub(crate) label: Option<String>,
    /// What appears where a pointer rests on its mark.
    pub(crate) hint: String,
}

/// A level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    /// Its value on the vertical axis.
    pub(crate) y: f64,
    /// What stands on its line.
    pub(crate) label: String,
}

/// The label at the end of a line.
#[derive(Debug)]
struct EndLabel<'c> {
    text: String,
    style: usize,
    end: (f64, f64),
    y: f64,
    series: &'c Series,
}

impl Point {
    fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl LineChart {
    /// The chart as an `<svg>` element. Points that are no numbers are left out.
    pub(crate) fn svg(&self) -> String {
        let plot = self.plot();
        let mut svg = Svg::new(&self.heading, self.size.0, self.size.1);
        self.y.draw_vertical(&mut svg, plot);
        self.x.draw_horizontal(&mut svg, plot);
        for reference in self.references.iter().filter(|it| it.y.is_finite()) {
            let y = self.y.y(reference.y, plot);
            svg.line("reference", (plot.left, y), (plot.right, y));
            let above = if y - 5.0 > plot.top { y - 5.0 } else { y + 13.0 };
            svg.text("tick", (plot.left + 4.0, above), Anchor::Start, &reference.label);
        }
        for series in &self.series {
            self.draw(&mut svg, series, plot);
        }
        self.draw_end_labels(&mut svg, plot);
        svg.finish()
    }

    fn plot(&self) -> Plot {
        let names = self.series.iter().filter(|it| !it.name.is_empty());
        let widest = names.map(|it| bold_width(&clipped(&it.name, LABEL))).fold(0.0, f64::max);
        // Half a tick's label stands beyond the plot in any case.
        let right = if widest > 0.0 { widest + 14.0 } else { 22.0 };
        Plot {
            left: self.y.width(0.3 * self.size.0).max(22.0),
            right: self.size.0 - right.min(0.4 * self.size.0),
            top: HEAD,
            bottom: self.size.1 - FOOT,
        }
    }

    fn place(&self, point: &Point, plot: Plot) -> (f64, f64) {
        (self.x.x(point.x, plot), self.y.y(point.y, plot))
    }

    fn draw(&self, svg: &mut Svg, series: &Series, plot: Plot) {
        let points: Vec<&Point> = series.points.iter().filter(|it| it.is_finite()).collect();
        let places: Vec<_> = points.iter().map(|point| self.place(point, plot)).collect();
        svg.open(&format!("series s{}", series.style % 6));
        if series.line == Line::Joined && places.len() > 1 {
            svg.polyline("line", &places);
        }
        for (point, &place) in points.iter().zip(&places) {
            if let Some(error) = point.error.filter(|error| error.is_finite()) {
                self.draw_error(svg, point, error, plot);
            }
            match series.marks {
                Marks::Filled => draw_mark(svg, series.style, "filled", place, &point.hint),
                Marks::Hollow => draw_mark(svg, series.style, "hollow", place, &point.hint),
                Marks::None if places.len() == 1 => {
                    draw_mark(svg, series.style, "filled", place, &point.hint);
                }
                Marks::None => {}
            }
        }
        svg.close();
        for (point, &(x, y)) in points.iter().zip(&places) {
            if let Some(label) = &point.label {
                let label = clipped(label, LABEL);
                match point.error {
                    None => draw_label_above(svg, &label, (x, y), plot),
                    Some(_) => draw_label_beside(svg, &label, (x, y), plot),
                }
            }
        }
    }

    fn draw_error(&self, svg: &mut Svg, point: &Point, error: f64, plot: Plot) {
        let x = self.x.x(point.x, plot);
        let ends = [point.y - error, point.y + error].map(|end| self.y.y(end, plot));
        svg.line("error", (x, ends[0]), (x, ends[1]));
        for y in ends {
            svg.line("error", (x - 4.0, y), (x + 4.0, y));
        }
    }

    /// Draws the series' names right of their last points, apart from one another.
    fn draw_end_labels(&self, svg: &mut Svg, plot: Plot) {
        let mut labels: Vec<EndLabel<'_>> = self
            .series
            .iter()
            .filter(|series| !series.name.is_empty())
            .filter_map(|series| {
                let last = series.points.iter().rfind(|point| point.is_finite())?;
                let end = self.place(last, plot);
                let text = clipped(&series.name, LABEL);
                Some(EndLabel { text, style: series.style, end, y: end.1, series })
            })
            .collect();
        labels.sort_by(|one, other| one.y.total_cmp(&other.y));
        spread(&mut labels, plot.top, plot.bottom);
        let x = plot.right + 10.0;
        for label in &labels {
            svg.open(&format!("series s{}", label.style % 6));
            if label.series.line == Line::Joined || (label.y - label.end.1).abs() > 4.0 {
                svg.line("leader", (label.end.0 + 4.0, label.end.1), (x - 2.0, label.y));
            }
            svg.text("name", (x, label.y + 4.0), Anchor::Start, &label.text);
            svg.close();
        }
    }
}

/// Moves labels, which are in the order of their height, a line's height apart, and between `top`
/// and `bottom` as far as there is room.
fn spread(labels: &mut [EndLabel<'_>], top: f64, bottom: f64) {
    let mut least = top;
    for label in labels.iter_mut() {
        label.y = label.y.max(least);
        least = label.y + LINE_HEIGHT;
    }
    let mut most = bottom;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(most);
        most = label.y - LINE_HEIGHT;
    }
}

fn draw_mark(svg: &mut Svg, style: usize, class: &str, place: (f64, f64), hint: &str) {
    match style % 4 {
        0 => svg.circle(class, place, 4.0, hint),
        1 => {
            let corners = [(-3.7, -3.7), (3.7, -3.7), (3.7, 3.7), (-3.7, 3.7)];
            svg.polygon(class, place, &corners, hint);
        }
        2 => svg.polygon(class, place, &[(0.0, -4.9), (4.6, 3.5), (-4.6, 3.5)], hint),
        _ => {
            svg.polygon(class, place, &[(0.0, -5.2), (5.2, 0.0), (0.0, 5.2), (-5.2, 0.0)], hint);
        }
    }
}

/// Draws a label above its point, or below where there is no room, and within the plot's width.
fn draw_label_above(svg: &mut Svg, label: &str, (x, y): (f64, f64), plot: Plot) {
    let half = text_width(label) / 2.0;
    let (x, anchor) = if x - half < plot.left {
        (plot.left + 2.0, Anchor::Start)
    } else if x + half > plot.right {
        (plot.right, Anchor::End)
    } else {
        (x, Anchor::Middle)
    };
    let y = if y - 10.0 > plot.top { y - 10.0 } else { y + 20.0 };
    svg.text("name", (x, y), anchor, label);
}

/// Draws a label beside its point, out of the way of its error bar.
fn draw_label_beside(svg: &mut Svg, label: &str, (x, y): (f64, f64), plot: Plot) {
    let y = (y - 8.0).max(plot.top + 10.0);
    if x + 9.0 + text_width(label) < plot.right {
        svg.text("name", (x + 9.0, y), Anchor::Start, label);
    } else {
        svg.text("name", (x - 9.0, y), Anchor::End, label);
    }
}
