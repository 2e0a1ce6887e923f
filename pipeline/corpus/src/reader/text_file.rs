//! A file that is one document.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::block::{Origin, Parsed};
use super::broken::{Break, FileProblem, Stop};
use super::compression::{Compression, Decoder, ReadFault};
use super::form::{Form, check_encoding};
use super::growth::{MAX_DOCUMENT_BYTES, grow};
use super::record::without_mark;
use super::reject::{Reject, RejectReason};
use super::{Item, OnBadLine};
use crate::{CorpusError, Document, Provenance};

/// Bytes that are decoded at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// A file that is still to be read; whoever parses it does so.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextFile {
    form: Form,
    /// Size on disk.
    bytes: u64,
}

impl TextFile {
    pub(super) fn new(form: Form, bytes: u64) -> Self {
        Self { form, bytes }
    }

    /// The whole file, without the byte order mark that it may begin with.
    pub(super) fn parse(self, origin: &Origin, on_bad_line: OnBadLine) -> Parsed {
        match self.read(&origin.file) {
            Err(error) => Parsed::stopped(Vec::new(), error.into()),
            Ok((bytes, None)) => match item(bytes, origin, on_bad_line) {
                Ok(item) => Parsed::whole(vec![item]),
                Err(error) => Parsed::stopped(Vec::new(), error.into()),
            },
            Ok((mut bytes, Some(problem))) => {
                let byte_offset = bytes.len() as u64;
                drop_half_character(&mut bytes);
                let stop = match item(bytes, origin, on_bad_line) {
                    Ok(item) => {
                        let salvaged = Some(item);
                        Stop::from(Break { byte_offset, line: None, problem, salvaged })
                    }
                    Err(error) => error.into(),
                };
                Parsed::stopped(Vec::new(), stop)
            }
        }
    }

    /// All that can be read of the file, and what is wrong where that is not the whole.
    fn read(self, file: &Path) -> Result<(Vec<u8>, Option<FileProblem>), CorpusError> {
        match self.form.compression {
            None => Ok((self.read_plain(file)?, None)),
            Some(compression) => decode(file, self.form, compression),
        }
    }

    /// As many bytes as were listed, so that a file that grows meanwhile fills no memory.
    fn read_plain(self, file: &Path) -> Result<Vec<u8>, CorpusError> {
        let mut bytes = Vec::new();
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        if length > MAX_DOCUMENT_BYTES || bytes.try_reserve_exact(length).is_err() {
            return Err(CorpusError::TooLarge {
                path: file.to_owned(),
                bytes: length.min(MAX_DOCUMENT_BYTES),
            });
        }
        File::open(file)
            .map_err(CorpusError::io("open", file))?
            .take(self.bytes)
            .read_to_end(&mut bytes)
            .map_err(CorpusError::io("read", file))?;
        self.form.check_first_bytes(file, &bytes)?;
        Ok(bytes)
    }
}

/// The document that `bytes` are.
fn item(mut bytes: Vec<u8>, origin: &Origin, on_bad_line: OnBadLine) -> Result<Item, CorpusError> {
    let mark = bytes.len() - without_mark(&bytes).len();
    bytes.drain(..mark);
    let provenance = origin.provenance(None, None);
    let document = |provenance: Provenance, text| Document { provenance, title: None, text };
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(Item::Document(document(provenance, text))),
        Err(error) => error,
    };
    let byte_offset = (mark + error.utf8_error().valid_up_to()) as u64;
    let reason = RejectReason::InvalidUtf8;
    let reject = Reject { provenance: provenance.clone(), column: None, byte_offset, reason };
    match on_bad_line {
        OnBadLine::Fail => Err(CorpusError::BadRecord(Box::new(reject))),
        OnBadLine::Skip => Ok(Item::Rejected(reject)),
        OnBadLine::Replace => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Ok(Item::Repaired(document(provenance, text), reject))
        }
    }
}

/// All that can be decoded of a file, and what is wrong where that is not the whole.
fn decode(
    file: &Path,
    form: Form,
    compression: Compression,
) -> Result<(Vec<u8>, Option<FileProblem>), CorpusError> {
    let mut decoder = Decoder::open(file, form, compression)?;
    let mut bytes = Vec::new();
    loop {
        let filled = bytes.len();
        grow(&mut bytes, filled + PIECE_BYTES, file)?;
        let result = decoder.read(&mut bytes[filled..]);
        bytes.truncate(filled + result.as_ref().map_or(0, |&count| count));
        check_encoding(file, &bytes)?;
        match result {
            Ok(0) => return Ok((bytes, None)),
            Ok(_) => {}
            Err(ReadFault::System(error)) => return Err(CorpusError::io("read", file)(error)),
            Err(ReadFault::Content(problem)) => return Ok((bytes, Some(problem))),
        }
    }
}

/// Cuts off a character of which only the first bytes are there.
fn drop_half_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}
