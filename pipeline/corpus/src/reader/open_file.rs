//! One file of a source, before it is opened and while it is cut into blocks.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::block::{Content, Origin, Position};
use super::files::{SourceFile, Stamp};
use super::form::Form;
use super::lines::LineBlocks;
use super::parquet_file::RowBlocks;
use super::stream::TextEnd;
use super::text_file::TextFile;
use super::{JsonlConfig, ParquetConfig, SourceFormat};
use crate::CorpusError;

/// A file of the input, as it was listed.
#[derive(Debug)]
pub(super) struct ListedFile {
    origin: Origin,
    stamp: Stamp,
    form: Form,
    keys: Keys,
}

/// A file of the input, as its listing tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputFile<'s> {
    /// Its place among all files of the input, in result order.
    pub index: u32,
    /// Name of its source.
    pub source: &'s str,
    /// The file.
    pub path: &'s Path,
    /// Size on disk.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified_ns: i64,
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
        let origin = Origin { source, file: file.path.into() };
        Self { origin, stamp: file.stamp, form: file.form, keys }
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn path(&self) -> &Arc<Path> {
        &self.origin.file
    }

    /// Size of the file on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    pub(super) fn as_input(&self, index: u32) -> InputFile<'_> {
        InputFile {
            index,
            source: &self.origin.source,
            path: self.path(),
            bytes: self.stamp.bytes,
            modified_ns: self.stamp.modified_ns,
        }
    }

    /// Opens the file to be read from `start` on.
    pub(super) fn open(&self, start: Position) -> Result<OpenFile, CorpusError> {
        self.check_unchanged()?;
        let path = self.path();
        let reader = match &self.keys {
            Keys::Jsonl(keys) => {
                let Position { records, text_bytes } = start;
                let lines = LineBlocks::open(path, self.form, text_bytes, records)?;
                Reader::Lines(Box::new(lines), keys.clone())
            }
            Keys::Parquet(columns) => {
                let rows = RowBlocks::new(path.clone(), columns.clone(), start.records);
                Reader::Rows(Box::new(rows), columns.clone())
            }
            Keys::Text => Reader::Text(TextFile::new(self.form, self.bytes())),
        };
        Ok(OpenFile { reader })
    }

    /// Refuses a file that is not as it was listed: what is read of it would be neither the file
    /// that was listed nor the one that it becomes.
    pub(super) fn check_unchanged(&self) -> Result<(), CorpusError> {
        let path = self.path();
        let metadata = fs::metadata(path).map_err(CorpusError::io("read", path))?;
        let found = Stamp::of(&metadata);
        if found == self.stamp {
            return Ok(());
        }
        let (path, listed) = (path.to_path_buf(), self.stamp.bytes);
        Err(CorpusError::ChangedFile { path, listed, found: found.bytes })
    }
}

/// A file that is being cut into blocks.
#[derive(Debug)]
pub(super) struct OpenFile {
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Lines(Box<LineBlocks>, Arc<JsonlConfig>),
    Rows(Box<RowBlocks>, Arc<ParquetConfig>),
    Text(TextFile),
}

/// What was cut out of a file.
pub(super) struct Cut {
    pub(super) content: Content,
    /// Whether nothing follows.
    pub(super) is_last: bool,
    /// Where the next block begins.
    pub(super) end: Position,
    /// Bytes of the file on disk that are read so far.
    pub(super) bytes_read: u64,
}

impl Cut {
    /// What is cut out of a file that cannot be read: the last of it.
    pub(super) fn failed(error: CorpusError) -> Self {
        let (content, end) = (Content::Failed(error), Position::default());
        Self { content, is_last: true, end, bytes_read: 0 }
    }
}

impl OpenFile {
    /// Cuts the next records out; not asked again after the last.
    pub(super) fn next_cut(&mut self) -> Result<Cut, CorpusError> {
        Ok(match &mut self.reader {
            Reader::Lines(lines, keys) => {
                let block = lines.next_block()?;
                Cut {
                    is_last: block.end != TextEnd::More,
                    content: Content::Lines(block, keys.clone()),
                    end: Position { records: lines.lines(), text_bytes: lines.offset() },
                    bytes_read: lines.bytes_read(),
                }
            }
            Reader::Rows(rows, columns) => {
                let block = rows.next_block()?;
                Cut {
                    is_last: block.is_last(),
                    content: Content::Rows(block, columns.clone()),
                    end: Position { records: rows.rows(), text_bytes: 0 },
                    bytes_read: rows.bytes_read(),
                }
            }
            Reader::Text(file) => Cut {
                content: Content::Text(*file),
                is_last: true,
                end: Position { records: 1, text_bytes: 0 },
                bytes_read: 0,
            },
        })
    }
}
