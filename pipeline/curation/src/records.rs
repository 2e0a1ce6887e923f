//! The lists beside a curated corpus, one JSON object per line.
//!
//! - `removed.jsonl`: every dropped document, in input order, with the reason and its witness;
//! - `provenance.jsonl`: every kept document, in the order of the shard;
//! - `rejects.jsonl`: every record that could not be read, or only by replacing characters.

use std::fmt;

use corpus::Provenance;
use corpus::reader::Reject;
use serde::{Deserialize, Serialize};

use crate::decontaminate::{Contamination, Rule, TestItem};
use crate::filter::DropReason;
use crate::verdicts::Evidence;

/// Spans of one document that are listed.
const SPANS_SHOWN: usize = 100;

/// Where a document stands, as lists and reports write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Name of the source; `None` for an item of a test set.
    pub source: Option<String>,
    /// File that holds the document.
    pub file: String,
    /// Line, counted from 1; `None` where the whole file is the document.
    pub line: Option<u64>,
    /// The document's own identifier; of a test article its title.
    pub id: Option<String>,
}

/// A line of `removed.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemovedRecord {
    /// Name of the source.
    pub source: String,
    /// File that holds the document.
    pub file: String,
    /// Line, counted from 1; `None` where the whole file is the document.
    pub line: Option<u64>,
    /// The document's own identifier.
    pub id: Option<String>,
    /// Why it was dropped.
    pub reason: DropReason,
    /// Its Jaccard similarity with the witness; 1 for an exact duplicate.
    pub jaccard: Option<f64>,
    /// What it is a copy of: the kept document for a near-duplicate, the first document with the
    /// text for an exact duplicate, the item of a test set for a contaminated document.
    pub witness: Option<Location>,
    /// For a document that goes for a test set, the rule that applies; what follows is by its
    /// n-grams.
    pub rule: Option<Rule>,
    /// The share of the witness's distinct n-grams that the document holds.
    pub witness_share: Option<f64>,
    /// The share of the document's distinct n-grams that the witness holds.
    pub document_share: Option<f64>,
    /// The bytes `[start, end)` of the document's text that n-grams of the witness cover; by the
    /// rule `ngram`, of any test set. In order, the longest possible, and the first hundred of
    /// them.
    pub spans: Option<Vec<[usize; 2]>>,
    /// Number of all spans.
    pub num_spans: Option<usize>,
}

/// A line of `rejects.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RejectRecord {
    /// Name of the source.
    pub source: String,
    /// File that holds the record.
    pub file: String,
    /// Line, counted from 1.
    pub line: Option<u64>,
    /// Place of the fault in the file, in bytes from its start.
    pub byte_offset: u64,
    /// Name of the fault, by which reports count it.
    pub reason: String,
    /// The fault in words.
    pub message: String,
    /// Whether the document is in nevertheless, with U+FFFD in place of what could not be read.
    pub replaced: bool,
}

/// `FILE:LINE`, or `FILE` for a document that is a whole file.
impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        self.line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
    }
}

impl Location {
    /// The place of a document.
    #[must_use]
    pub fn of(provenance: &Provenance) -> Self {
        Self {
            source: Some(provenance.source.to_string()),
            file: provenance.file.display().to_string(),
            line: provenance.line,
            id: provenance.id.clone(),
        }
    }

    /// The place of an item of a test set.
    #[must_use]
    pub fn of_item(item: &TestItem) -> Self {
        Self {
            source: None,
            file: item.file.display().to_string(),
            line: Some(item.line),
            id: item.name().map(str::to_owned),
        }
    }
}

impl RemovedRecord {
    /// The record of a document that was dropped; `witness` is where the document stands that the
    /// evidence names, and their similarity.
    pub(crate) fn new(
        document: Location,
        reason: DropReason,
        evidence: &Evidence,
        witness: Option<(Location, f64)>,
        items: &[TestItem],
    ) -> Self {
        let (witness, jaccard) = witness.unzip();
        let mut record = Self {
            source: document.source.unwrap_or_default(),
            file: document.file,
            line: document.line,
            id: document.id,
            reason,
            jaccard,
            witness,
            rule: None,
            witness_share: None,
            document_share: None,
            spans: None,
            num_spans: None,
        };
        if let Evidence::TestItem(found) = evidence {
            record.add_test_item(found, items);
        }
        record
    }

    fn add_test_item(&mut self, found: &Contamination, items: &[TestItem]) {
        self.witness = Some(Location::of_item(&items[found.item()]));
        self.rule = Some(found.rule());
        let Some(shared) = found.shared() else { return };
        let share = |ngrams: usize| Some(shared.shared as f64 / ngrams as f64);
        self.witness_share = share(shared.item_ngrams);
        self.document_share = share(shared.document_ngrams);
        let spans = shared.spans.iter().take(SPANS_SHOWN);
        self.spans = Some(spans.map(|span| [span.start, span.end]).collect());
        self.num_spans = Some(shared.spans.len());
    }
}

impl RejectRecord {
    /// The record of a fault.
    pub(crate) fn new(reject: &Reject, replaced: bool) -> Self {
        Self {
            source: reject.provenance.source.to_string(),
            file: reject.provenance.file.display().to_string(),
            line: reject.provenance.line,
            byte_offset: reject.byte_offset,
            reason: reject.reason.name().to_owned(),
            message: reject.reason.to_string(),
            replaced,
        }
    }
}
