//! Why a record could not be read, and where it stands.

use std::fmt;

use super::broken::of_text;
use crate::Provenance;

/// A record that cannot be read as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// File and line.
    pub provenance: Provenance,
    /// The column of a Parquet file that is at fault.
    pub column: Option<String>,
    /// Offset of the fault in the text of the file (uncompressed, where the file is not), in bytes
    /// from 0: the very byte for faults of encoding and syntax, the first of the record for all
    /// others. In a Parquet file, the offset in what the column holds in the row.
    pub byte_offset: u64,
    /// What is wrong.
    pub reason: RejectReason,
}

/// `FILE:LINE: REASON (byte N). REMEDY`; where the fault has no place inside the record, the
/// record's is told at the end.
impl fmt::Display for Reject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provenance, column, byte_offset, reason } = self;
        let remedy = reason.remedy();
        let of_text = match column {
            Some(column) => format!(" of column \"{column}\""),
            None => of_text(&provenance.file).to_owned(),
        };
        match reason {
            RejectReason::MissingKey { .. } => write!(
                formatter,
                "{provenance}: {reason}. {remedy} (the record begins at byte {byte_offset}{of_text})"
            ),
            _ => {
                write!(formatter, "{provenance}: {reason} (byte {byte_offset}{of_text}). {remedy}")
            }
        }
    }
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// The object has no text under the configured key.
    MissingKey {
        /// The key that was looked for.
        key: String,
        /// The keys that the object has.
        present: PresentKeys,
        /// The key of the longest string in the object: most likely its text.
        longest: Option<String>,
        /// Whether documents of the same file have the key; known of the record that ends a run.
        others_have_it: bool,
    },
    /// The text is no string.
    WrongType {
        /// The key.
        key: String,
        /// What stands there, as JSON names it.
        found: &'static str,
    },
    /// A key stands twice in the object, and one of its values would be lost.
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The line is JSON, but no object.
    NotAnObject {
        /// What it is, as JSON names it.
        found: &'static str,
    },
    /// The line holds nothing, or only white space.
    BlankLine,
    /// The record ends before it is complete, as a file does that was cut off.
    Truncated,
    /// The line is no JSON.
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// The bytes are no UTF-8.
    InvalidUtf8,
    /// A string holds half of a UTF-16 surrogate pair, which is no character.
    LoneSurrogate,
}

/// Keys that are kept of an object that lacks the one that was looked for.
const MAX_PRESENT_KEYS: usize = 20;

/// The first keys of an object, in its order, and how many more it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PresentKeys {
    first: Vec<String>,
    more: usize,
}

impl PresentKeys {
    /// Adds the key that comes next.
    pub(super) fn push(&mut self, key: &str) {
        if self.first.len() < MAX_PRESENT_KEYS {
            self.first.push(key.to_owned());
        } else {
            self.more += 1;
        }
    }
}

/// `a, b, c`, or `a, b, c and 4 more`.
impl fmt::Display for PresentKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.first.join(", "))?;
        if self.more > 0 {
            write!(formatter, " and {} more", self.more)?;
        }
        Ok(())
    }
}

impl RejectReason {
    /// Name under which a report counts this reason.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MissingKey { .. } => "missing_key",
            Self::WrongType { .. } => "wrong_type",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::NotAnObject { .. } => "not_an_object",
            Self::BlankLine => "blank_line",
            Self::Truncated => "truncated",
            Self::Syntax { .. } => "syntax",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::LoneSurrogate => "lone_surrogate",
        }
    }

    /// What to do about it.
    fn remedy(&self) -> String {
        const SKIP: &str = "--on-bad-line skip to pass over such records";
        match self {
            Self::MissingKey { key, longest: Some(longest), others_have_it: true, .. } => format!(
                "Use --text-key {longest} if all records have it (those before have \"{key}\"), or \
                 {SKIP}"
            ),
            Self::MissingKey { longest: Some(longest), .. } => {
                format!("Use --text-key {longest}, or {SKIP}")
            }
            Self::InvalidUtf8 | Self::LoneSurrogate => {
                format!("Use --on-bad-line replace to read it as U+FFFD, or {SKIP}")
            }
            Self::NotAnObject { .. } | Self::Truncated => {
                format!("Write each record as one object on one line, or use {SKIP}")
            }
            _ => format!("Mend it, or use {SKIP}"),
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey { key, present, .. } => {
                write!(formatter, "no key \"{key}\" (keys present: {present})")
            }
            Self::WrongType { key, found } => {
                write!(formatter, "key \"{key}\" holds {found}, not a string")
            }
            Self::DuplicateKey { key } => write!(formatter, "key \"{key}\" stands there twice"),
            Self::NotAnObject { found } => write!(formatter, "{found} where an object should be"),
            Self::BlankLine => write!(formatter, "blank line"),
            Self::Truncated => write!(formatter, "the record breaks off before its end"),
            Self::Syntax { message } => write!(formatter, "no JSON: {message}"),
            Self::InvalidUtf8 => write!(formatter, "invalid UTF-8"),
            Self::LoneSurrogate => write!(formatter, "half of a surrogate pair in a \\u escape"),
        }
    }
}
