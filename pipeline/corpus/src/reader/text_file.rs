//! A file that is one document.

use std::path::Path;
use std::sync::Arc;

use super::broken::{Break, FileProblem, Stop};
use super::compression::{Compression, Decoder, ReadFault};
use super::form::{Form, check_encoding};
use super::growth::grow;
use super::record::without_mark;
use super::reject::{Reject, RejectReason};
use super::{Item, OnBadLine};
use crate::{CorpusError, Document, Provenance};

/// Bytes that are decoded at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// The one document of a file.
#[derive(Debug)]
pub(super) struct TextReader {
    source: Arc<str>,
    file: Arc<Path>,
    form: Form,
    is_read: bool,
}

impl TextReader {
    pub(super) fn new(source: Arc<str>, file: Arc<Path>, form: Form) -> Self {
        Self { source, file, form, is_read: false }
    }

    /// The whole file, without the byte order mark that it may begin with; after it, `None`.
    pub(super) fn next_item(&mut self, on_bad_line: OnBadLine) -> Result<Option<Item>, Stop> {
        if self.is_read {
            return Ok(None);
        }
        self.is_read = true;
        let (mut bytes, problem) = match self.form.compression {
            None => (read_plain(&self.file, self.form)?, None),
            Some(compression) => decode(&self.file, self.form, compression)?,
        };
        let Some(problem) = problem else { return Ok(Some(self.item(bytes, on_bad_line)?)) };
        let byte_offset = bytes.len() as u64;
        drop_half_character(&mut bytes);
        let salvaged = Some(self.item(bytes, on_bad_line)?);
        Err(Stop::from(Break { byte_offset, line: None, problem, salvaged }))
    }

    fn item(&self, mut bytes: Vec<u8>, on_bad_line: OnBadLine) -> Result<Item, CorpusError> {
        let mark = bytes.len() - without_mark(&bytes).len();
        bytes.drain(..mark);
        let provenance = Provenance {
            source: self.source.clone(),
            file: self.file.clone(),
            line: None,
            id: None,
        };
        let document = |provenance, text| Document { provenance, title: None, text };
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
}

fn read_plain(file: &Path, form: Form) -> Result<Vec<u8>, CorpusError> {
    let bytes = std::fs::read(file).map_err(CorpusError::io("read", file))?;
    form.check_first_bytes(file, &bytes)?;
    Ok(bytes)
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
