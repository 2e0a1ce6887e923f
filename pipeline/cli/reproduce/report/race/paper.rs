//! What the paper printed on RACE: table 5, accuracy on `test`.

use serde::{Deserialize, Serialize};

/// A row of the paper's table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PaperModel {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is the paper's own.
    pub(crate) megatron: bool,
    /// Share of all questions, of middle and of high school.
    pub(crate) accuracy: [f64; 3],
}

/// The rows, the best before the paper first.
///
/// # Source
///
/// Shoeybi et al., table 5, the column "RACE m/h (test set)".
pub(crate) fn paper_models() -> Vec<PaperModel> {
    let row = |name: &str, megatron, accuracy: [f64; 3]| PaperModel {
        name: name.to_owned(),
        megatron,
        accuracy: accuracy.map(|percent| (percent * 10.0_f64).round() / 1000.0),
    };
    vec![
        row("RoBERTa", false, [83.2, 86.5, 81.8]),
        row("XLNet", false, [85.4, 88.6, 84.0]),
        row("ALBERT", false, [86.5, 89.0, 85.5]),
        row("ALBERT, ensemble", false, [89.4, 91.2, 88.6]),
        row("336M", true, [83.0, 86.9, 81.5]),
        row("1.3B", true, [87.3, 90.4, 86.1]),
        row("3.9B", true, [89.5, 91.8, 88.6]),
        row("3.9B, ensemble of 5", true, [90.9, 93.1, 90.0]),
    ]
}
