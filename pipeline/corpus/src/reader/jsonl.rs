//! Plain JSONL through a memory map: no line is copied but its text.

use std::path::Path;
use std::sync::Arc;

use super::record::{self, Fault, Record};
use super::reject::Reject;
use super::{Item, JsonlConfig, OnBadLine};
use crate::mapped::MappedFile;
use crate::{CorpusError, Document, Provenance};

/// First bytes of files that hold JSONL only after unpacking.
const PACKED: [(&[u8], &str); 3] =
    [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "Zstandard"), (b"PAR1", "Parquet")];

/// The records of one file, in order.
#[derive(Debug)]
pub(super) struct JsonlReader {
    bytes: MappedFile,
    /// Offset of the next line.
    position: usize,
    /// Lines before the next.
    lines: u64,
    source: Arc<str>,
    file: Arc<Path>,
    keys: Arc<JsonlConfig>,
}

impl JsonlReader {
    pub(super) fn open(
        source: Arc<str>,
        file: Arc<Path>,
        keys: Arc<JsonlConfig>,
    ) -> Result<Self, CorpusError> {
        let bytes = MappedFile::open(&file)?;
        if let Some((_, form)) = PACKED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            return Err(CorpusError::NotPlainJsonl {
                path: file.to_path_buf(),
                found: format!("its first bytes are those of {form}"),
                remedy: "Unpack it first",
            });
        }
        Ok(Self { bytes, position: 0, lines: 0, source, file, keys })
    }

    /// Bytes of the lines that were read.
    pub(super) fn position(&self) -> u64 {
        self.position as u64
    }

    /// The next record, or `None` at the end of the file.
    pub(super) fn next_item(
        &mut self,
        on_bad_line: OnBadLine,
    ) -> Option<Result<Item, CorpusError>> {
        let start = self.position;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let line = memchr::memchr(b'\n', rest).map_or(rest, |end| &rest[..end]);
        self.position = (start + line.len() + 1).min(self.bytes.len());
        self.lines += 1;

        let fault = match record::parse(line, &self.keys) {
            Ok(record) => return Some(Ok(self.item(record))),
            Err(fault) => fault,
        };
        match on_bad_line {
            OnBadLine::Fail => {
                Some(Err(CorpusError::BadRecord(Box::new(self.reject(start, fault)))))
            }
            OnBadLine::Skip => Some(Ok(Item::Rejected(self.reject(start, fault)))),
            OnBadLine::Replace => match record::parse_replacing(line, &self.keys) {
                Ok(record) => Some(Ok(self.repaired(start, record, fault))),
                Err(lasting) => Some(Ok(Item::Rejected(self.reject(start, lasting)))),
            },
        }
    }

    fn item(&self, record: Record) -> Item {
        let provenance = self.provenance(record.id);
        match record.text {
            Some(text) => Item::Document(Document { provenance, title: record.title, text }),
            None => Item::NullText(provenance),
        }
    }

    /// A record that reads after replacing; one without text lost nothing by it.
    fn repaired(&self, start: usize, record: Record, fault: Fault) -> Item {
        match self.item(record) {
            Item::Document(document) => {
                let mut repair = self.reject(start, fault);
                repair.provenance = document.provenance.clone();
                Item::Repaired(document, repair)
            }
            other => other,
        }
    }

    fn reject(&self, start: usize, fault: Fault) -> Reject {
        Reject {
            provenance: self.provenance(None),
            byte_offset: (start + fault.offset) as u64,
            reason: fault.reason,
        }
    }

    fn provenance(&self, id: Option<String>) -> Provenance {
        Provenance {
            source: self.source.clone(),
            file: self.file.clone(),
            line: Some(self.lines),
            id,
        }
    }
}
