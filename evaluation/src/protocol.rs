//! Whose rules a benchmark is measured by.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The rules of one program: others give other numbers the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Those of Megatron-LM v1.0, by which the paper's numbers were made.
    #[default]
    Megatron,
    /// Those of EleutherAI's lm-evaluation-harness, in whose form most models are published.
    LmEval,
}

impl Protocol {
    /// Its name in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Megatron => "megatron",
            Self::LmEval => "lm-eval",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
