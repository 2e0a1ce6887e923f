//! Filters: verdicts on a document's text by itself, without regard to any other.
//!
//! A filter answers *keep*, or *drop with a reason*; the reasons of all stages are the
//! [`DropReason`]s, and every dropped document is counted under its reason and listed.

mod empty;
mod language;
mod length;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use empty::EmptyFilter;
pub(crate) use language::known_languages;
pub use language::{LanguageConfig, LanguageFilter, Undetermined};
pub use length::LengthFilter;

/// A judgment of single texts.
pub trait Filter: Sync {
    /// Whether the document of this text stays in the corpus.
    fn judge(&self, text: &str) -> Verdict;
}

/// What a stage says of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It goes.
    Drop(DropReason),
}

/// Why a document is not in the curated corpus. Displayed and serialized in snake case:
/// `near_duplicate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// The text is empty, or white space only.
    Empty,
    /// The record's text is `null`.
    NullText,
    /// The text is in a language that is not asked for.
    Language,
    /// The text has fewer tokens than the least that is asked for.
    TooShort,
    /// An earlier document has the same text, byte by byte.
    ExactDuplicate,
    /// The document shares n-grams with a test set.
    Contaminated,
    /// The document has the title of an article of a test set.
    Title,
    /// An earlier document that was kept has a similarity above the threshold.
    NearDuplicate,
}

impl DropReason {
    /// The name under which reports count this reason.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NullText => "null_text",
            Self::Language => "language",
            Self::TooShort => "too_short",
            Self::ExactDuplicate => "exact_duplicate",
            Self::Contaminated => "contaminated",
            Self::Title => "title",
            Self::NearDuplicate => "near_duplicate",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
