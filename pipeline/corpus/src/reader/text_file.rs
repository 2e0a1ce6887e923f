//! A file that is one document.

use std::path::Path;
use std::sync::Arc;

use super::record::without_mark;
use super::reject::{Reject, RejectReason};
use super::{Item, OnBadLine};
use crate::{CorpusError, Document, Provenance};

/// Reads the file as one document, without the byte order mark that it may begin with.
pub(super) fn read(
    source: Arc<str>,
    file: Arc<Path>,
    on_bad_line: OnBadLine,
) -> Result<Item, CorpusError> {
    let mut bytes = std::fs::read(&file).map_err(CorpusError::io("read", &file))?;
    let mark = bytes.len() - without_mark(&bytes).len();
    bytes.drain(..mark);
    let provenance = Provenance { source, file, line: None, id: None };
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(Item::Document(Document { provenance, title: None, text })),
        Err(error) => error,
    };
    let byte_offset = (mark + error.utf8_error().valid_up_to()) as u64;
    let reject =
        Reject { provenance: provenance.clone(), byte_offset, reason: RejectReason::InvalidUtf8 };
    match on_bad_line {
        OnBadLine::Fail => Err(CorpusError::BadRecord(Box::new(reject))),
        OnBadLine::Skip => Ok(Item::Rejected(reject)),
        OnBadLine::Replace => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Ok(Item::Repaired(Document { provenance, title: None, text }, reject))
        }
    }
}
