//! A run of documents as a table: one row each, dropped ones among them.
//!
//! | column | type | |
//! |--------|------|-|
//! | `file` | u32 | number of the input file |
//! | `line` | u64, nullable | line or row in it, from 1 |
//! | `id`, `title` | string, nullable | as the record has them |
//! | `reason` | string, nullable | why reading dropped the document; it has no text then |
//! | `text_bytes` | u64 | size of the text, also of one that is not here |
//! | `text` | binary | UTF-8 |
//! | `hash` | 16 bytes | xxh3-128 of the text, little-endian |
//! | `tokens` | list of u32, nullable | its tokens, where a filter had to make them |

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, LargeBinaryArray,
    LargeBinaryBuilder, LargeListArray, LargeListBuilder, RecordBatch, StringArray, StringBuilder,
    UInt32Array, UInt32Builder, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
use corpus::{Document, FileSummary};

use crate::CurationError;
use crate::dedup::text_hash;
use crate::filter::DropReason;
use crate::stages::{ArrowFile, ArrowFileWriter};

/// A document with what reading found about it.
#[derive(Debug)]
pub(crate) struct JudgedDocument {
    /// Number of its input file.
    pub(crate) file: u32,
    pub(crate) document: Document,
    /// Why it goes, where a filter drops it.
    pub(crate) reason: Option<DropReason>,
    /// Its tokens, where a filter had to make them.
    pub(crate) tokens: Option<Vec<u32>>,
}

/// A document that lies in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredDocument<'s> {
    pub(crate) file: u32,
    pub(crate) line: Option<u64>,
    pub(crate) id: Option<&'s str>,
    pub(crate) title: Option<&'s str>,
    /// Size of the text as it was read.
    pub(crate) text_bytes: u64,
    /// Empty where reading dropped the document.
    pub(crate) text: &'s str,
    pub(crate) tokens: Option<&'s [u32]>,
}

/// Writes one segment.
pub(crate) struct SegmentWriter {
    file: ArrowFileWriter,
}

impl SegmentWriter {
    /// Begins the segment that will be the file `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, CurationError> {
        Ok(Self { file: ArrowFileWriter::create(path, &schema())? })
    }

    /// Adds documents behind those that are there.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), CurationError> {
        self.file.write(batch)
    }

    /// Completes the segment.
    pub(crate) fn finish(self) -> Result<FileSummary, CurationError> {
        self.file.finish()
    }
}

fn schema() -> SchemaRef {
    let tokens = Field::new_list_field(DataType::UInt32, false);
    Arc::new(Schema::new(vec![
        Field::new("file", DataType::UInt32, false),
        Field::new("line", DataType::UInt64, true),
        Field::new("id", DataType::Utf8, true),
        Field::new("title", DataType::Utf8, true),
        Field::new("reason", DataType::Utf8, true),
        Field::new("text_bytes", DataType::UInt64, false),
        Field::new("text", DataType::LargeBinary, false),
        Field::new("hash", DataType::FixedSizeBinary(16), false),
        Field::new("tokens", DataType::LargeList(Arc::new(tokens)), true),
    ]))
}

impl JudgedDocument {
    /// Bytes of its texts: the text itself, title and identifier.
    pub(crate) fn bytes(&self) -> usize {
        let Document { provenance, title, text } = &self.document;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        text.len() + length(title) + length(&provenance.id)
    }

    /// Some documents as rows of a segment. Those that are dropped lose their texts.
    pub(crate) fn rows(documents: &[Self]) -> Result<RecordBatch, ArrowError> {
        let kept_text = |it: &Self| it.reason.is_none().then_some(it.document.text.len());
        let text_bytes = documents.iter().filter_map(kept_text).sum();
        let mut id = StringBuilder::new();
        let mut title = StringBuilder::new();
        let mut reason = StringBuilder::new();
        let mut text = LargeBinaryBuilder::with_capacity(documents.len(), text_bytes);
        let mut hash = FixedSizeBinaryBuilder::with_capacity(documents.len(), 16);
        let item = Field::new_list_field(DataType::UInt32, false);
        let mut tokens = LargeListBuilder::new(UInt32Builder::new()).with_field(item);
        for it in documents {
            let Document { provenance, title: its_title, text: its_text } = &it.document;
            id.append_option(provenance.id.as_deref());
            reason.append_option(it.reason.map(DropReason::name));
            if it.reason.is_some() {
                title.append_null();
                text.append_value([]);
                hash.append_value([0; 16])?;
                tokens.append_null();
                continue;
            }
            title.append_option(its_title.as_deref());
            text.append_value(its_text);
            hash.append_value(text_hash(its_text).to_le_bytes())?;
            match &it.tokens {
                Some(its_tokens) => {
                    tokens.values().append_slice(its_tokens);
                    tokens.append(true);
                }
                None => tokens.append_null(),
            }
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(documents.iter().map(|it| it.file).collect::<UInt32Array>()),
            Arc::new(
                documents.iter().map(|it| it.document.provenance.line).collect::<UInt64Array>(),
            ),
            Arc::new(id.finish()),
            Arc::new(title.finish()),
            Arc::new(reason.finish()),
            Arc::new(
                documents.iter().map(|it| it.document.text.len() as u64).collect::<UInt64Array>(),
            ),
            Arc::new(text.finish()),
            Arc::new(hash.finish()),
            Arc::new(tokens.finish()),
        ];
        RecordBatch::try_new(schema(), columns)
    }
}

/// A segment that is read.
#[derive(Debug)]
pub(super) struct Segment {
    /// Number of the first document of each batch, within the segment.
    starts: Vec<u32>,
    batches: Vec<StoredBatch>,
}

impl Segment {
    pub(super) fn open(path: &Path) -> Result<Self, CurationError> {
        let mut segment = Self { starts: Vec::new(), batches: Vec::new() };
        let mut start = 0;
        for batch in ArrowFile::open(path)?.batches() {
            let batch = batch?;
            segment.starts.push(start);
            start += batch.num_rows() as u32;
            segment.batches.push(
                StoredBatch::new(&batch)
                    .ok_or_else(|| CurationError::stage_form(path, "documents"))?,
            );
        }
        Ok(segment)
    }

    /// The batches, each with the number of its first document within the segment.
    pub(super) fn batches(&self) -> impl Iterator<Item = (u32, &StoredBatch)> {
        self.starts.iter().copied().zip(&self.batches)
    }

    /// The document of this number within the segment.
    pub(super) fn document(&self, number: u32) -> StoredDocument<'_> {
        let batch = self.starts.partition_point(|&start| start <= number) - 1;
        self.batches[batch].document((number - self.starts[batch]) as usize)
    }
}

/// Some consecutive documents of a segment.
#[derive(Debug)]
pub(crate) struct StoredBatch {
    file: UInt32Array,
    line: UInt64Array,
    id: StringArray,
    title: StringArray,
    reason: StringArray,
    text_bytes: UInt64Array,
    text: LargeBinaryArray,
    hash: FixedSizeBinaryArray,
    tokens: LargeListArray,
}

impl StoredBatch {
    fn new(batch: &RecordBatch) -> Option<Self> {
        let column = |name| batch.column_by_name(name);
        Some(Self {
            file: column("file")?.as_primitive_opt::<UInt32Type>()?.clone(),
            line: column("line")?.as_primitive_opt::<UInt64Type>()?.clone(),
            id: column("id")?.as_string_opt::<i32>()?.clone(),
            title: column("title")?.as_string_opt::<i32>()?.clone(),
            reason: column("reason")?.as_string_opt::<i32>()?.clone(),
            text_bytes: column("text_bytes")?.as_primitive_opt::<UInt64Type>()?.clone(),
            text: column("text")?.as_binary_opt::<i64>()?.clone(),
            hash: column("hash")?.as_fixed_size_binary_opt()?.clone(),
            tokens: column("tokens")?.as_list_opt::<i64>()?.clone(),
        })
    }

    /// Number of documents.
    pub(crate) fn len(&self) -> usize {
        self.file.len()
    }

    /// Bytes of all texts.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text.value_data().len() as u64
    }

    /// The document in a row.
    pub(crate) fn document(&self, row: usize) -> StoredDocument<'_> {
        let tokens = self.tokens.is_valid(row).then(|| {
            let range = self.tokens.value_offsets()[row] as usize
                ..self.tokens.value_offsets()[row + 1] as usize;
            &self.tokens.values().as_primitive::<UInt32Type>().values()[range]
        });
        StoredDocument {
            file: self.file.value(row),
            line: self.line.is_valid(row).then(|| self.line.value(row)),
            id: self.id.is_valid(row).then(|| self.id.value(row)),
            title: self.title.is_valid(row).then(|| self.title.value(row)),
            text_bytes: self.text_bytes.value(row),
            text: self.text(row),
            tokens,
        }
    }

    /// The text of the document in a row.
    pub(crate) fn text(&self, row: usize) -> &str {
        std::str::from_utf8(self.text.value(row))
            .expect("a segment holds what was written as text, and its checksum was compared")
    }

    /// The hash of the text in a row.
    pub(crate) fn hash(&self, row: usize) -> u128 {
        let bytes = self.hash.value(row).try_into().expect("the column's type has 16 bytes");
        u128::from_le_bytes(bytes)
    }

    /// Why reading dropped the document in a row.
    pub(crate) fn reason(&self, row: usize) -> Option<DropReason> {
        let name = self.reason.is_valid(row).then(|| self.reason.value(row))?;
        Some(DropReason::of_name(name).expect("a segment holds the reasons of its own version"))
    }
}
