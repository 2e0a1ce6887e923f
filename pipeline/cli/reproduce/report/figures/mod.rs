//! The page's figures: what each shows, what is said of it, and its numbers as a table.

mod contamination;
mod funnel;
mod losses;
mod scores;

pub(super) use contamination::contamination;
pub(super) use funnel::funnel;
pub(super) use losses::losses;
pub(super) use scores::{strict_accuracy, target_perplexity, word_perplexity};

use super::chart::{Heading, Scale};
use super::page::Table;

/// Size in pixels of a chart that has the page's width, and of one that has half of it.
const WHOLE: (f64, f64) = (736.0, 380.0);
const HALF: (f64, f64) = (456.0, 300.0);

/// Ticks of an axis at most.
const TICKS: usize = 8;

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

/// A scale for shares from 0 on, which has room for something where all are 0.
fn share_scale(shares: impl Iterator<Item = f64>) -> Scale {
    let highest = shares.filter(|it| it.is_finite()).fold(0.0, f64::max);
    Scale::linear([0.0, if highest == 0.0 { 0.01 } else { highest }], TICKS)
}

fn heading(id: &str, title: &str, description: String) -> Heading {
    Heading { id: format!("figure-{id}"), title: title.to_owned(), description }
}
