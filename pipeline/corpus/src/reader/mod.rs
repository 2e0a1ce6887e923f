//! Documents out of files: one iterator over every source, in result order.
//!
//! The order of documents is part of every result, so it is fixed here: sources as they are
//! configured, their files by path, documents as they stand in the file. Nothing is left out
//! silently: a document, a text that is `null`, and a record that cannot be read are each an
//! [`Item`], and files that were passed over are listed.
//!
//! - [`config`](SourceConfig): what a source is, as written in a config file; `detection`: what a
//!   bare path stands for;
//! - `files`, `pattern`: which files it consists of; `output`: where no output may lie; `form`:
//!   what a file holds, by its name and first bytes;
//! - `compression`, `lines`, `growth`: its bytes, unpacked, and cut into lines;
//! - `jsonl`, `record`, `identifier`, `escapes`: lines of JSON; `parquet_file`, `columns`: rows of
//!   a table; `text_file`: files that are one document;
//! - `reject`, `broken`, [`policy`](ReadPolicy): what can be wrong with a record and with a file,
//!   and what is done then.

mod broken;
mod columns;
mod compression;
mod config;
mod detection;
mod escapes;
mod files;
mod form;
mod growth;
mod identifier;
mod jsonl;
mod lines;
mod open_file;
mod output;
mod parquet_file;
mod pattern;
mod policy;
mod record;
mod reject;
mod text_file;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use broken::{Break, Stop};
pub use broken::{BrokenFile, FileProblem};
pub use config::{JsonlConfig, ParquetConfig, SourceConfig, SourceFormat, TextTreeConfig};
use files::FileList;
pub use files::{SkipReason, Skipped};
pub use open_file::InputFile;
use open_file::{Keys, ListedFile, OpenFile};
pub use policy::{OnBadFile, OnBadLine, ReadPolicy};
pub use reject::{PresentKeys, Reject, RejectReason};

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

impl Item {
    /// Whether this is a document, be it without text.
    fn is_document(&self) -> bool {
        !matches!(self, Self::Rejected(_))
    }
}

/// Iterator over the documents of all sources. After an error it ends.
#[derive(Debug)]
pub struct Sources {
    policy: ReadPolicy,
    /// Files still to open, the next one last.
    pending: Vec<ListedFile>,
    current: Option<OpenFile>,
    /// Bytes on disk of files that are done with.
    finished_bytes: u64,
    total_bytes: u64,
    skipped: Vec<Skipped>,
    broken: Vec<BrokenFile>,
    empty_files: Vec<Arc<Path>>,
}

impl Sources {
    /// Lists the files of `sources`; reads none of them yet.
    ///
    /// # Errors
    ///
    /// A path that does not exist, a folder or glob without a file, a file of a form that is not
    /// read, a file that is named twice, a bad pattern, two sources of one name, or no source at
    /// all.
    pub fn open(sources: &[SourceConfig], policy: ReadPolicy) -> Result<Self, CorpusError> {
        let (mut list, mut pending) = (FileList::default(), Vec::new());
        for source in sources {
            let (name, keys) = (Arc::from(source.name.as_str()), Keys::of(&source.format));
            pending.extend(
                list.add(source)?
                    .into_iter()
                    .map(|file| ListedFile::new(Arc::clone(&name), file, keys.clone())),
            );
        }
        check_sources(sources)?;
        report_skipped(&list.skipped);
        let total_bytes = pending.iter().map(ListedFile::bytes).sum();
        pending.reverse();
        Ok(Self {
            policy,
            pending,
            current: None,
            finished_bytes: 0,
            total_bytes,
            skipped: list.skipped,
            broken: Vec::new(),
            empty_files: Vec::new(),
        })
    }

    /// The files that are still to be read, in result order.
    pub fn files(&self) -> impl Iterator<Item = InputFile<'_>> {
        self.pending.iter().rev().map(ListedFile::as_input)
    }

    /// Bytes of all files together, as they lie on disk.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes read so far, as they lie on disk.
    pub fn bytes_read(&self) -> u64 {
        self.finished_bytes + self.current.as_ref().map_or(0, OpenFile::bytes_read)
    }

    /// Files and folders that were left out though nobody asked for it.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Files read so far of which only the beginning could be read, under
    /// [`OnBadFile::KeepPrefix`].
    pub fn broken(&self) -> &[BrokenFile] {
        &self.broken
    }

    /// Files read so far that held no record at all, not even one that cannot be read.
    pub fn empty_files(&self) -> &[Arc<Path>] {
        &self.empty_files
    }

    /// The next item of the open file, or of the next file; `None` after the last.
    fn advance(&mut self) -> Result<Option<Item>, CorpusError> {
        loop {
            let Some(file) = &mut self.current else {
                let Some(next) = self.pending.pop() else { return Ok(None) };
                self.current = Some(next.open()?);
                continue;
            };
            let item = match file.next_item(self.policy.on_bad_line) {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => {
                    file.check_unchanged()?;
                    if let Some(path) = file.if_empty() {
                        tracing::warn!("{}: holds no record", path.display());
                        self.empty_files.push(path);
                    }
                    None
                }
                Err(Stop::Broken(at)) => {
                    file.check_unchanged()?;
                    self.break_off(&at)?
                }
                Err(Stop::Failed(error)) => return Err(error),
            };
            self.finished_bytes += self.current.take().map_or(0, |file| file.bytes());
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Fails, or notes that the open file breaks off; what could be read of its last document is
    /// still an item.
    fn break_off(&mut self, at: &Break) -> Result<Option<Item>, CorpusError> {
        let Some(file) = &self.current else { return Ok(None) };
        let mut broken = file.broken_at(at);
        match self.policy.on_bad_file {
            OnBadFile::Fail => Err(CorpusError::BrokenFile(Box::new(broken))),
            OnBadFile::KeepPrefix => {
                tracing::warn!("{broken}; what stands before the break is kept");
                broken.documents += u64::from(at.salvaged.as_ref().is_some_and(Item::is_document));
                self.broken.push(broken);
                Ok(at.salvaged.clone())
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
            self.finished_bytes = self.bytes_read();
            self.current = None;
        }
        item.transpose()
    }
}

/// One warning for all that was left out, and each by itself for whoever asks for details.
fn report_skipped(skipped: &[Skipped]) {
    for Skipped { path, reason } in skipped {
        tracing::debug!(path = %path.display(), %reason, "left out of the input");
    }
    if let Some(Skipped { path, reason }) = skipped.first() {
        let example = path.display();
        let number = skipped.len();
        tracing::warn!(
            "left out of the input: {number} files and folders, such as {example} ({reason})"
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
