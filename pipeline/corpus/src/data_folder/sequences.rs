//! What a sequence of a shard is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the sequences of a data folder's shard are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sequences {
    /// Whole documents, each ended by the token that ends one: what GPT-2 is trained on. Folders of
    /// earlier versions hold nothing else.
    #[default]
    Documents,
    /// The sentences of each document, with nothing between: what BERT is trained on. Where
    /// documents end, the index says alone.
    Sentences,
}

impl Sequences {
    pub(super) fn are_documents(&self) -> bool {
        *self == Self::Documents
    }
}

impl fmt::Display for Sequences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Documents => "documents",
            Self::Sentences => "sentences",
        })
    }
}
