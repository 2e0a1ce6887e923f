//! The rows of a block of a table, made into items.

use parquet::data_type::ByteArray;

use super::block::{Origin, Parsed};
use super::broken::{Break, Stop};
use super::reject::{Reject, RejectReason};
use super::{Item, OnBadLine, ParquetConfig};
use crate::{CorpusError, Document};

/// Some rows of a file, and why there are no more where there are not.
#[derive(Debug)]
pub(super) struct RowBlock {
    pub(super) rows: Vec<Row>,
    /// Rows of the file before the first.
    pub(super) rows_before: u64,
    pub(super) end: RowsEnd,
}

/// What stands behind a block of rows.
#[derive(Debug)]
pub(super) enum RowsEnd {
    More,
    EndOfFile,
    Break(Box<Break>),
}

/// What a row holds of what matters; `None` stands for `null`.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) text: Option<ByteArray>,
    pub(super) id: Option<Id>,
    pub(super) title: Option<ByteArray>,
}

/// The identifier of a row.
#[derive(Debug)]
pub(super) enum Id {
    Number(String),
    Text(ByteArray),
}

impl RowBlock {
    /// Whether nothing follows.
    pub(super) fn is_last(&self) -> bool {
        !matches!(self.end, RowsEnd::More)
    }

    /// What the rows hold, up to the first that stops the run.
    pub(super) fn parse(
        self,
        config: &ParquetConfig,
        origin: &Origin,
        on_bad_line: OnBadLine,
    ) -> Parsed {
        let mut items = Vec::with_capacity(self.rows.len());
        for (row, number) in self.rows.into_iter().zip(self.rows_before + 1..) {
            match row.item(number, config, origin, on_bad_line) {
                Ok(item) => items.push(item),
                Err(error) => return Parsed::stopped(items, error.into()),
            }
        }
        match self.end {
            RowsEnd::More | RowsEnd::EndOfFile => Parsed::whole(items),
            RowsEnd::Break(at) => Parsed::stopped(items, Stop::Broken(at)),
        }
    }
}

impl Row {
    fn item(
        self,
        number: u64,
        config: &ParquetConfig,
        origin: &Origin,
        on_bad_line: OnBadLine,
    ) -> Result<Item, CorpusError> {
        let fault = self.first_fault(config);
        let id = self.id.map(|id| match id {
            Id::Number(id) => id,
            Id::Text(id) => replaced(&id),
        });
        let provenance = origin.provenance(Some(number), id);
        let reject = fault.map(|(column, offset)| Reject {
            provenance: provenance.clone(),
            column: Some(column.to_owned()),
            byte_offset: offset as u64,
            reason: RejectReason::InvalidUtf8,
        });
        let reject = match (reject, on_bad_line) {
            (Some(reject), OnBadLine::Fail) => {
                return Err(CorpusError::BadRecord(Box::new(reject)));
            }
            (Some(reject), OnBadLine::Skip) => return Ok(Item::Rejected(reject)),
            (reject, _) => reject,
        };
        let Some(text) = self.text else { return Ok(Item::NullText(provenance)) };
        let title = self.title.as_ref().map(replaced);
        let document = Document { provenance, title, text: replaced(&text) };
        Ok(match reject {
            Some(reject) => Item::Repaired(document, reject),
            None => Item::Document(document),
        })
    }

    /// The first column whose string is no UTF-8, and the offset of the fault in it.
    fn first_fault<'c>(&self, config: &'c ParquetConfig) -> Option<(&'c str, usize)> {
        let ParquetConfig { text_column, id_column, title_column } = config;
        let id = match &self.id {
            Some(Id::Text(id)) => Some(id),
            Some(Id::Number(_)) | None => None,
        };
        [
            (Some(text_column), self.text.as_ref()),
            (Some(id_column), id),
            (title_column.as_ref(), self.title.as_ref()),
        ]
        .into_iter()
        .find_map(|(column, bytes)| {
            let error = std::str::from_utf8(bytes?.data()).err()?;
            Some((column?.as_str(), error.valid_up_to()))
        })
    }
}

/// The string that `bytes` are, with U+FFFD for what is no character.
fn replaced(bytes: &ByteArray) -> String {
    String::from_utf8_lossy(bytes.data()).into_owned()
}
