//! A file of lines, plain or compressed, cut into blocks of whole lines.
//!
//! Cutting is the one part of reading that goes through a file from front to back, so it does as
//! little as can be: it reads or unpacks into the block's own buffer, looks for the last line feed,
//! and counts the others. Bytes move once more only where a line crosses the end of a block.
//!
//! Plain files are read and not mapped: a process that cuts a mapped file short ends this one with
//! a signal, and to copy a block costs no more than the page faults of a map.

use std::mem;
use std::path::Path;
use std::sync::Arc;

use super::form::Form;
use super::stream::{TextEnd, TextStream};
use crate::CorpusError;

/// Bytes of text that a block holds, unless one line is longer.
const BLOCK_BYTES: usize = 1 << 20;

/// The blocks of one file, in order.
#[derive(Debug)]
pub(super) struct LineBlocks {
    text: TextStream,
    /// The beginning of a line whose end is yet to be read.
    rest: Vec<u8>,
    /// Offset of the next block in the text.
    offset: u64,
    /// Lines before the next block.
    lines: u64,
    /// Bytes of text that are still to be passed over before the next block.
    to_skip: u64,
}

/// Whole lines of a file, with their line feeds. At the end of the file the last may lack it, and
/// where the file breaks off it may be longer.
#[derive(Debug)]
pub(super) struct LineBlock {
    pub(super) bytes: Vec<u8>,
    /// Offset of the first line in the text.
    pub(super) offset: u64,
    /// Lines of the file before the first.
    pub(super) lines_before: u64,
    pub(super) end: TextEnd,
}

impl LineBlocks {
    /// Opens a file to be read behind its first `text_bytes` bytes of text, which are `lines` whole
    /// lines.
    pub(super) fn open(
        path: &Arc<Path>,
        form: Form,
        text_bytes: u64,
        lines: u64,
    ) -> Result<Self, CorpusError> {
        let text = TextStream::open(path, form)?;
        Ok(Self { text, rest: Vec::new(), offset: text_bytes, lines, to_skip: text_bytes })
    }

    /// Bytes of the file on disk that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.text.packed_bytes_read().unwrap_or(self.offset)
    }

    /// Lines before the next block.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Offset of the next block in the text.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next block. It is empty at the end of a file whose last line was in the block before,
    /// and while text is passed over.
    pub(super) fn next_block(&mut self) -> Result<LineBlock, CorpusError> {
        if self.to_skip > 0 {
            self.to_skip -= self.text.skip(self.to_skip)?;
            return Ok(self.block(Vec::new(), TextEnd::More));
        }
        let mut bytes = mem::take(&mut self.rest);
        let mut target = bytes.len() + BLOCK_BYTES;
        loop {
            let searched = bytes.len();
            let end = self.text.fill(&mut bytes, target)?;
            if end != TextEnd::More {
                return Ok(self.block(bytes, end));
            }
            if let Some(feed) = memchr::memrchr(b'\n', &bytes[searched..]) {
                self.rest = bytes.split_off(searched + feed + 1);
                return Ok(self.block(bytes, end));
            }
            target = 2 * bytes.len();
        }
    }

    /// The block of `bytes`, behind which the next one begins.
    fn block(&mut self, bytes: Vec<u8>, end: TextEnd) -> LineBlock {
        let (offset, lines_before) = (self.offset, self.lines);
        self.offset += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        LineBlock { bytes, offset, lines_before, end }
    }
}
