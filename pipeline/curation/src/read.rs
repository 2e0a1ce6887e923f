//! The first stage: every document of the sources, judged by itself and stored.
//!
//! Work goes in rounds of some megabytes. Cutting records out of files is sequential and cheap;
//! while one round is parsed on all threads, the next is cut, and while its documents are judged,
//! the one before is written.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::RecordBatch;
use corpus::reader::{Item, ParsedBlock, ReadState, RecordBlock, Sources};
use corpus::{Document, FileSummary, PendingFile, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::documents::{self, Documents, InputName, JudgedDocument, SegmentWriter};
use crate::filter::{DropReason, Filters};
use crate::input::Input;
use crate::records::RejectRecord;
use crate::run::Run;
use crate::stop::stop_if_asked;
use crate::{CurationError, CurationPlan};

/// Name of the stage.
const STAGE: &str = "read";

/// Bytes of records that are worked on at once, for each thread.
const ROUND_BYTES_PER_THREAD: u64 = 2 << 20;

/// Text of a segment.
const SEGMENT_BYTES: u64 = 256 << 20;

/// Documents of a segment.
const SEGMENT_DOCUMENTS: u32 = 1 << 18;

/// Text of a batch of a segment; one document at least.
const BATCH_BYTES: usize = 2 << 20;

/// Documents of a batch.
const BATCH_DOCUMENTS: usize = 4096;

/// What reading one segment came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ReadSegment {
    documents: u32,
    /// Records that could not be read and were passed over, by reason.
    rejected: BTreeMap<String, u64>,
    /// Documents in which characters were replaced, by reason.
    replaced: BTreeMap<String, u64>,
    /// Documents whose text the Unicode repair changed.
    unicode_repaired: u64,
    /// Bytes of the input that were read up to here.
    bytes_read: u64,
    /// Where the next segment begins.
    state: ReadState,
    /// Whether the input ends here.
    is_last: bool,
}

/// Reads all sources of a plan; what an earlier process read is not read again.
pub(crate) fn read(
    plan: &CurationPlan,
    mut sources: Sources,
    run: &mut Run<'_>,
) -> Result<(Documents, Input), CurationError> {
    let names = InputName::all_of(&sources);
    let mut segments: Vec<ReadSegment> = Vec::new();
    run.observer.begin(STAGE, Some(sources.total_bytes()), Unit::Bytes);
    while let Some(segment) = run.stages.replay(STAGE)? {
        segments.push(segment);
    }
    if let Some(last) = segments.last() {
        run.observer.skip(last.bytes_read);
        sources.skip_to(&last.state);
    }
    let filters = Filters::new(plan);
    let mut reader = Reader { sources, filters, plan, ahead: Vec::new() };
    while !segments.last().is_some_and(|segment| segment.is_last) {
        let segment = reader.read_segment(segments.len(), run)?;
        let documents = segments
            .iter()
            .try_fold(segment.documents, |sum: u32, earlier| sum.checked_add(earlier.documents));
        documents.ok_or(CurationError::TooManyDocuments)?;
        segments.push(segment);
    }
    run.observer.finish();

    let lengths: Vec<u32> = segments.iter().map(|segment| segment.documents).collect();
    let mut input = Input::of(&reader.sources);
    for segment in &segments {
        input.add_rejects(&segment.rejected, &segment.replaced);
        input.unicode_repaired += segment.unicode_repaired;
    }
    Ok((Documents::new(names, &lengths, &run.stages), input))
}

/// Name of the list of rejects of a segment.
pub(crate) fn rejects_name(segment: usize) -> String {
    format!("rejects-{segment:05}.jsonl")
}

struct Reader<'p> {
    sources: Sources,
    filters: Filters,
    plan: &'p CurationPlan,
    /// Records that are cut and not yet parsed.
    ahead: Vec<RecordBlock>,
}

/// The documents of one round, judged, and the records that could not be read.
#[derive(Default)]
struct Round {
    documents: Vec<JudgedDocument>,
    rejects: Vec<RejectRecord>,
}

impl Reader<'_> {
    /// Reads until a segment is full or the input ends.
    fn read_segment(
        &mut self,
        number: usize,
        run: &mut Run<'_>,
    ) -> Result<ReadSegment, CurationError> {
        let path = run.stages.file(&documents::file_name(number));
        let mut writer = SegmentWriter::create(&path)?;
        let mut rejects = PendingFile::replace(&run.stages.file(&rejects_name(number)))?;
        let mut segment = ReadSegment::default();
        let mut text_bytes = 0;
        // Judged documents that do not fill a batch yet, and batches that are still to be written.
        let (mut judged, mut unwritten) = (Vec::new(), Vec::new());
        while text_bytes < SEGMENT_BYTES && segment.documents < SEGMENT_DOCUMENTS {
            let bytes_before = self.sources.bytes_read();
            let mut round = match self.next_round(run) {
                Ok(Some(round)) => round,
                Ok(None) => {
                    segment.is_last = true;
                    break;
                }
                // What is read is kept; the next segment does not get as far as this one.
                Err(CurationError::Stopped { .. }) if segment.documents > 0 => break,
                Err(error) => return Err(error),
            };
            run.observer.advance(self.sources.bytes_read() - bytes_before);

            let (plan, filters) = (self.plan, &self.filters);
            let write = || unwritten.drain(..).try_for_each(|batch| writer.write(&batch));
            let (repaired, written) = rayon::join(|| judge(&mut round, plan, filters, run), write);
            written?;
            segment.unicode_repaired += match repaired {
                Err(CurationError::Stopped { .. }) if segment.documents > 0 => break,
                repaired => repaired?,
            };
            segment.documents = checked_sum(segment.documents, round.documents.len())?;
            text_bytes += round.text_bytes();
            for reject in &round.rejects {
                segment.count(reject);
                write_line(&mut rejects, reject)?;
            }
            segment.bytes_read = self.sources.bytes_read();
            segment.state = self.sources.state();
            judged.append(&mut round.documents);
            unwritten = full_batches(&mut judged, &path)?;
            run.sample_memory();
        }
        unwritten.drain(..).try_for_each(|batch| writer.write(&batch))?;
        if !judged.is_empty() {
            writer.write(&rows(&judged, &path)?)?;
        }
        if segment.is_last {
            segment.bytes_read = self.sources.bytes_read();
            segment.state = self.sources.state();
        }
        run.stages.record(STAGE, vec![writer.finish()?, closed(rejects)?], &segment)?;
        Ok(segment)
    }

    /// The next items of the input; `None` at its end.
    fn next_round(&mut self, run: &Run<'_>) -> Result<Option<Round>, CurationError> {
        if self.ahead.is_empty() {
            self.ahead = cut(&mut self.sources);
        }
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let blocks = std::mem::take(&mut self.ahead);
        let parse = || {
            blocks
                .into_par_iter()
                .map(|block| {
                    stop_if_asked(run.observer)?;
                    Ok(block.parse())
                })
                .collect::<Result<Vec<ParsedBlock>, CurationError>>()
        };
        let (parsed, ahead) = rayon::join(parse, || cut(&mut self.sources));
        let mut round = Round::default();
        for block in parsed? {
            let file = block.file();
            for item in self.sources.accept(block)? {
                round.add(file, item);
            }
        }
        self.ahead = ahead;
        Ok(Some(round))
    }
}

/// Judges the documents of a round; returns of how many the text was repaired.
fn judge(
    round: &mut Round,
    plan: &CurationPlan,
    filters: &Filters,
    run: &Run<'_>,
) -> Result<u64, CurationError> {
    let judge_one = |it: &mut JudgedDocument| -> Result<u64, CurationError> {
        stop_if_asked(run.observer)?;
        if it.reason.is_some() {
            return Ok(0);
        }
        let text = &mut it.document.text;
        let repaired = match &plan.unicode_repair {
            Some(repair) => repair.repair(text, run.observer)?,
            None => None,
        };
        let is_repaired = u64::from(repaired.is_some());
        *text = repaired.unwrap_or_else(|| std::mem::take(text));
        (it.reason, it.tokens) = filters.judge(text);
        Ok(is_repaired)
    };
    round.documents.par_iter_mut().map(judge_one).sum()
}

impl Round {
    fn text_bytes(&self) -> u64 {
        self.documents.iter().map(|it| it.bytes() as u64).sum()
    }

    fn add(&mut self, file: u32, item: Item) {
        let (document, reason) = match item {
            Item::Document(document) => (document, None),
            Item::Repaired(document, reject) => {
                self.rejects.push(RejectRecord::new(&reject, true));
                (document, None)
            }
            Item::NullText(provenance) => {
                let document = Document { provenance, title: None, text: String::new() };
                (document, Some(DropReason::NullText))
            }
            Item::Rejected(reject) => {
                self.rejects.push(RejectRecord::new(&reject, false));
                return;
            }
        };
        self.documents.push(JudgedDocument { file, document, reason, tokens: None });
    }
}

impl ReadSegment {
    fn count(&mut self, reject: &RejectRecord) {
        let counts = if reject.replaced { &mut self.replaced } else { &mut self.rejected };
        *counts.entry(reject.reason.clone()).or_default() += 1;
    }
}

/// Cuts the records of the next round out of their files; none at the end of the input.
fn cut(sources: &mut Sources) -> Vec<RecordBlock> {
    let wanted = ROUND_BYTES_PER_THREAD * rayon::current_num_threads() as u64;
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while bytes < wanted && blocks.len() < BATCH_DOCUMENTS {
        let Some(block) = sources.next_block() else { break };
        // What is only passed over, to where an earlier process was, is a round by itself: the
        // observer is asked between two.
        let is_passed_over = block.bytes() == 0;
        bytes += block.bytes();
        blocks.push(block);
        if is_passed_over {
            break;
        }
    }
    blocks
}

/// Takes as many documents from the front as fill batches, and brings them into their form.
fn full_batches(
    judged: &mut Vec<JudgedDocument>,
    path: &Path,
) -> Result<Vec<RecordBatch>, CurationError> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, it) in judged.iter().enumerate() {
        bytes += it.bytes();
        if bytes >= BATCH_BYTES || place + 1 - start == BATCH_DOCUMENTS {
            batches.push(start..place + 1);
            (start, bytes) = (place + 1, 0);
        }
    }
    let rows = batches.into_par_iter().map(|batch| rows(&judged[batch], path)).collect();
    judged.drain(..start);
    rows
}

fn rows(documents: &[JudgedDocument], path: &Path) -> Result<RecordBatch, CurationError> {
    JudgedDocument::rows(documents).map_err(CurationError::stage_file(path))
}

/// Documents go by numbers of 32 bits.
fn checked_sum(documents: u32, more: usize) -> Result<u32, CurationError> {
    u32::try_from(more)
        .ok()
        .and_then(|more| documents.checked_add(more))
        .ok_or(CurationError::TooManyDocuments)
}

fn write_line(file: &mut PendingFile, record: &RejectRecord) -> Result<(), CurationError> {
    file.write(|mut out| {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")
    })?;
    Ok(())
}

fn closed(mut file: PendingFile) -> Result<FileSummary, CurationError> {
    let summary = file.close()?;
    file.commit()?;
    Ok(summary)
}
