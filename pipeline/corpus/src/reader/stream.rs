//! The text of a file as a stream of bytes, plain or unpacked, in whose first bytes its form shows.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::broken::FileProblem;
use super::compression::{Decoder, ReadFault};
use super::form::{Form, check_encoding};
use super::growth::make_room;
use crate::CorpusError;

/// Bytes that are unpacked at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The text of one file.
#[derive(Debug)]
pub(super) struct TextStream {
    path: Arc<Path>,
    form: Form,
    bytes: Bytes,
    /// Whether the first bytes are still to be read.
    is_at_start: bool,
}

#[derive(Debug)]
enum Bytes {
    Plain(File),
    Packed(Box<Decoder>),
}

/// What stands behind bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextEnd {
    /// More of the text.
    More,
    /// The end of the file.
    EndOfFile,
    /// A place at which the file cannot be read on.
    Break(FileProblem),
}

impl TextStream {
    pub(super) fn open(path: &Arc<Path>, form: Form) -> Result<Self, CorpusError> {
        let bytes = match form.compression {
            None => Bytes::Plain(File::open(path).map_err(CorpusError::io("open", path))?),
            Some(compression) => Bytes::Packed(Box::new(Decoder::open(path, form, compression)?)),
        };
        Ok(Self { path: path.clone(), form, bytes, is_at_start: true })
    }

    /// Reads on behind what `bytes` hold of a document, until they are `target` bytes or the text
    /// ends.
    ///
    /// # Errors
    ///
    /// A document that is too large, a file that is not what its name says, and whatever the
    /// system says.
    pub(super) fn fill(
        &mut self,
        bytes: &mut Vec<u8>,
        target: usize,
    ) -> Result<TextEnd, CorpusError> {
        let target = make_room(bytes, target, &self.path)?;
        let mut end = TextEnd::More;
        while end == TextEnd::More && bytes.len() < target {
            match self.bytes.read(bytes, target - bytes.len()) {
                Ok(0) => end = TextEnd::EndOfFile,
                Ok(_) => {}
                Err(ReadFault::Content(problem)) => end = TextEnd::Break(problem),
                Err(ReadFault::System(error)) => {
                    return Err(CorpusError::io("read", &self.path)(error));
                }
            }
        }
        if std::mem::take(&mut self.is_at_start) {
            self.check_first_bytes(bytes)?;
        }
        Ok(end)
    }

    /// Passes over bytes of text, as many as are quickly done of the next `bytes`, and returns how
    /// many that were.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<u64, CorpusError> {
        const SKIPPED_BYTES: u64 = 16 << 20;
        self.is_at_start = false;
        if let Bytes::Plain(file) = &mut self.bytes {
            let start = SeekFrom::Current(bytes.cast_signed());
            file.seek(start).map_err(CorpusError::io("read", &self.path))?;
            return Ok(bytes);
        }
        let count = bytes.min(SKIPPED_BYTES);
        if self.fill(&mut Vec::new(), count as usize)? != TextEnd::More {
            let end = io::ErrorKind::UnexpectedEof.into();
            return Err(CorpusError::io("go on with", &self.path)(end));
        }
        Ok(count)
    }

    /// Bytes of a compressed file on disk that were read so far; `None` where it is plain.
    pub(super) fn packed_bytes_read(&self) -> Option<u64> {
        match &self.bytes {
            Bytes::Plain(_) => None,
            Bytes::Packed(decoder) => Some(decoder.bytes_taken()),
        }
    }

    /// Refuses a file that is not what its name says.
    fn check_first_bytes(&self, first: &[u8]) -> Result<(), CorpusError> {
        match &self.bytes {
            Bytes::Plain(_) => self.form.check_first_bytes(&self.path, first),
            Bytes::Packed(_) => check_encoding(&self.path, first),
        }
    }
}

impl Bytes {
    /// Reads on, up to `wanted` bytes, behind `bytes`; 0 at the sound end of the text.
    fn read(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> Result<usize, ReadFault> {
        match self {
            Self::Plain(file) => {
                file.take(wanted as u64).read_to_end(bytes).map_err(ReadFault::System)
            }
            Self::Packed(decoder) => {
                let filled = bytes.len();
                bytes.resize(filled + wanted.min(PIECE_BYTES), 0);
                let result = decoder.read(&mut bytes[filled..]);
                bytes.truncate(filled + result.as_ref().map_or(0, |&count| count));
                result
            }
        }
    }
}
