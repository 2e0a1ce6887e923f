//! One file of a source, before it is opened and while it is read.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::broken::{Break, BrokenFile, Stop};
use super::files::SourceFile;
use super::form::Form;
use super::jsonl::JsonlReader;
use super::parquet_file::ParquetReader;
use super::text_file::TextReader;
use super::{Item, JsonlConfig, OnBadLine, ParquetConfig, SourceFormat};
use crate::CorpusError;

/// A file that is still to be opened.
#[derive(Debug)]
pub(super) struct ListedFile {
    source: Arc<str>,
    path: Arc<Path>,
    bytes: u64,
    form: Form,
    keys: Keys,
}

/// A file of the input, as its listing tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputFile<'s> {
    /// Name of its source.
    pub source: &'s str,
    /// The file.
    pub path: &'s Path,
    /// Size on disk.
    pub bytes: u64,
}

/// The formats of [`SourceFormat`], with what a reader of a file needs of them.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    Jsonl(Arc<JsonlConfig>),
    Parquet(Arc<ParquetConfig>),
    Text,
}

impl Keys {
    pub(super) fn of(format: &SourceFormat) -> Self {
        match format {
            SourceFormat::Jsonl(keys) => Self::Jsonl(Arc::new(keys.clone())),
            SourceFormat::Parquet(columns) => Self::Parquet(Arc::new(columns.clone())),
            SourceFormat::Text(_) => Self::Text,
        }
    }
}

impl ListedFile {
    pub(super) fn new(source: Arc<str>, file: SourceFile, keys: Keys) -> Self {
        Self { source, path: file.path.into(), bytes: file.bytes, form: file.form, keys }
    }

    /// Size of the file on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn as_input(&self) -> InputFile<'_> {
        InputFile { source: &self.source, path: &self.path, bytes: self.bytes }
    }

    pub(super) fn open(self) -> Result<OpenFile, CorpusError> {
        let Self { source, path, bytes, form, keys } = self;
        check_length(&path, bytes)?;
        let reader = match keys {
            Keys::Jsonl(keys) => {
                Reader::Jsonl(JsonlReader::open(source, path.clone(), form, keys)?)
            }
            Keys::Parquet(columns) => {
                Reader::Parquet(ParquetReader::new(source, path.clone(), columns))
            }
            Keys::Text => Reader::Text(TextReader::new(source, path.clone(), form)),
        };
        Ok(OpenFile { path, bytes, documents: 0, has_records: false, reader })
    }
}

/// Refuses a file that is not `listed` bytes long: it is still written, and what is read of it
/// would be neither the file that was listed nor the one that it becomes.
fn check_length(path: &Path, listed: u64) -> Result<(), CorpusError> {
    let found = fs::metadata(path).map_err(CorpusError::io("read", path))?.len();
    if found == listed {
        return Ok(());
    }
    Err(CorpusError::ChangedFile { path: path.to_owned(), listed, found })
}

/// A file that is being read.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: Arc<Path>,
    bytes: u64,
    /// Documents read from it so far.
    documents: u64,
    /// Whether anything was found in it: a document, or a record that cannot be read.
    has_records: bool,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Jsonl(JsonlReader),
    Parquet(ParquetReader),
    Text(TextReader),
}

impl OpenFile {
    /// The next item, or `None` at the end of the file.
    pub(super) fn next_item(&mut self, on_bad_line: OnBadLine) -> Result<Option<Item>, Stop> {
        let item = match &mut self.reader {
            Reader::Jsonl(reader) => reader.next_item(on_bad_line),
            Reader::Parquet(reader) => reader.next_item(on_bad_line),
            Reader::Text(reader) => reader.next_item(on_bad_line),
        }?;
        self.has_records |= item.is_some();
        self.documents += u64::from(item.as_ref().is_some_and(Item::is_document));
        Ok(item)
    }

    /// The file, where it is read to its end and held no record at all.
    pub(super) fn if_empty(&self) -> Option<Arc<Path>> {
        (!self.has_records).then(|| self.path.clone())
    }

    /// Size of the file on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the file on disk that were read so far; never more than were listed.
    pub(super) fn bytes_read(&self) -> u64 {
        let read = match &self.reader {
            Reader::Jsonl(reader) => reader.bytes_read(),
            Reader::Parquet(reader) => reader.bytes_read(),
            Reader::Text(_) => 0,
        };
        read.min(self.bytes)
    }

    /// Refuses a file that is no longer as long as it was when it was listed.
    pub(super) fn check_unchanged(&self) -> Result<(), CorpusError> {
        check_length(&self.path, self.bytes)
    }

    /// What is said of this file, which breaks off at `at`.
    pub(super) fn broken_at(&self, at: &Break) -> BrokenFile {
        BrokenFile {
            path: self.path.clone(),
            documents: self.documents,
            byte_offset: at.byte_offset,
            line: at.line,
            problem: at.problem.clone(),
        }
    }
}
