//! The stage of decontamination: documents that hold test data go, segment by segment.
//!
//! Every document is looked at once, whatever the number of test sets.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use corpus::{PendingFile, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::CurationError;
use crate::decontaminate::{
    Contamination, ContaminationCounts, ContaminationReport, Decontamination, EXAMPLES_SHOWN, Seen,
};
use crate::documents::Documents;
use crate::near_duplicates::kept_rows;
use crate::outcomes::Outcomes;
use crate::run::Run;
use crate::stop::stop_if_asked;

/// Name of the stage.
const STAGE: &str = "decontaminate";

/// What the decontamination of a segment came to; what was found is in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct JudgedSegment {
    counts: ContaminationCounts,
    seen: Seen,
}

/// A line of a segment's file: a document that goes, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ContaminatedDocument {
    /// Its number.
    pub(crate) document: u32,
    /// What it shares with which item of a test set.
    pub(crate) found: Contamination,
}

/// Drops documents that hold test data.
pub(crate) fn drop_contaminated(
    test_sets: &Decontamination,
    documents: &Documents,
    outcomes: &mut Outcomes,
    run: &mut Run<'_>,
) -> Result<ContaminationReport, CurationError> {
    let (mut counts, seen) = (ContaminationCounts::default(), test_sets.nothing_seen());
    let mut examples = Vec::new();
    run.observer.begin(STAGE, Some(u64::from(outcomes.num_kept())), Unit::Documents);
    for segment in 0..documents.num_segments() {
        let judged: JudgedSegment = match run.stages.replay(STAGE)? {
            Some(judged) => judged,
            None => judge_segment(test_sets, documents, outcomes, segment, run)?,
        };
        counts.merge(&judged.counts);
        seen.merge(&judged.seen);
        for contaminated in Contaminated::of_segment(segment, run)? {
            let ContaminatedDocument { document, found } = contaminated?;
            outcomes.drop(document, found.reason());
            if examples.len() < EXAMPLES_SHOWN {
                examples.push((document, found));
            }
        }
    }
    run.observer.finish();
    let mut report = ContaminationReport::new(test_sets, &seen, counts);
    for (document, found) in examples {
        report.add_example(documents.location_of(document)?, &found, test_sets);
    }
    Ok(report)
}

fn judge_segment(
    test_sets: &Decontamination,
    documents: &Documents,
    outcomes: &Outcomes,
    segment: usize,
    run: &mut Run<'_>,
) -> Result<JudgedSegment, CurationError> {
    let mut judged = JudgedSegment { seen: test_sets.nothing_seen(), ..JudgedSegment::default() };
    let mut file = PendingFile::replace(&run.stages.file(&file_name(segment)))?;
    for (start, batch) in documents.batches(segment)? {
        let rows = kept_rows(batch, start, outcomes);
        let judge_row = |&row: &usize| {
            stop_if_asked(run.observer)?;
            let document = batch.document(row);
            Ok((row, test_sets.judge(document.title, document.text, &judged.seen)))
        };
        let found: Vec<(usize, Option<Contamination>)> =
            rows.par_iter().map(judge_row).collect::<Result<_, CurationError>>()?;
        for (row, found) in found {
            judged.counts.add(batch.document(row).title, found.as_ref());
            let Some(found) = found else { continue };
            let document = start + row as u32;
            file.write(|mut out| {
                serde_json::to_writer(&mut out, &ContaminatedDocument { document, found })?;
                out.write_all(b"\n")
            })?;
        }
        run.observer.advance(rows.len() as u64);
    }
    let summary = file.close()?;
    file.commit()?;
    run.stages.record(STAGE, vec![summary], &judged)?;
    Ok(judged)
}

fn file_name(segment: usize) -> String {
    format!("contaminated-{segment:05}.jsonl")
}

/// The contaminated documents of a corpus, in input order.
pub(crate) struct Contaminated {
    path: PathBuf,
    lines: std::io::Lines<BufReader<File>>,
}

impl Contaminated {
    /// Those of one segment.
    pub(crate) fn of_segment(segment: usize, run: &Run<'_>) -> Result<Self, CurationError> {
        Self::open(&run.stages.file(&file_name(segment)))
    }

    fn open(path: &Path) -> Result<Self, CurationError> {
        let file = File::open(path).map_err(CurationError::io("open", path))?;
        Ok(Self { path: path.to_owned(), lines: BufReader::new(file).lines() })
    }
}

impl Iterator for Contaminated {
    type Item = Result<ContaminatedDocument, CurationError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?.map_err(CurationError::io("read", &self.path));
        Some(line.and_then(|line| {
            serde_json::from_str(&line)
                .map_err(|source| CurationError::Journal { path: self.path.clone(), source })
        }))
    }
}
