//! The stages of near-duplicates: documents are signed, segment by segment, and then decided.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use corpus::{FileSummary, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::CurationError;
use crate::dedup::{
    Candidates, HotBucket, HotBuckets, Jaccard, NearDuplicateRule, Removal, Search, SignedCorpus,
    Stretch, StretchPlace,
};
use crate::documents::{Documents, StoredBatch};
use crate::filter::DropReason;
use crate::outcomes::Outcomes;
use crate::run::Run;
use crate::signed_files::{self, SignedFiles};
use crate::stages::{ArrowFile, ArrowFileWriter, u32_column};
use crate::stop::stop_if_asked;

/// Name of the stage that makes signatures.
const SIGN: &str = "sign documents";

/// Name of the stage that decides.
const DECIDE: &str = "near-duplicates";

/// Batches of documents in a round, for each thread: a batch is signed by one of them.
const ROUND_BATCHES_PER_THREAD: usize = 2;

/// A stretch in the journal; its removals are in a file.
#[derive(Debug, Serialize, Deserialize)]
struct DecidedStretch {
    place: StretchPlace,
    hot_buckets: Vec<HotBucket>,
    hot_bucket_time: std::time::Duration,
}

/// What the search spent on buckets with many members, and what it found.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// Its removals, a file for each stretch, with the pass that it belongs to.
    stretches: Vec<(u32, PathBuf)>,
    pub(crate) hot_buckets: Vec<HotBucket>,
    pub(crate) hot_bucket_time: std::time::Duration,
}

/// Drops near-duplicates of what is kept.
pub(crate) fn drop_near_duplicates(
    rule: &NearDuplicateRule,
    documents: &Documents,
    outcomes: &mut Outcomes,
    run: &mut Run<'_>,
) -> Result<Decided, CurationError> {
    let signed = sign(rule, documents, outcomes, run)?;
    let index_bytes = index_bytes(rule, signed.len(), run.memory.for_passes(documents.len())?);
    let numbers: Vec<u32> = outcomes.kept().collect();
    let decided = decide(rule, &signed, &numbers, index_bytes, run)?;
    decided.for_each_removal(|removal| {
        outcomes.drop(removal.document, DropReason::NearDuplicate);
    })?;
    Ok(decided)
}

/// How much the index of the search may hold. No more than all documents take: then a run that goes
/// on under another limit, where both hold them all, goes on with the same index.
fn index_bytes(rule: &NearDuplicateRule, documents: u32, budget: usize) -> u64 {
    match rule.candidates {
        Candidates::Bands(layout) => {
            (budget as u64).min(u64::from(documents) * (32 * layout.bands as u64 + 256))
        }
        // Beside its index the exact method holds a table of counts, an eighth of its size.
        Candidates::Exact => budget as u64 / 9 * 8,
    }
}

/// Makes the shingle sets and signatures of all documents that are in.
fn sign(
    rule: &NearDuplicateRule,
    documents: &Documents,
    outcomes: &Outcomes,
    run: &mut Run<'_>,
) -> Result<SignedFiles, CurationError> {
    let bytes = (0..documents.num_segments())
        .map(|segment| {
            Ok(documents.batches(segment)?.map(|(_, batch)| batch.text_bytes()).sum::<u64>())
        })
        .collect::<Result<Vec<u64>, CurationError>>()?;
    run.observer.begin(SIGN, Some(bytes.iter().sum()), Unit::Bytes);
    let file_of = |segment: usize| format!("signatures-{segment:05}.arrow");
    for (segment, &bytes) in bytes.iter().enumerate() {
        if run.stages.replay::<()>(SIGN)?.is_some() {
            run.observer.skip(bytes);
            continue;
        }
        let path = run.stages.file(&file_of(segment));
        let file = sign_segment(rule, documents, outcomes, segment, &path, run)?;
        run.stages.record(SIGN, vec![file], &())?;
    }
    run.observer.finish();
    SignedFiles::open((0..documents.num_segments()).map(|it| run.stages.file(&file_of(it))))
}

/// Signs a segment, a round of batches at a time: while one is signed, the one before is written.
fn sign_segment(
    rule: &NearDuplicateRule,
    documents: &Documents,
    outcomes: &Outcomes,
    segment: usize,
    path: &Path,
    run: &Run<'_>,
) -> Result<FileSummary, CurationError> {
    let schema = signed_files::schema(rule.bins());
    let mut file = ArrowFileWriter::create(path, &schema)?;
    let mut unwritten: Vec<RecordBatch> = Vec::new();
    let batches: Vec<(u32, &StoredBatch)> = documents.batches(segment)?.collect();
    let round = ROUND_BATCHES_PER_THREAD * rayon::current_num_threads();
    for batches in batches.chunks(round) {
        let sign = || {
            batches
                .par_iter()
                .map(|&(start, batch)| {
                    stop_if_asked(run.observer)?;
                    let kept = kept_rows(batch, start, outcomes);
                    signed_files::rows(kept.iter().map(|&row| batch.text(row)), rule)
                        .map_err(|error| CurationError::stage_file(path)(error))
                })
                .collect::<Result<Vec<_>, CurationError>>()
        };
        let write = || unwritten.drain(..).try_for_each(|batch| file.write(&batch));
        let (signed, written) = rayon::join(sign, write);
        written?;
        unwritten = signed?;
        run.observer.advance(batches.iter().map(|(_, batch)| batch.text_bytes()).sum());
        run.sample_memory();
    }
    unwritten.drain(..).try_for_each(|batch| file.write(&batch))?;
    file.finish()
}

/// The rows of a batch whose documents are in.
pub(crate) fn kept_rows(batch: &StoredBatch, start: u32, outcomes: &Outcomes) -> Vec<usize> {
    (0..batch.len()).filter(|&row| outcomes.reason(start + row as u32).is_none()).collect()
}

/// Decides about all documents; `numbers` are those by which the input has them.
fn decide(
    rule: &NearDuplicateRule,
    signed: &SignedFiles,
    numbers: &[u32],
    index_bytes: u64,
    run: &mut Run<'_>,
) -> Result<Decided, CurationError> {
    let file_of = |stretch: usize| format!("near-duplicates-{stretch:05}.arrow");
    let mut search = Search::new(signed, rule, index_bytes);
    let mut decided = Decided::default();
    let mut hot_buckets = HotBuckets::default();
    run.observer.begin(DECIDE, Some(u64::from(signed.len())), Unit::Documents);

    for earlier in usable(run, signed.len(), index_bytes)? {
        let path = run.stages.file(&file_of(decided.stretches.len()));
        let stretch = Stretch {
            place: earlier.place,
            removed: removals(&path)?
                .map(|removal| removal.in_places(numbers))
                .collect::<Option<_>>()
                .ok_or_else(|| CurationError::stage_form(&path, "removals"))?,
            hot_buckets: earlier.hot_buckets,
            hot_bucket_time: earlier.hot_bucket_time,
        };
        search.restore(&stretch);
        decided.add(&stretch, path, &mut hot_buckets);
    }
    run.observer.skip(search.decided());

    while let Some(stretch) = search.next_stretch(run.observer)? {
        let path = run.stages.file(&file_of(decided.stretches.len()));
        let file = write_removals(&path, &stretch.removed, numbers)?;
        let entry = DecidedStretch {
            place: stretch.place.clone(),
            hot_buckets: stretch.hot_buckets.clone(),
            hot_bucket_time: stretch.hot_bucket_time,
        };
        run.stages.record(DECIDE, vec![file], &entry)?;
        decided.add(&stretch, path, &mut hot_buckets);
        run.sample_memory();
    }
    run.observer.finish();
    decided.hot_buckets = hot_buckets.largest_first();
    for bucket in &mut decided.hot_buckets {
        bucket.example = numbers[bucket.example as usize];
    }
    Ok(decided)
}

/// The stretches in the journal that this search can go on from.
fn usable(
    run: &mut Run<'_>,
    documents: u32,
    index_bytes: u64,
) -> Result<Vec<DecidedStretch>, CurationError> {
    let written: Vec<DecidedStretch> = run.stages.upcoming(DECIDE)?;
    let places: Vec<StretchPlace> = written.iter().map(|it| it.place.clone()).collect();
    let usable = StretchPlace::usable(&places, documents, index_bytes);
    (0..usable).filter_map(|_| run.stages.replay(DECIDE).transpose()).collect()
}

impl Decided {
    fn add(&mut self, stretch: &Stretch, path: PathBuf, hot_buckets: &mut HotBuckets) {
        self.stretches.push((stretch.place.pass, path));
        self.hot_bucket_time += stretch.hot_bucket_time;
        hot_buckets.add(stretch);
    }

    /// Looks at all removals, by the numbers of the input, in the order in which they were decided.
    pub(crate) fn for_each_removal(
        &self,
        mut look: impl FnMut(Removal),
    ) -> Result<(), CurationError> {
        // One file after another: many would be too many memory maps at a time.
        self.stretches.iter().try_for_each(|(_, path)| {
            removals(path)?.for_each(&mut look);
            Ok(())
        })
    }

    /// All removals in input order, by the numbers of the input.
    pub(crate) fn in_input_order(&self) -> Result<InInputOrder, CurationError> {
        let mut passes: Vec<PassRemovals> = Vec::new();
        for (pass, path) in &self.stretches {
            match passes.last_mut() {
                Some(last) if last.pass == *pass => last.paths.push_back(path.clone()),
                _ => passes.push(PassRemovals::new(*pass, path.clone())),
            }
        }
        for pass in &mut passes {
            pass.advance()?;
        }
        Ok(InInputOrder { passes })
    }
}

/// The removals of all passes, merged by document: a later pass removes documents that stand
/// between those of earlier ones.
pub(crate) struct InInputOrder {
    passes: Vec<PassRemovals>,
}

/// The removals of one pass, which are in input order.
struct PassRemovals {
    pass: u32,
    /// Files still to be read.
    paths: std::collections::VecDeque<PathBuf>,
    file: Box<dyn Iterator<Item = Removal>>,
    next: Option<Removal>,
}

impl PassRemovals {
    fn new(pass: u32, path: PathBuf) -> Self {
        Self { pass, paths: [path].into(), file: Box::new(std::iter::empty()), next: None }
    }

    fn advance(&mut self) -> Result<(), CurationError> {
        loop {
            self.next = self.file.next();
            if self.next.is_some() {
                return Ok(());
            }
            let Some(path) = self.paths.pop_front() else { return Ok(()) };
            self.file = Box::new(removals(&path)?);
        }
    }
}

impl InInputOrder {
    /// The removal of this document, if it is the next one.
    pub(crate) fn take(&mut self, document: u32) -> Result<Option<Removal>, CurationError> {
        for pass in &mut self.passes {
            if let Some(removal) = pass.next.filter(|next| next.document == document) {
                pass.advance()?;
                return Ok(Some(removal));
            }
        }
        Ok(None)
    }
}

impl Removal {
    /// The same removal by places in `numbers`, which ascend; `None` where they lack one.
    fn in_places(self, numbers: &[u32]) -> Option<Self> {
        let place = |number| numbers.binary_search(&number).ok().map(|place| place as u32);
        Some(Self { document: place(self.document)?, witness: place(self.witness)?, ..self })
    }
}

/// Columns of a file of removals.
const COLUMNS: [&str; 4] = ["document", "witness", "shared", "union"];

fn write_removals(
    path: &Path,
    removed: &[Removal],
    numbers: &[u32],
) -> Result<FileSummary, CurationError> {
    let schema =
        Schema::new(COLUMNS.map(|name| Field::new(name, DataType::UInt32, false)).to_vec());
    let column = |of: &dyn Fn(&Removal) -> u32| -> ArrayRef {
        Arc::new(removed.iter().map(of).collect::<UInt32Array>())
    };
    let columns = vec![
        column(&|it| numbers[it.document as usize]),
        column(&|it| numbers[it.witness as usize]),
        column(&|it| it.jaccard.shared as u32),
        column(&|it| it.jaccard.union as u32),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns)
        .map_err(CurationError::stage_file(path))?;
    let mut file = ArrowFileWriter::create(path, &schema)?;
    file.write(&batch)?;
    file.finish()
}

/// The removals in a file, by the numbers of the input.
fn removals(path: &Path) -> Result<impl Iterator<Item = Removal> + use<>, CurationError> {
    let mut all = Vec::new();
    for batch in ArrowFile::open(path)?.batches() {
        let batch = batch?;
        let column = |name| u32_column(&batch, name, path);
        let [documents, witnesses, shared, union] = COLUMNS.map(column);
        all.push((documents?, witnesses?, shared?, union?));
    }
    Ok(all.into_iter().flat_map(|(documents, witnesses, shared, union)| {
        (0..documents.values().len()).map(move |row| Removal {
            document: documents.value(row),
            witness: witnesses.value(row),
            jaccard: Jaccard {
                shared: shared.value(row) as usize,
                union: union.value(row) as usize,
            },
        })
    }))
}
