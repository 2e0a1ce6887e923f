//! The lines of a file, plain or compressed, each lent from where its bytes already lie.
//!
//! Plain files are mapped into memory and nothing is copied. Of compressed ones a piece is decoded
//! at a time into one buffer that is used again; only the line that crosses the end of the buffer
//! moves, to its beginning. The buffer grows to the longest line of the file, never to the file.

use std::path::Path;
use std::sync::Arc;

use super::broken::{Break, FileProblem, Stop};
use super::compression::{Decoder, ReadFault};
use super::form::{Form, check_encoding};
use super::growth::grow;
use crate::CorpusError;
use crate::mapped::MappedFile;

/// First size of the buffer of a compressed file, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The lines of one file, in order.
#[derive(Debug)]
pub(super) enum Lines {
    Mapped(MappedLines),
    Decoded(Box<DecodedLines>),
}

/// A line without its line feed.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the line in the text.
    pub(super) offset: u64,
    pub(super) end: LineEnd,
}

/// What stands after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// A line feed.
    Feed,
    /// The end of the file.
    EndOfFile,
    /// A place at which the file cannot be read on: the line may be longer. The next line is that
    /// error.
    Break,
}

impl Lines {
    /// Opens a file whose first bytes must fit its form.
    pub(super) fn open(path: &Arc<Path>, form: Form) -> Result<Self, CorpusError> {
        Ok(match form.compression {
            None => {
                let bytes = MappedFile::open(path)?;
                form.check_first_bytes(path, &bytes)?;
                Self::Mapped(MappedLines { bytes, position: 0 })
            }
            Some(compression) => {
                let decoder = Decoder::open(path, form, compression)?;
                Self::Decoded(Box::new(DecodedLines::new(path.clone(), decoder, BUFFER_BYTES)))
            }
        })
    }

    /// The next line, or `None` at the end of the file.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, Stop> {
        match self {
            Self::Mapped(lines) => Ok(lines.next_line()),
            Self::Decoded(lines) => lines.next_line(),
        }
    }

    /// Bytes of the file on disk that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Mapped(lines) => lines.position as u64,
            Self::Decoded(lines) => lines.decoder.bytes_taken(),
        }
    }
}

/// The lines of a file that is mapped into memory.
#[derive(Debug)]
pub(super) struct MappedLines {
    bytes: MappedFile,
    /// Offset of the next line.
    position: usize,
}

impl MappedLines {
    fn next_line(&mut self) -> Option<Line<'_>> {
        let start = self.position;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let feed = memchr::memchr(b'\n', rest);
        let bytes = feed.map_or(rest, |feed| &rest[..feed]);
        let end = if feed.is_some() { LineEnd::Feed } else { LineEnd::EndOfFile };
        self.position = (start + bytes.len() + 1).min(self.bytes.len());
        Some(Line { bytes, offset: start as u64, end })
    }
}

/// The lines of a file that is decoded piece by piece.
#[derive(Debug)]
pub(super) struct DecodedLines {
    path: Arc<Path>,
    decoder: Decoder,
    /// Decoded bytes: those before `start` were handed out, those from `filled` on are yet to be
    /// filled.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    /// Offset in the text of the byte at `start`.
    offset: u64,
    /// How the text ends, once that is known.
    end: Option<TextEnd>,
}

#[derive(Debug)]
enum TextEnd {
    Sound,
    Broken(FileProblem),
}

impl DecodedLines {
    fn new(path: Arc<Path>, decoder: Decoder, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes];
        Self { path, decoder, buffer, start: 0, filled: 0, offset: 0, end: None }
    }

    fn next_line(&mut self) -> Result<Option<Line<'_>>, Stop> {
        let mut searched = 0;
        loop {
            let pending = &self.buffer[self.start..self.filled];
            if let Some(feed) = memchr::memchr(b'\n', &pending[searched..]) {
                return Ok(Some(self.take(searched + feed, LineEnd::Feed)));
            }
            searched = pending.len();
            match &self.end {
                None => self.decode_more()?,
                Some(TextEnd::Sound) if searched == 0 => return Ok(None),
                Some(TextEnd::Sound) => return Ok(Some(self.take(searched, LineEnd::EndOfFile))),
                Some(TextEnd::Broken(problem)) if searched == 0 => {
                    return Err(Stop::from(Break {
                        byte_offset: self.offset,
                        line: None,
                        problem: problem.clone(),
                        salvaged: None,
                    }));
                }
                Some(TextEnd::Broken(_)) => return Ok(Some(self.take(searched, LineEnd::Break))),
            }
        }
    }

    /// Hands out the next `length` bytes as a line that ends in `end`.
    fn take(&mut self, length: usize, end: LineEnd) -> Line<'_> {
        let (start, offset) = (self.start, self.offset);
        let taken = length + usize::from(end == LineEnd::Feed);
        self.start += taken;
        self.offset += taken as u64;
        Line { bytes: &self.buffer[start..start + length], offset, end }
    }

    /// Decodes at least one byte after the line that has begun, or finds the end.
    fn decode_more(&mut self) -> Result<(), CorpusError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.filled == self.buffer.len() {
            grow(&mut self.buffer, 2 * self.filled, &self.path)?;
        }
        match self.decoder.read(&mut self.buffer[self.filled..]) {
            Ok(0) => self.end = Some(TextEnd::Sound),
            Ok(count) => {
                self.filled += count;
                if self.offset == 0 {
                    check_encoding(&self.path, &self.buffer[..self.filled])?;
                }
            }
            Err(ReadFault::System(error)) => {
                return Err(CorpusError::io("read", &self.path)(error));
            }
            Err(ReadFault::Content(problem)) => self.end = Some(TextEnd::Broken(problem)),
        }
        Ok(())
    }
}
