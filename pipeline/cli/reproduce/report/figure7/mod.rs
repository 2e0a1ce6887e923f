//! Figure 7 of the paper: BERT in the original arrangement of layer norms and residual connections
//! (a) and in the rearranged one (b), at several depths, trained alike.
//!
//! [`Figure7`] holds what was found. [`Figure7Report`] adds what follows from it by rule: which of the
//! paper's statements hold at this size.

mod csv;
mod facts;
mod figures;
mod page;
mod table;
pub(crate) mod verdict;

use serde::{Deserialize, Serialize};

pub(crate) use facts::{Arrangement, Figure7, GradNormPoint, Run, peaks};
use verdict::Statement;

/// What was found, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure7Report {
    /// What was found.
    #[serde(flatten)]
    pub(crate) found: Figure7,
    /// Whether a part of it is missing: such a report compares with no other.
    pub(crate) partial: bool,
    /// What the paper says of the two arrangements, and whether it holds here.
    pub(crate) statements: Vec<Statement>,
    /// What a reader should know before the numbers, in sentences.
    pub(crate) cautions: Vec<String>,
}

impl Figure7Report {
    /// Judges what was found. The runs are put in the order of arrangement and depth.
    pub(crate) fn of(mut found: Figure7) -> Self {
        found.runs.sort_by_key(|run| (run.arrangement, run.model.num_layers));
        let mut cautions = found.ground.warnings.clone();
        cautions.push(
            "Each model was trained once, from one seed: small differences may be chance."
                .to_owned(),
        );
        Self {
            partial: found.ground.is_missing_a_part(),
            statements: Statement::all(&found.runs),
            cautions,
            found,
        }
    }
}
