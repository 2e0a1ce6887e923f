//! The stage of exact duplicates: all but the first of equal texts go.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use corpus::Unit;
use rayon::prelude::*;

use crate::CurationError;
use crate::dedup::{BYTES_PER_TEXT, Copy, ExactIndex, HashRange};
use crate::documents::Documents;
use crate::filter::DropReason;
use crate::outcomes::Outcomes;
use crate::run::Run;
use crate::stages::{ArrowFile, ArrowFileWriter, u32_column};
use crate::stop::stop_if_asked;

/// Name of the stage.
const STAGE: &str = "exact duplicates";

/// Its file.
const FILE: &str = "copies.arrow";

/// Most ranges that hashes are divided into.
const MAX_RANGES: u32 = 1 << 16;

/// Drops all but the first of equal texts.
pub(crate) fn drop_copies(
    documents: &Documents,
    outcomes: &mut Outcomes,
    run: &mut Run<'_>,
) -> Result<(), CurationError> {
    if run.stages.replay::<()>(STAGE)?.is_none() {
        let found = find(documents, outcomes, run)?;
        let mut file = ArrowFileWriter::create(&run.stages.file(FILE), &schema())?;
        file.write(&rows(&found))?;
        let file = file.finish()?;
        run.stages.record(STAGE, vec![file], &())?;
    }
    for copy in copies(run)? {
        outcomes.drop(copy.document, DropReason::ExactDuplicate);
    }
    Ok(())
}

/// The copies that were found, in input order.
pub(crate) fn copies(run: &Run<'_>) -> Result<Vec<Copy>, CurationError> {
    let path = run.stages.file(FILE);
    let mut copies = Vec::new();
    for batch in ArrowFile::open(&path)?.batches() {
        let batch = batch?;
        let (documents, firsts) =
            (u32_column(&batch, "document", &path)?, u32_column(&batch, "first", &path)?);
        copies.extend(
            documents
                .values()
                .iter()
                .zip(firsts.values())
                .map(|(&document, &first)| Copy { document, first }),
        );
    }
    Ok(copies)
}

fn find(
    documents: &Documents,
    outcomes: &Outcomes,
    run: &Run<'_>,
) -> Result<Vec<Copy>, CurationError> {
    let threads = rayon::current_num_threads();
    // Half of it is for what is found.
    let budget = run.memory.for_passes(documents.len())? / 2;
    let at_once = outcomes.num_kept() as usize * BYTES_PER_TEXT * threads;
    let ranges = (at_once.div_ceil(budget).max(threads) as u32).next_power_of_two().min(MAX_RANGES);

    run.observer.begin(STAGE, Some(u64::from(outcomes.num_kept())), Unit::Documents);
    let found: Vec<Vec<Copy>> = HashRange::all(ranges)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|range| find_in(range, documents, outcomes, run))
        .collect::<Result<_, _>>()?;
    run.sample_memory();
    let mut copies: Vec<Copy> = found.concat();
    copies.par_sort_unstable_by_key(|copy| copy.document);
    run.observer.finish();
    Ok(copies)
}

fn find_in(
    range: HashRange,
    documents: &Documents,
    outcomes: &Outcomes,
    run: &Run<'_>,
) -> Result<Vec<Copy>, CurationError> {
    let mut index = ExactIndex::default();
    let mut copies = Vec::new();
    for segment in 0..documents.num_segments() {
        for (start, batch) in documents.batches(segment)? {
            stop_if_asked(run.observer)?;
            let mut in_range = 0;
            for (row, document) in (0..batch.len()).zip(start..) {
                let hash = batch.hash(row);
                if !range.holds(hash) || outcomes.reason(document).is_some() {
                    continue;
                }
                in_range += 1;
                let is_equal = |first: u32| -> Result<bool, CurationError> {
                    Ok(documents.document(first)?.text == batch.text(row))
                };
                let first = index.first_copy_or_insert(document, hash, is_equal)?;
                copies.extend(first.map(|first| Copy { document, first }));
            }
            run.observer.advance(in_range);
        }
    }
    Ok(copies)
}

fn schema() -> Schema {
    let column = |name: &str| Field::new(name, DataType::UInt32, false);
    Schema::new(vec![column("document"), column("first")])
}

fn rows(copies: &[Copy]) -> RecordBatch {
    let column = |of: fn(&Copy) -> u32| -> ArrayRef {
        Arc::new(copies.iter().map(of).collect::<UInt32Array>())
    };
    RecordBatch::try_new(Arc::new(schema()), vec![column(|it| it.document), column(|it| it.first)])
        .expect("two columns of the schema's type and of one length")
}
