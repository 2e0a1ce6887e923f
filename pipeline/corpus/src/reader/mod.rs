//! Documents out of files: one iterator over every source, in result order.
//!
//! The order of documents is part of every result, so it is fixed here: sources as they are configured, their files by
//! path, documents as they stand in the file. Nothing is left out silently: a document, a text that is `null`, and a
//! record that cannot be read are each an [`Item`], and files that were passed over are listed.
//!
//! - [`config`](SourceConfig): what a source is, as written in a config file;
//! - `files`: which files it consists of;
//! - `jsonl`, `record`, `escapes`: lines of JSON; `text_file`: files that are one document;
//! - `reject`: what can be wrong with a record.

mod config;
mod escapes;
mod files;
mod jsonl;
mod record;
mod reject;
mod text_file;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use config::{JsonlConfig, SourceConfig, SourceFormat, TextTreeConfig};
pub use files::{SkipReason, Skipped};
use jsonl::JsonlReader;
pub use reject::{Reject, RejectReason};

use crate::{CorpusError, Document, Provenance};

/// What a reader finds at one place of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A document; its text may be empty.
    Document(Document),
    /// A document in whose text U+FFFD stands for what was no character, and the first such place.
    Repaired(Document, Reject),
    /// A record whose text is `null`.
    NullText(Provenance),
    /// A record that cannot be read.
    Rejected(Reject),
}

/// What to do with a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadLine {
    /// Stop with an error.
    #[default]
    Fail,
    /// Pass over it: [`Item::Rejected`].
    Skip,
    /// Write U+FFFD for invalid UTF-8 and lone surrogates, and report it: [`Item::Repaired`]. Whatever else is wrong
    /// with a record has no replacement, and is treated as by [`Skip`](Self::Skip).
    Replace,
}

/// Iterator over the documents of all sources. After an error it ends.
#[derive(Debug)]
pub struct Sources {
    on_bad_line: OnBadLine,
    /// Files still to open, the next one last.
    pending: Vec<PendingFile>,
    current: Option<JsonlReader>,
    /// Bytes of files that were read to their end.
    finished_bytes: u64,
    total_bytes: u64,
    skipped: Vec<Skipped>,
}

#[derive(Debug)]
struct PendingFile {
    source: Arc<str>,
    path: Arc<Path>,
    bytes: u64,
    format: FileFormat,
}

#[derive(Debug, Clone)]
enum FileFormat {
    Jsonl(Arc<JsonlConfig>),
    Text,
}

impl Sources {
    /// Lists the files of `sources`; reads none of them yet.
    ///
    /// # Errors
    ///
    /// A path that does not exist, a folder without a matching file, a file of a form that is not read, a bad pattern,
    /// two sources of one name, or no source at all.
    pub fn open(sources: &[SourceConfig], on_bad_line: OnBadLine) -> Result<Self, CorpusError> {
        check_sources(sources)?;
        let (mut pending, mut skipped) = (Vec::new(), Vec::new());
        for source in sources {
            let name: Arc<str> = source.name.as_str().into();
            let format = match &source.format {
                SourceFormat::Jsonl(keys) => FileFormat::Jsonl(Arc::new(keys.clone())),
                SourceFormat::Text(_) => FileFormat::Text,
            };
            pending.extend(files::list(source, &mut skipped)?.into_iter().map(|file| {
                PendingFile {
                    source: name.clone(),
                    path: file.path.into(),
                    bytes: file.bytes,
                    format: format.clone(),
                }
            }));
        }
        report_skipped(&skipped);
        let total_bytes = pending.iter().map(|file| file.bytes).sum();
        pending.reverse();
        Ok(Self { on_bad_line, pending, current: None, finished_bytes: 0, total_bytes, skipped })
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.finished_bytes + self.current.as_ref().map_or(0, JsonlReader::position)
    }

    /// Files and folders that were left out though nobody asked for it.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The next item of the open file, or of the next file; `None` after the last.
    fn advance(&mut self) -> Result<Option<Item>, CorpusError> {
        loop {
            if let Some(reader) = &mut self.current {
                if let Some(item) = reader.next_item(self.on_bad_line) {
                    return item.map(Some);
                }
                self.finished_bytes += reader.position();
                self.current = None;
            }
            let Some(file) = self.pending.pop() else { return Ok(None) };
            match file.format {
                FileFormat::Jsonl(keys) => {
                    self.current = Some(JsonlReader::open(file.source, file.path, keys)?);
                }
                FileFormat::Text => {
                    self.finished_bytes += file.bytes;
                    return text_file::read(file.source, file.path, self.on_bad_line).map(Some);
                }
            }
        }
    }
}

impl Iterator for Sources {
    type Item = Result<Item, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance();
        if item.is_err() {
            self.pending.clear();
            self.current = None;
        }
        item.transpose()
    }
}

/// One warning for all that was left out, and each by itself for whoever asks for details.
fn report_skipped(skipped: &[Skipped]) {
    for Skipped { path, reason } in skipped {
        tracing::debug!(path = %path.display(), ?reason, "left out of the input");
    }
    if let Some(Skipped { path, reason }) = skipped.first() {
        let example = path.display();
        let number = skipped.len();
        tracing::warn!(
            "left out of the input: {number} files and folders, such as {example} ({reason:?})"
        );
    }
}

/// Reports count by source, so a name may stand for one only; a value is read under one key only.
fn check_sources(sources: &[SourceConfig]) -> Result<(), CorpusError> {
    let bad = |name: &str, problem| CorpusError::BadSource { name: name.to_owned(), problem };
    if sources.is_empty() {
        return Err(bad("", "no source is configured: name at least one file or folder"));
    }
    let mut seen = HashSet::new();
    for source in sources {
        if !seen.insert(source.name.as_str()) {
            return Err(bad(&source.name, "another source has this name: give each its own"));
        }
        if let SourceFormat::Jsonl(keys) = &source.format
            && keys
                .title_key
                .as_ref()
                .is_some_and(|key| [&keys.text_key, &keys.id_key].contains(&key))
        {
            return Err(bad(
                &source.name,
                "title_key is text_key or id_key too: give it its own key",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
