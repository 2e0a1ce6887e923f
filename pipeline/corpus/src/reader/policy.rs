//! What to do with input that cannot be read: a bad record, and a file that breaks off.
//!
//! The two are apart because they cost different things. A bad record is one document of a sound
//! file. A file that breaks off (half a download, a damaged disk) has lost an unknown number of
//! documents, so that whoever passes over bad records has not yet agreed to that. A last line that
//! ends inside its record is such a file, under every [`OnBadLine`].

use serde::{Deserialize, Serialize};

/// What to do with a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadLine {
    /// Stop with an error.
    #[default]
    Fail,
    /// Pass over it: [`Item::Rejected`](super::Item::Rejected).
    Skip,
    /// Write U+FFFD for invalid UTF-8 and lone surrogates, and report it:
    /// [`Item::Repaired`](super::Item::Repaired). Whatever else is wrong with a record has no
    /// replacement, and is treated as by [`Skip`](Self::Skip).
    Replace,
}

/// What to do with a file that breaks off or is damaged before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadFile {
    /// Stop with an error.
    #[default]
    Fail,
    /// Keep the documents before the break, list the file among
    /// [`Sources::broken`](super::Sources::broken), and go on with the next.
    KeepPrefix,
}

/// What a reader does with what it cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadPolicy {
    /// With a record.
    pub on_bad_line: OnBadLine,
    /// With a file.
    pub on_bad_file: OnBadFile,
}
