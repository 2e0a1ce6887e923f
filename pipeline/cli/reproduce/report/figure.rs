//! A figure of a page: a chart, what is said of it, and its numbers as a table.

use super::chart::Heading;
use super::page::Table;

/// Size in pixels of a chart that has the page's width, and of one that has half of it.
pub(super) const WHOLE: (f64, f64) = (736.0, 380.0);
pub(super) const HALF: (f64, f64) = (456.0, 300.0);

/// Ticks of an axis at most.
pub(super) const TICKS: usize = 8;

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

pub(super) fn heading(id: &str, title: &str, description: String) -> Heading {
    Heading { id: format!("figure-{id}"), title: title.to_owned(), description }
}
