//! Table 3 of the paper: GPT-2 of several sizes, trained alike, on WikiText103 and LAMBADA.
//!
//! [`Table3`] holds what was found: counts, settings, scores. [`Table3Report`] adds what follows from
//! it by rule: whether bigger is better, and how each of our values stands to the paper's.

mod csv;
mod facts;
mod figures;
mod page;
mod paper;
mod sentences;
mod table;
pub(crate) mod verdict;

use serde::{Deserialize, Serialize};

pub(crate) use facts::{
    Contamination, CorpusState, Lambada, NGramOverlap, Size, Table3, Task, TestSet, WikiText103,
};
pub(crate) use paper::{PaperOverlap, PaperRow};
use verdict::{Comparison, Metric, Trend};

/// What was found, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table3Report {
    /// What was found.
    #[serde(flatten)]
    pub(crate) found: Table3,
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

impl Table3Report {
    /// Judges what was found. The sizes are put in the order of their parameters.
    pub(crate) fn of(mut found: Table3) -> Self {
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
