//! Blocks of records: what is cut out of a file in order, parsed anywhere, and accepted in order.
//!
//! [`Sources::next_block`](super::Sources::next_block) cuts, on one thread, because a file is read
//! from front to back. [`RecordBlock::parse`] depends on the block alone, so that any number of
//! threads may do it. [`Sources::accept`](super::Sources::accept) takes the blocks in their order
//! again: what depends on the order (which error is the first, how many documents a broken file has
//! given) is decided there, and is the same however the work was shared.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::broken::Stop;
use super::lines::LineBlock;
use super::rows::RowBlock;
use super::text_file::TextFile;
use super::{Item, JsonlConfig, OnBadLine, ParquetConfig};
use crate::{CorpusError, Provenance};

/// Some records of one file, which nobody has looked into yet: about a mebibyte, or a row group's
/// next thousand rows, or a whole text file.
#[derive(Debug)]
pub struct RecordBlock {
    pub(super) place: BlockPlace,
    pub(super) origin: Origin,
    pub(super) on_bad_line: OnBadLine,
    pub(super) content: Content,
}

/// The items of a block, not yet accepted.
#[derive(Debug)]
pub struct ParsedBlock {
    pub(super) place: BlockPlace,
    pub(super) parsed: Parsed,
}

impl RecordBlock {
    /// Index of the file among [`Sources::files`](super::Sources::files).
    pub fn file(&self) -> u32 {
        self.place.file
    }

    /// How much there is to parse, in bytes; of rows, which are unpacked already, the usual size of
    /// a block.
    pub fn bytes(&self) -> u64 {
        match &self.content {
            Content::Lines(block, _) => block.bytes.len() as u64,
            Content::Rows(..) => 1 << 20,
            Content::Text(file) => file.bytes(),
            Content::Failed(_) => 0,
        }
    }

    /// What the records hold. Depends on the block alone.
    pub fn parse(self) -> ParsedBlock {
        let Self { place, origin, on_bad_line, content } = self;
        let parsed = match content {
            Content::Lines(block, keys) => block.parse(&keys, &origin, on_bad_line),
            Content::Rows(block, columns) => block.parse(&columns, &origin, on_bad_line),
            Content::Text(file) => file.parse(&origin, on_bad_line),
            Content::Failed(error) => Parsed::stopped(Vec::new(), Stop::Failed(error)),
        };
        ParsedBlock { place, parsed }
    }
}

impl ParsedBlock {
    /// Index of the file among [`Sources::files`](super::Sources::files).
    pub fn file(&self) -> u32 {
        self.place.file
    }

    /// The items that were found, for work on them that need not wait for their turn. Where the
    /// file breaks off, [`Sources::accept`](super::Sources::accept) may add one.
    pub fn items(&self) -> &[Item] {
        &self.parsed.items
    }
}

/// Which block of all it is, and how far its file is read with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPlace {
    /// Blocks that were cut before.
    pub(super) number: u64,
    /// Index of the file.
    pub(super) file: u32,
    /// Whether it is the last of its file.
    pub(super) is_last: bool,
    /// Where the next block of the file begins.
    pub(super) end: Position,
    /// Bytes of the file on disk that are read with it.
    pub(super) bytes_read: u64,
}

/// A place in a file between two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Lines or rows before it.
    pub(super) records: u64,
    /// Bytes of text before it, uncompressed; 0 where records are rows.
    pub(super) text_bytes: u64,
}

/// Where the records of a block stand.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) source: Arc<str>,
    pub(super) file: Arc<Path>,
}

impl Origin {
    pub(super) fn provenance(&self, line: Option<u64>, id: Option<String>) -> Provenance {
        Provenance { source: self.source.clone(), file: self.file.clone(), line, id }
    }
}

/// What a block holds.
#[derive(Debug)]
pub(super) enum Content {
    Lines(LineBlock, Arc<JsonlConfig>),
    Rows(RowBlock, Arc<ParquetConfig>),
    Text(TextFile),
    /// Nothing, because its file could not be read.
    Failed(CorpusError),
}

/// What became of the records of a block, and why not all of them did.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) items: Vec<Item>,
    pub(super) stop: Option<Stop>,
}

impl Parsed {
    pub(super) fn whole(items: Vec<Item>) -> Self {
        Self { items, stop: None }
    }

    pub(super) fn stopped(items: Vec<Item>, stop: Stop) -> Self {
        Self { items, stop: Some(stop) }
    }
}
