//! Compressed files as streams of bytes: gzip of any number of members, Zstandard of any number of
//! frames.
//!
//! Both are made by appending (`cat a.gz b.gz`), and the common decoders that stop after the first
//! part lose the rest without a word. Here reading goes on to the end of the file, and whatever
//! stands there that is no further part is an error, but for zero bytes after a gzip member, with
//! which tapes and block devices pad.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::broken::FileProblem;
use super::form::Form;
use crate::CorpusError;

/// Bytes that are read from a file at a time.
const INPUT_BYTES: usize = 128 * 1024;

/// The largest window of a Zstandard frame, as a power of two: that of `zstd --ultra --long=31`.
const MAX_WINDOW_LOG: u32 = 31;

/// What the decoder of Zstandard says where it is not given the memory of a window.
const NO_MEMORY: &str = "Allocation error : not enough memory";

/// What a file is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression that a file's name ends in.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// As messages call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "Zstandard",
        }
    }
}

/// The bytes that a compressed file stands for.
pub(super) struct Decoder {
    stream: Stream,
}

/// Says how far it is, and not what it holds: the decoders do not show themselves.
impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Decoder")
            .field("bytes_taken", &self.bytes_taken())
            .finish_non_exhaustive()
    }
}

enum Stream {
    Gzip(Box<GzipMembers>),
    Zstd(zstd::Decoder<'static, Input>),
}

impl Decoder {
    /// Opens a file of a compressed form, whose first bytes must fit it.
    pub(super) fn open(
        path: &Path,
        form: Form,
        compression: Compression,
    ) -> Result<Self, CorpusError> {
        let file = File::open(path).map_err(CorpusError::io("open", path))?;
        let mut input = Input { file: BufReader::with_capacity(INPUT_BYTES, file), bytes_taken: 0 };
        let first = input.fill_buf().map_err(CorpusError::io("read", path))?;
        form.check_first_bytes(path, first)?;
        let stream = match compression {
            Compression::Gzip => Stream::Gzip(Box::new(GzipMembers::new(input))),
            Compression::Zstd => Stream::Zstd(
                zstd_decoder(input).map_err(CorpusError::io("set up decompression of", path))?,
            ),
        };
        Ok(Self { stream })
    }

    /// Bytes of the file on disk that were read so far.
    pub(super) fn bytes_taken(&self) -> u64 {
        match &self.stream {
            Stream::Gzip(members) => members.bytes_taken(),
            Stream::Zstd(decoder) => decoder.get_ref().bytes_taken,
        }
    }

    /// Reads on into `buffer`; 0 at the sound end of the file.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ReadFault> {
        loop {
            let (result, compression) = match &mut self.stream {
                Stream::Gzip(members) => (members.read(buffer), Compression::Gzip),
                Stream::Zstd(decoder) => (decoder.read(buffer), Compression::Zstd),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map_err(|error| ReadFault::new(error, compression)),
            }
        }
    }
}

fn zstd_decoder(input: Input) -> io::Result<zstd::Decoder<'static, Input>> {
    let mut decoder = zstd::Decoder::with_buffer(input)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// Why a stream cannot be read on.
#[derive(Debug)]
pub(super) enum ReadFault {
    /// The system did not hand the file's bytes out.
    System(io::Error),
    /// The bytes are not what they should be.
    Content(FileProblem),
}

impl ReadFault {
    fn new(error: io::Error, compression: Compression) -> Self {
        let form = compression.name().into();
        if error.raw_os_error().is_some() {
            Self::System(error)
        } else if error.to_string() == NO_MEMORY {
            Self::System(io::Error::new(io::ErrorKind::OutOfMemory, error))
        } else if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Content(FileProblem::CutOff { form })
        } else {
            Self::Content(FileProblem::Damaged { form, message: error.to_string() })
        }
    }
}

/// A file's bytes as they lie on disk, and how many were taken.
struct Input {
    file: BufReader<File>,
    bytes_taken: u64,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes_taken += count as u64;
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.file.consume(count);
        self.bytes_taken += count as u64;
    }
}

/// Members of a gzip file, one after the other.
struct GzipMembers {
    /// The member that is read; `None` after the last.
    member: Option<GzDecoder<Input>>,
    /// Bytes of the file before its end was reached.
    bytes_at_end: u64,
}

impl GzipMembers {
    fn new(input: Input) -> Self {
        Self { member: Some(GzDecoder::new(input)), bytes_at_end: 0 }
    }

    fn bytes_taken(&self) -> u64 {
        self.member.as_ref().map_or(self.bytes_at_end, |member| member.get_ref().bytes_taken)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.next_member()?;
        }
        Ok(0)
    }

    /// Goes on to the member after one that has ended.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(mut input) = self.member.take().map(GzDecoder::into_inner) else { return Ok(()) };
        skip_zeros(&mut input)?;
        match *input.fill_buf()? {
            [] => self.bytes_at_end = input.bytes_taken,
            // A lone first byte of a mark is a member that is cut off: its decoder says so.
            [0x1f] | [0x1f, 0x8b, ..] => self.member = Some(GzDecoder::new(input)),
            _ => {
                self.bytes_at_end = input.bytes_taken;
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "bytes that are no gzip follow a complete part",
                ));
            }
        }
        Ok(())
    }
}

fn skip_zeros(input: &mut Input) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let zeros = buffer.iter().take_while(|&&byte| byte == 0).count();
        let has_more = zeros == buffer.len() && zeros > 0;
        input.consume(zeros);
        if !has_more {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_memory_is_no_damage() {
        // The code of `ZSTD_error_memory_allocation`, as `zstd_errors.h` has it.
        let message = zstd::zstd_safe::get_error_name(0_usize.wrapping_sub(64));
        let fault = ReadFault::new(io::Error::other(message), Compression::Zstd);
        assert!(matches!(fault, ReadFault::System(_)), "{message}: {fault:?}");
    }
}
