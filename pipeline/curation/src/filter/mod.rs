//! Filters: verdicts on a document's text by itself, without regard to any other.
//!
//! A filter answers *keep*, or *drop with a reason*; the reasons of all stages are the
//! [`DropReason`]s, and every dropped document is counted under its reason and listed.

mod empty;
mod language;
mod length;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::CurationPlan;

pub use empty::EmptyFilter;
pub(crate) use language::known_languages;
pub use language::{LanguageConfig, LanguageFilter, Undetermined};
pub use length::{Length, LengthFilter};

/// A judgment of single texts.
pub trait Filter: Sync {
    /// Whether the document of this text stays in the corpus.
    fn judge(&self, text: &str) -> Verdict;
}

/// The filters of a plan.
pub(crate) struct Filters {
    empty: EmptyFilter,
    language: Option<LanguageFilter>,
    length: Option<LengthFilter>,
}

impl Filters {
    /// The filters that a plan has on.
    pub(crate) fn new(plan: &CurationPlan) -> Self {
        let length = |min_tokens| LengthFilter::new(min_tokens, Arc::clone(&plan.tokenizer));
        Self {
            empty: EmptyFilter,
            language: plan.language.clone(),
            length: plan.min_tokens.map(length),
        }
    }

    /// The first reason for which the document of this text goes; where it stays and was encoded to
    /// tell, all its tokens.
    pub(crate) fn judge(&self, text: &str) -> (Option<DropReason>, Option<Vec<u32>>) {
        if let Verdict::Drop(reason) = self.empty.judge(text) {
            return (Some(reason), None);
        }
        if let Some(Verdict::Drop(reason)) = self.language.as_ref().map(|it| it.judge(text)) {
            return (Some(reason), None);
        }
        match self.length.as_ref().map(|length| length.measure(text)) {
            Some(Length::TooShort) => (Some(DropReason::TooShort), None),
            Some(Length::Enough { tokens }) => (None, tokens),
            None => (None, None),
        }
    }
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

impl DropReason {
    /// All reasons, in the order in which stages find them.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::NullText,
        Self::Language,
        Self::TooShort,
        Self::ExactDuplicate,
        Self::Contaminated,
        Self::Title,
        Self::NearDuplicate,
    ];

    /// The reason of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
