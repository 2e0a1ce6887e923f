//! What a document is, and where it came from.
//!
//! A document carries its [`Provenance`] through every stage, so that each verdict can be traced to
//! a line of a file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a document stands in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Name of the source, as configured.
    pub source: Arc<str>,
    /// File that holds the document.
    pub file: Arc<Path>,
    /// Line in the file, or row of a table, counted from 1; `None` where the whole file is one
    /// document.
    pub line: Option<u64>,
    /// The document's own identifier, where its record has one.
    pub id: Option<String>,
}

/// `FILE:LINE`, or `FILE` for a document that is a whole file.
impl fmt::Display for Provenance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        self.line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
    }
}

/// One text of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Where the text came from.
    pub provenance: Provenance,
    /// Its title, where the source names a key for it and the record has one.
    pub title: Option<String>,
    /// The text as it was read: never normalized.
    pub text: String,
}

/// A token of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub u32);
