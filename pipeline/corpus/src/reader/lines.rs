//! A file of lines, plain or compressed, cut into blocks of whole lines.
//!
//! Cutting is the one part of reading that goes through a file from front to back, so it does as
//! little as can be: it reads or decodes into the block's own buffer, looks for the last line feed,
//! and counts the others. Bytes move once more only where a line crosses the end of a block.
//!
//! Plain files are read and not mapped: a process that cuts a mapped file short ends this one with
//! a signal, and to copy a block costs no more than the page faults of a map.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use super::broken::FileProblem;
use super::compression::{Decoder, ReadFault};
use super::form::{Form, check_encoding};
use super::growth::grow;
use crate::CorpusError;

/// Bytes of text that a block holds, unless one line is longer.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes of compressed text that are passed over at a time.
const SKIPPED_BYTES: usize = 16 << 20;

/// The blocks of one file, in order.
#[derive(Debug)]
pub(super) struct LineBlocks {
    path: Arc<Path>,
    form: Form,
    stream: Stream,
    /// The beginning of a line whose end is yet to be read.
    rest: Vec<u8>,
    /// Offset of the next block in the text.
    offset: u64,
    /// Lines before the next block.
    lines: u64,
    /// Bytes of text that are still to be passed over before the next block.
    to_skip: u64,
}

/// The bytes of a file's text.
#[derive(Debug)]
enum Stream {
    Plain(File),
    Packed(Box<Decoder>),
}

/// Whole lines of a file, with their line feeds.
#[derive(Debug)]
pub(super) struct LineBlock {
    pub(super) bytes: Vec<u8>,
    /// Offset of the first line in the text.
    pub(super) offset: u64,
    /// Lines of the file before the first.
    pub(super) lines_before: u64,
    pub(super) end: BlockEnd,
}

/// What stands behind a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockEnd {
    /// Another block.
    More,
    /// The end of the file. Its last line may lack the line feed.
    EndOfFile,
    /// A place at which the file cannot be read on. The last line may be longer.
    Break(FileProblem),
}

impl LineBlocks {
    /// Opens a file whose first bytes must fit its form.
    pub(super) fn open(path: &Arc<Path>, form: Form) -> Result<Self, CorpusError> {
        let stream = match form.compression {
            None => Stream::Plain(File::open(path).map_err(CorpusError::io("open", path))?),
            Some(compression) => Stream::Packed(Box::new(Decoder::open(path, form, compression)?)),
        };
        Ok(Self {
            path: path.clone(),
            form,
            stream,
            rest: Vec::new(),
            offset: 0,
            lines: 0,
            to_skip: 0,
        })
    }

    /// Goes on behind the first `text_bytes` bytes of text, which are `lines` whole lines.
    pub(super) fn skip(&mut self, text_bytes: u64, lines: u64) -> Result<(), CorpusError> {
        (self.offset, self.lines) = (text_bytes, lines);
        match &mut self.stream {
            Stream::Plain(file) => {
                let start = SeekFrom::Start(text_bytes);
                file.seek(start).map_err(CorpusError::io("read", &self.path))?;
            }
            Stream::Packed(_) => self.to_skip = text_bytes,
        }
        Ok(())
    }

    /// Bytes of the file on disk that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        match &self.stream {
            Stream::Plain(_) => self.offset,
            Stream::Packed(decoder) => decoder.bytes_taken(),
        }
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
    /// and while compressed text is passed over.
    pub(super) fn next_block(&mut self) -> Result<LineBlock, CorpusError> {
        if self.to_skip > 0 {
            self.skip_some()?;
            return Ok(self.block(Vec::new(), BlockEnd::More));
        }
        let mut bytes = mem::take(&mut self.rest);
        let mut target = bytes.len() + BLOCK_BYTES;
        loop {
            let searched = bytes.len();
            let end = self.fill(&mut bytes, target)?;
            if searched == 0 && self.offset == 0 {
                self.check_first_bytes(&bytes)?;
            }
            if end != BlockEnd::More {
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
    fn block(&mut self, bytes: Vec<u8>, end: BlockEnd) -> LineBlock {
        let (offset, lines_before) = (self.offset, self.lines);
        self.offset += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        LineBlock { bytes, offset, lines_before, end }
    }

    /// Reads on until `bytes` are `target` bytes, or the file ends.
    fn fill(&mut self, bytes: &mut Vec<u8>, target: usize) -> Result<BlockEnd, CorpusError> {
        let mut filled = bytes.len();
        grow(bytes, target, &self.path)?;
        let end = loop {
            if filled == bytes.len() {
                break BlockEnd::More;
            }
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break BlockEnd::EndOfFile,
                Ok(count) => filled += count,
                Err(ReadFault::System(error)) => {
                    return Err(CorpusError::io("read", &self.path)(error));
                }
                Err(ReadFault::Content(problem)) => break BlockEnd::Break(problem),
            }
        };
        bytes.truncate(filled);
        Ok(end)
    }

    /// Passes over some of the text that is to be skipped.
    fn skip_some(&mut self) -> Result<(), CorpusError> {
        let mut bytes = Vec::new();
        let count = SKIPPED_BYTES.min(usize::try_from(self.to_skip).unwrap_or(usize::MAX));
        if self.fill(&mut bytes, count)? != BlockEnd::More {
            let end = io::ErrorKind::UnexpectedEof.into();
            return Err(CorpusError::io("go on with", &self.path)(end));
        }
        self.to_skip -= count as u64;
        Ok(())
    }

    /// Refuses a file that is not what its name says.
    fn check_first_bytes(&self, first: &[u8]) -> Result<(), CorpusError> {
        match &self.stream {
            Stream::Plain(_) => self.form.check_first_bytes(&self.path, first),
            Stream::Packed(_) => check_encoding(&self.path, first),
        }
    }
}

impl Stream {
    /// Reads on into `buffer`; 0 at the sound end of the text.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadFault> {
        match self {
            Self::Packed(decoder) => decoder.read(buffer),
            Self::Plain(file) => loop {
                match file.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other.map_err(ReadFault::System),
                }
            },
        }
    }
}
