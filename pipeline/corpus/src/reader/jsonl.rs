//! The records of a block of lines.

use super::block::{Origin, Parsed};
use super::broken::{Break, FileProblem};
use super::lines::LineBlock;
use super::record::{Fault, Record, RecordParser};
use super::reject::Reject;
use super::stream::TextEnd;
use super::{Item, JsonlConfig, OnBadLine};
use crate::{CorpusError, Document};

impl LineBlock {
    /// What its lines hold, up to the first that stops the run.
    pub(super) fn parse(
        &self,
        keys: &JsonlConfig,
        origin: &Origin,
        on_bad_line: OnBadLine,
    ) -> Parsed {
        let mut records = RecordParser::new(keys);
        let (mut items, mut start, mut line_number) = (Vec::new(), 0, self.lines_before);
        while start < self.bytes.len() {
            line_number += 1;
            let rest = &self.bytes[start..];
            let feed = memchr::memchr(b'\n', rest);
            let bytes = feed.map_or(rest, |feed| &rest[..feed]);
            let line =
                Line { bytes, offset: self.offset + start as u64, number: line_number, origin };
            match records.parse(bytes) {
                Ok(record) => items.push(line.item(record)),
                Err(_) if feed.is_none() && matches!(self.end, TextEnd::Break(_)) => {
                    // The rest of the line is lost, so that nothing can be said about the record
                    // but why the file broke.
                    line_number -= 1;
                }
                Err(_) if feed.is_none() && records.breaks_off(bytes) => {
                    let broken = self.break_at(line_number, FileProblem::HalfRecord);
                    return Parsed::stopped(items, broken.into());
                }
                Err(fault) => match line.treat(fault, &mut records, on_bad_line) {
                    Ok(item) => items.push(item),
                    Err(error) => return Parsed::stopped(items, error.into()),
                },
            }
            start += bytes.len() + 1;
        }
        match &self.end {
            TextEnd::More | TextEnd::EndOfFile => Parsed::whole(items),
            TextEnd::Break(problem) => {
                Parsed::stopped(items, self.break_at(line_number + 1, problem.clone()).into())
            }
        }
    }

    /// The break at the end of the block, in the line of this number.
    fn break_at(&self, line: u64, problem: FileProblem) -> Break {
        let byte_offset = self.offset + self.bytes.len() as u64;
        Break { byte_offset, line: Some(line), problem, salvaged: None }
    }
}

/// A line without its line feed.
struct Line<'b> {
    bytes: &'b [u8],
    /// Offset of the line in the text.
    offset: u64,
    number: u64,
    origin: &'b Origin,
}

impl Line<'_> {
    /// What is made of a line with a fault.
    fn treat(
        &self,
        fault: Fault,
        records: &mut RecordParser<'_>,
        on_bad_line: OnBadLine,
    ) -> Result<Item, CorpusError> {
        match on_bad_line {
            OnBadLine::Fail => Err(CorpusError::BadRecord(Box::new(self.reject(fault)))),
            OnBadLine::Skip => Ok(Item::Rejected(self.reject(fault))),
            OnBadLine::Replace => Ok(match records.parse_replacing(self.bytes) {
                Ok(record) => self.repaired(record, fault),
                Err(lasting) => Item::Rejected(self.reject(lasting)),
            }),
        }
    }

    fn item(&self, record: Record) -> Item {
        let provenance = self.origin.provenance(Some(self.number), record.id);
        match record.text {
            Some(text) => Item::Document(Document { provenance, title: record.title, text }),
            None => Item::NullText(provenance),
        }
    }

    /// A record that reads after replacing; one without text lost nothing by it.
    fn repaired(&self, record: Record, fault: Fault) -> Item {
        match self.item(record) {
            Item::Document(document) => {
                let provenance = document.provenance.clone();
                Item::Repaired(document, Reject { provenance, ..self.reject(fault) })
            }
            other => other,
        }
    }

    fn reject(&self, fault: Fault) -> Reject {
        Reject {
            provenance: self.origin.provenance(Some(self.number), None),
            column: None,
            byte_offset: self.offset + fault.offset as u64,
            reason: fault.reason,
        }
    }
}
