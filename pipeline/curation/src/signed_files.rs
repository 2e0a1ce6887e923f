//! Shingle sets and signatures in files of the stage folder, read through the memory map.
//!
//! | column | type | |
//! |--------|------|-|
//! | `shingles` | list of u64 | the set, ascending |
//! | `signature` | list of u32, of one length | see [`sign`](sign()) |
//!
//! A row for each document that is compared, in input order, in the batches of its segment. Sets
//! take 8 bytes per distinct shingle, about 1.4 times the size of English text.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    AsArray, FixedSizeListArray, LargeListArray, RecordBatch, UInt32Array, UInt64Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type, UInt64Type};
use arrow::error::ArrowError;

use crate::CurationError;
use crate::dedup::{NearDuplicateRule, SignedCorpus, sign};
use crate::stages::ArrowFile;

/// The signed documents of a corpus, numbered by their places among those that are compared.
#[derive(Debug)]
pub(crate) struct SignedFiles {
    batches: Vec<SignedBatch>,
    /// Place of the first document of each batch, and one past the last.
    starts: Vec<u32>,
    /// For every stretch of [`HINT_DOCUMENTS`] places, the batch that holds its first.
    hints: Vec<u32>,
}

/// Places that share a hint: a batch is found by a look at its hint and a step or two.
const HINT_DOCUMENTS: u32 = 256;

#[derive(Debug)]
struct SignedBatch {
    bins: usize,
    signatures: ScalarBuffer<u32>,
    /// Where in `shingles` the set of each document begins, and the end of the last.
    bounds: OffsetBuffer<i64>,
    shingles: ScalarBuffer<u64>,
}

impl SignedFiles {
    /// Opens files in order.
    pub(crate) fn open(
        paths: impl IntoIterator<Item = std::path::PathBuf>,
    ) -> Result<Self, CurationError> {
        let mut files = Self { batches: Vec::new(), starts: vec![0], hints: Vec::new() };
        for path in paths {
            for batch in ArrowFile::open(&path)?.batches() {
                files.add(&batch?, &path)?;
            }
        }
        Ok(files)
    }

    fn add(&mut self, batch: &RecordBatch, path: &Path) -> Result<(), CurationError> {
        let signed =
            SignedBatch::new(batch).ok_or_else(|| CurationError::stage_form(path, "signatures"))?;
        let end = self.len() + batch.num_rows() as u32;
        let number = self.batches.len() as u32;
        self.hints.resize(end.div_ceil(HINT_DOCUMENTS) as usize, number);
        self.batches.push(signed);
        self.starts.push(end);
        Ok(())
    }

    /// The batch of a document, and the document's row in it.
    #[inline]
    fn find(&self, place: u32) -> (&SignedBatch, usize) {
        let mut batch = self.hints[(place / HINT_DOCUMENTS) as usize] as usize;
        while self.starts[batch + 1] <= place {
            batch += 1;
        }
        (&self.batches[batch], (place - self.starts[batch]) as usize)
    }
}

impl SignedCorpus for SignedFiles {
    fn len(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn num_shingles(&self, document: u32) -> usize {
        self.shingles(document).len()
    }

    fn shingles(&self, document: u32) -> &[u64] {
        let (batch, row) = self.find(document);
        &batch.shingles[batch.bounds[row] as usize..batch.bounds[row + 1] as usize]
    }

    fn signature(&self, document: u32) -> &[u32] {
        let (batch, row) = self.find(document);
        &batch.signatures[row * batch.bins..(row + 1) * batch.bins]
    }
}

impl SignedBatch {
    fn new(batch: &RecordBatch) -> Option<Self> {
        let sets: &LargeListArray = batch.column_by_name("shingles")?.as_list_opt::<i64>()?;
        let signatures: &FixedSizeListArray =
            batch.column_by_name("signature")?.as_fixed_size_list_opt()?;
        Some(Self {
            bins: usize::try_from(signatures.value_length()).ok()?,
            signatures: signatures.values().as_primitive_opt::<UInt32Type>()?.values().clone(),
            bounds: sets.offsets().clone(),
            shingles: sets.values().as_primitive_opt::<UInt64Type>()?.values().clone(),
        })
    }
}

/// Form of the files for signatures of `bins` numbers.
pub(crate) fn schema(bins: usize) -> Schema {
    let item = |of| Arc::new(Field::new_list_field(of, false));
    Schema::new(vec![
        Field::new("shingles", DataType::LargeList(item(DataType::UInt64)), false),
        Field::new(
            "signature",
            DataType::FixedSizeList(item(DataType::UInt32), bins as i32),
            false,
        ),
    ])
}

/// Signs some texts; a row each.
pub(crate) fn rows<'t>(
    texts: impl Iterator<Item = &'t str>,
    rule: &NearDuplicateRule,
) -> Result<RecordBatch, ArrowError> {
    let bins = rule.bins();
    let (mut sets, mut lengths, mut signatures) = (Vec::new(), Vec::new(), Vec::new());
    let mut set = Vec::new();
    for text in texts {
        let start = signatures.len();
        signatures.resize(start + bins, 0);
        sign(text, rule, &mut set, &mut signatures[start..]);
        sets.extend_from_slice(&set);
        lengths.push(set.len());
    }
    let schema = Arc::new(schema(bins));
    let item = |column: usize| match schema.field(column).data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Arc::clone(item),
        other => unreachable!("a column of lists, not of {other}"),
    };
    let bounds = OffsetBuffer::from_lengths(lengths.iter().copied());
    let sets = LargeListArray::try_new(item(0), bounds, Arc::new(UInt64Array::from(sets)), None)?;
    let signatures = FixedSizeListArray::try_new_with_length(
        item(1),
        bins as i32,
        Arc::new(UInt32Array::from(signatures)),
        None,
        lengths.len(),
    )?;
    RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(sets), Arc::new(signatures)])
}
