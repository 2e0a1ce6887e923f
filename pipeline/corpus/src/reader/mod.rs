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
//! - `block`, `state`: the steps in which that goes on, and how far it is;
//! - `compression`, `stream`, `growth`, `lines`: its bytes, unpacked, and cut into blocks of lines;
//! - `jsonl`, `record`, `scan`, `plain_run`, `identifier`, `escapes`: lines of JSON;
//!   `parquet_file`, `columns`, `rows`: rows of a table; `text_file`: files that are one document;
//! - `reject`, `broken`, [`policy`](ReadPolicy): what can be wrong with a record and with a file,
//!   and what is done then.

mod block;
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
mod plain_run;
mod policy;
mod record;
mod reject;
mod rows;
mod scan;
mod state;
mod stream;
mod text_file;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::{mem, vec};

use block::{BlockPlace, Parsed, Position};
pub use block::{ParsedBlock, RecordBlock};
use broken::{Break, Stop};
pub use broken::{BrokenFile, FileProblem};
pub use config::{
    JsonlConfig, ModelFamily, ParquetConfig, SourceConfig, SourceFormat, TextTreeConfig,
};
use files::FileList;
pub use files::{SkipReason, Skipped};
pub use open_file::InputFile;
use open_file::{Cut, Keys, ListedFile, OpenFile};
pub use policy::{OnBadFile, OnBadLine, ReadPolicy};
pub use reject::{PresentKeys, Reject, RejectReason};
pub use state::ReadState;

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
///
/// The iterator cuts, parses and accepts one block after the other. Whoever has threads takes the
/// three steps apart: [`next_block`](Self::next_block) in order, [`RecordBlock::parse`] anywhere,
/// [`accept`](Self::accept) in order again. Both ways give the same items and errors.
#[derive(Debug)]
pub struct Sources {
    policy: ReadPolicy,
    files: Vec<ListedFile>,
    cutter: Cutter,
    accepted: Accepted,
    /// Items of the block that the iterator accepted last, and the error that follows them.
    ready: vec::IntoIter<Item>,
    failure: Option<CorpusError>,
    total_bytes: u64,
    skipped: Vec<Skipped>,
}

/// The side of [`Sources`] that cuts blocks out of files.
#[derive(Debug, Default)]
struct Cutter {
    /// Index of the file that is open, or is opened next.
    file: usize,
    open: Option<OpenFile>,
    /// Where the file that is opened next is read from.
    start: Position,
    /// Blocks cut so far.
    blocks: u64,
}

/// The side of [`Sources`] that takes parsed blocks back.
#[derive(Debug, Default)]
struct Accepted {
    /// Blocks accepted so far.
    blocks: u64,
    /// Index of the file whose blocks are accepted.
    file: u32,
    /// How far it is accepted.
    position: Position,
    /// Documents accepted of it.
    documents: u64,
    /// Bytes of it on disk that are read with what is accepted.
    bytes_read: u64,
    /// Bytes on disk of the files before it.
    finished_bytes: u64,
    broken: Vec<BrokenFile>,
    empty_files: Vec<u32>,
}

impl Sources {
    /// Lists the files of `sources`; reads none of them yet.
    ///
    /// # Errors
    ///
    /// A path that does not exist, a folder or glob without a file, a file of a form that is not
    /// read, a file that is named twice for the same text, a bad pattern, two sources of one name,
    /// or no source at all.
    pub fn open(sources: &[SourceConfig], policy: ReadPolicy) -> Result<Self, CorpusError> {
        let (mut list, mut files) = (FileList::default(), Vec::new());
        for source in sources {
            let (name, keys) = (Arc::from(source.name.as_str()), Keys::of(&source.format));
            files.extend(
                list.add(source)?
                    .into_iter()
                    .map(|file| ListedFile::new(Arc::clone(&name), file, keys.clone())),
            );
        }
        check_sources(sources)?;
        report_skipped(&list.skipped);
        Ok(Self {
            policy,
            total_bytes: files.iter().map(ListedFile::bytes).sum(),
            files,
            cutter: Cutter::default(),
            accepted: Accepted::default(),
            ready: Vec::new().into_iter(),
            failure: None,
            skipped: list.skipped,
        })
    }

    /// All files of the input, in result order.
    pub fn files(&self) -> impl Iterator<Item = InputFile<'_>> {
        self.files.iter().zip(0..).map(|(file, index)| file.as_input(index))
    }

    /// Bytes of all files together, as they lie on disk.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes read so far, as they lie on disk: those of what is accepted.
    pub fn bytes_read(&self) -> u64 {
        self.accepted.finished_bytes + self.accepted.bytes_read
    }

    /// Files and folders that were left out though nobody asked for it.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Files accepted so far of which only the beginning could be read, under
    /// [`OnBadFile::KeepPrefix`].
    pub fn broken(&self) -> &[BrokenFile] {
        &self.accepted.broken
    }

    /// Files accepted so far that held no record at all, not even one that cannot be read.
    pub fn empty_files(&self) -> impl Iterator<Item = &Path> {
        self.accepted.empty_files.iter().map(|&file| &**self.files[file as usize].path())
    }

    /// Cuts the next records out of their file; `None` after the last file. A file that cannot be
    /// read gives a block too, the last of all, and accepting it fails: an error has its place in
    /// the order of the input, however many blocks were cut before it came up.
    pub fn next_block(&mut self) -> Option<RecordBlock> {
        let file = self.files.get(self.cutter.file)?;
        let index = self.cutter.file as u32;
        let cut = match self.cutter.next_cut(file) {
            Ok(cut) => cut,
            Err(error) => {
                self.cutter.file = self.files.len();
                Cut::failed(error)
            }
        };
        if cut.is_last {
            self.cutter.open = None;
            self.cutter.file += 1;
        }
        let place = BlockPlace {
            number: self.cutter.blocks,
            file: index,
            is_last: cut.is_last,
            end: cut.end,
            bytes_read: cut.bytes_read.min(file.bytes()),
        };
        self.cutter.blocks += 1;
        let (origin, on_bad_line) = (file.origin().clone(), self.policy.on_bad_line);
        Some(RecordBlock { place, origin, on_bad_line, content: cut.content })
    }

    /// Takes the next block back and hands its items out.
    ///
    /// # Errors
    ///
    /// What stops the run under its [`ReadPolicy`]: a record that cannot be read, or a file that
    /// breaks off. A file that changed since it was listed, or cannot be read at all.
    ///
    /// # Panics
    ///
    /// If blocks are not accepted in the order in which they were cut.
    pub fn accept(&mut self, block: ParsedBlock) -> Result<Vec<Item>, CorpusError> {
        match self.accept_until_failure(block) {
            (items, None) => Ok(items),
            (_, Some(error)) => Err(error),
        }
    }

    /// The items of a block, and the error that comes behind them.
    fn accept_until_failure(&mut self, block: ParsedBlock) -> (Vec<Item>, Option<CorpusError>) {
        let ParsedBlock { place, parsed: Parsed { mut items, stop } } = block;
        assert_eq!(place.number, self.accepted.blocks, "blocks are accepted in order");
        self.accepted.blocks += 1;
        self.accepted.file = place.file;
        self.accepted.position = place.end;
        self.accepted.bytes_read = place.bytes_read;
        self.accepted.documents += items.iter().filter(|item| item.is_document()).count() as u64;
        let result = match stop {
            Some(Stop::Failed(error)) => Err(self.explained(error)),
            Some(Stop::Broken(at)) => self.break_off(*at).map(|salvaged| items.extend(salvaged)),
            None if place.is_last => self.files[place.file as usize].check_unchanged(),
            None => Ok(()),
        };
        if result.is_ok() && place.is_last {
            self.finish_file(!items.is_empty());
        }
        (items, result.err())
    }

    /// `error` with what the records before it say about its remedy.
    fn explained(&self, mut error: CorpusError) -> CorpusError {
        if let CorpusError::BadRecord(reject) = &mut error
            && let RejectReason::MissingKey { others_have_it, .. } = &mut reject.reason
        {
            *others_have_it = self.accepted.documents > 0;
        }
        error
    }

    /// Fails, or notes that the file breaks off; what could be read of its last document is still
    /// an item.
    fn break_off(&mut self, at: Break) -> Result<Option<Item>, CorpusError> {
        let file = &self.files[self.accepted.file as usize];
        file.check_unchanged()?;
        let mut broken = BrokenFile {
            file: self.accepted.file,
            path: file.path().clone(),
            documents: self.accepted.documents,
            byte_offset: at.byte_offset,
            line: at.line,
            problem: at.problem,
        };
        match self.policy.on_bad_file {
            OnBadFile::Fail => Err(CorpusError::BrokenFile(Box::new(broken))),
            OnBadFile::KeepPrefix => {
                tracing::warn!("{broken}; what stands before the break is kept");
                broken.documents += u64::from(at.salvaged.as_ref().is_some_and(Item::is_document));
                self.accepted.broken.push(broken);
                Ok(at.salvaged)
            }
        }
    }

    /// Goes on to the next file; `ends_in_items` says whether the last block of this one held any,
    /// such as a line without a line feed, which no position counts.
    fn finish_file(&mut self, ends_in_items: bool) {
        let accepted = &mut self.accepted;
        let file = &self.files[accepted.file as usize];
        let is_broken = accepted.broken.last().is_some_and(|it| it.file == accepted.file);
        if accepted.position.records == 0 && !ends_in_items && !is_broken {
            tracing::warn!("{}: holds no record", file.path().display());
            accepted.empty_files.push(accepted.file);
        }
        accepted.finished_bytes += file.bytes();
        accepted.file += 1;
        (accepted.position, accepted.documents, accepted.bytes_read) = Default::default();
    }
}

impl Cutter {
    /// The next records of `file`, which is opened where it is not.
    fn next_cut(&mut self, file: &ListedFile) -> Result<Cut, CorpusError> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(file.open(mem::take(&mut self.start))?),
        };
        open.next_cut()
    }
}

impl Iterator for Sources {
    type Item = Result<Item, CorpusError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.next() {
                return Some(Ok(item));
            }
            if let Some(error) = self.failure.take() {
                self.cutter.file = self.files.len();
                return Some(Err(error));
            }
            let block = self.next_block()?.parse();
            let (items, failure) = self.accept_until_failure(block);
            (self.ready, self.failure) = (items.into_iter(), failure);
        }
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
