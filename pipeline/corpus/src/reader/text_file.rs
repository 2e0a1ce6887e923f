//! A file that is one document.

use std::path::Path;
use std::sync::Arc;

use super::block::{Origin, Parsed};
use super::broken::{Break, FileProblem, Stop};
use super::form::Form;
use super::record::without_mark;
use super::reject::{Reject, RejectReason};
use super::stream::{TextEnd, TextStream};
use super::{Item, OnBadLine};
use crate::{CorpusError, Document, Provenance};

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

    /// Size on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
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
    fn read(self, file: &Arc<Path>) -> Result<(Vec<u8>, Option<FileProblem>), CorpusError> {
        let mut text = TextStream::open(file, self.form)?;
        let mut bytes = Vec::new();
        // One byte more than a plain file has, so that it is read with its end.
        let mut target = usize::try_from(self.bytes).unwrap_or(usize::MAX).saturating_add(1);
        loop {
            match text.fill(&mut bytes, target)? {
                TextEnd::More => target = 2 * bytes.len(),
                TextEnd::EndOfFile => return Ok((bytes, None)),
                TextEnd::Break(problem) => return Ok((bytes, Some(problem))),
            }
        }
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

/// Cuts off a character of which only the first bytes are there.
fn drop_half_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}
