//! What a reproduction is told as: a table for the terminal, JSON, CSV, and one page.
//!
//! [`Reproduction`] holds what was found: counts, settings, scores. [`ReproductionReport`] adds what
//! follows from it by rule, so that no judgment is written by hand: whether bigger is better, and
//! how each of our values stands to the paper's. Its JSON form is the contract; the table, the CSV
//! and the page show no number that is not in it.
//!
//! The modules below know nothing of the rest of the program. Tests include them as they are, since
//! the program itself is no library.

pub(crate) mod chart;
mod csv;
mod curve;
mod date;
mod facts;
mod figures;
pub(crate) mod numerals;
mod page;
mod paper;
mod sentences;
mod table;
pub(crate) mod verdict;

use serde::{Deserialize, Serialize};

pub(crate) use curve::{CurvePoint, thinned};
pub(crate) use date::utc;
pub(crate) use facts::{
    Contamination, CorpusState, Curation, Dropped, Lambada, Machine, ModelShape, NGramOverlap,
    Part, PartState, Reproduction, Size, Task, TestSet, Text, TextKind, Training, WikiText103,
};
pub(crate) use paper::{PaperOverlap, PaperRow};
use verdict::{Comparison, Metric, Trend};

/// What was found, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReproductionReport {
    /// What was found.
    #[serde(flatten)]
    pub(crate) found: Reproduction,
    /// Whether a part of it is missing: a part that was not done, a size without a score, or a
    /// test set that was not scored to its end. Such a report compares with no other.
    pub(crate) partial: bool,
    /// For each metric, whether the bigger model is the better one.
    pub(crate) trends: Vec<Trend>,
    /// For each row of the paper's and each of its metrics, how our value stands to it.
    pub(crate) comparisons: Vec<Comparison>,
    /// What a reader should know before the numbers, in sentences: the warnings of the parts, and
    /// what the numbers themselves give reason for.
    pub(crate) cautions: Vec<String>,
}

impl ReproductionReport {
    /// Judges what was found. The sizes are put in the order of their parameters.
    pub(crate) fn of(mut found: Reproduction) -> Self {
        found.sizes.sort_by_key(|size| size.parameters);
        Self {
            partial: found.is_partial(),
            trends: Metric::ALL.iter().map(|&metric| Trend::of(metric, &found.sizes)).collect(),
            comparisons: Comparison::all(&found.paper, &found.sizes, &found.test_sets),
            cautions: found.cautions(),
            found,
        }
    }
}
