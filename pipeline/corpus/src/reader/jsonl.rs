//! The records of a JSONL file, one line each.

use std::path::Path;
use std::sync::Arc;

use super::broken::{Break, FileProblem, Stop};
use super::form::Form;
use super::lines::{LineEnd, Lines};
use super::record::{self, Fault, Record};
use super::reject::Reject;
use super::{Item, JsonlConfig, OnBadLine};
use crate::{CorpusError, Document, Provenance};

/// The records of one file, in order.
#[derive(Debug)]
pub(super) struct JsonlReader {
    lines: Lines,
    keys: Arc<JsonlConfig>,
    origin: Origin,
}

impl JsonlReader {
    pub(super) fn open(
        source: Arc<str>,
        file: Arc<Path>,
        form: Form,
        keys: Arc<JsonlConfig>,
    ) -> Result<Self, CorpusError> {
        let lines = Lines::open(&file, form)?;
        Ok(Self { lines, keys, origin: Origin { source, file, line: 0 } })
    }

    /// Bytes of the file on disk that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    /// The next record, or `None` at the end of the file.
    pub(super) fn next_item(&mut self, on_bad_line: OnBadLine) -> Result<Option<Item>, Stop> {
        self.origin.line += 1;
        let in_line = self.origin.line;
        let line = match self.lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(None),
            Err(stop) => return Err(in_line_of(stop, in_line)),
        };
        let fault = match record::parse(line.bytes, &self.keys) {
            Ok(record) => return Ok(Some(self.origin.item(record))),
            Err(fault) => fault,
        };
        match line.end {
            // The rest of the line is lost, so nothing can be said about the record but why the
            // file broke.
            LineEnd::Break => {
                return self
                    .lines
                    .next_line()
                    .map(|_| None)
                    .map_err(|stop| in_line_of(stop, in_line));
            }
            LineEnd::EndOfFile if record::breaks_off(line.bytes, &self.keys) => {
                return Err(Stop::from(Break {
                    byte_offset: line.offset + line.bytes.len() as u64,
                    line: Some(in_line),
                    problem: FileProblem::HalfRecord,
                    salvaged: None,
                }));
            }
            LineEnd::Feed | LineEnd::EndOfFile => {}
        }
        let reject = |fault| self.origin.reject(line.offset, fault);
        match on_bad_line {
            OnBadLine::Fail => Err(CorpusError::BadRecord(Box::new(reject(fault))).into()),
            OnBadLine::Skip => Ok(Some(Item::Rejected(reject(fault)))),
            OnBadLine::Replace => Ok(Some(match record::parse_replacing(line.bytes, &self.keys) {
                Ok(record) => self.origin.repaired(record, reject(fault)),
                Err(lasting) => Item::Rejected(reject(lasting)),
            })),
        }
    }
}

/// `stop` with the line at which it was met.
fn in_line_of(stop: Stop, line: u64) -> Stop {
    match stop {
        Stop::Broken(at) => Stop::from(Break { line: Some(line), ..*at }),
        failed @ Stop::Failed(_) => failed,
    }
}

/// Where the record that is read stands.
#[derive(Debug)]
struct Origin {
    source: Arc<str>,
    file: Arc<Path>,
    line: u64,
}

impl Origin {
    fn item(&self, record: Record) -> Item {
        let provenance = self.provenance(record.id);
        match record.text {
            Some(text) => Item::Document(Document { provenance, title: record.title, text }),
            None => Item::NullText(provenance),
        }
    }

    /// A record that reads after replacing; one without text lost nothing by it.
    fn repaired(&self, record: Record, mut repair: Reject) -> Item {
        match self.item(record) {
            Item::Document(document) => {
                repair.provenance = document.provenance.clone();
                Item::Repaired(document, repair)
            }
            other => other,
        }
    }

    fn reject(&self, line_offset: u64, fault: Fault) -> Reject {
        Reject {
            provenance: self.provenance(None),
            column: None,
            byte_offset: line_offset + fault.offset as u64,
            reason: fault.reason,
        }
    }

    fn provenance(&self, id: Option<String>) -> Provenance {
        Provenance {
            source: self.source.clone(),
            file: self.file.clone(),
            line: Some(self.line),
            id,
        }
    }
}
