//! The lists beside a curated corpus, one JSON object per line.
//!
//! - `removed.jsonl`: every dropped document, in input order, with the reason and its witness;
//! - `provenance.jsonl`: every kept document, in the order of the shard;
//! - `rejects.jsonl`: every record that could not be read, or only by replacing characters.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use corpus::Provenance;
use corpus::reader::Reject;
use serde::{Deserialize, Serialize};

use crate::CurationError;
use crate::decontaminate::Article;
use crate::filter::DropReason;
use crate::ledger::{Evidence, Ledger};

/// Where a document stands, as lists and reports write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Name of the source; `None` for an article of a test set.
    pub source: Option<String>,
    /// File that holds the document.
    pub file: String,
    /// Line, counted from 1; `None` where the whole file is the document.
    pub line: Option<u64>,
    /// The document's own identifier; of an article its title.
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
    /// What it is a copy of: the kept document for a near-duplicate, the first document with the text for an exact
    /// duplicate, the article of the test set for a contaminated document.
    pub witness: Option<Location>,
    /// For a contaminated document, the bytes `[start, end)` of its text that the article holds too.
    pub spans: Option<Vec<[usize; 2]>>,
    /// For a contaminated document, the share of the article's n-grams that it holds.
    pub article_share: Option<f64>,
    /// For a contaminated document, the share of its own n-grams that the article holds.
    pub document_share: Option<f64>,
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

    fn of_article(article: &Article) -> Self {
        Self {
            source: None,
            file: article.file.display().to_string(),
            line: Some(article.line),
            id: article.title.clone(),
        }
    }
}

impl RemovedRecord {
    fn new(
        provenance: &Provenance,
        reason: DropReason,
        evidence: &Evidence,
        ledger: &Ledger,
        articles: &[Article],
    ) -> Self {
        let witness = evidence.witness();
        let mut record = Self {
            source: provenance.source.to_string(),
            file: provenance.file.display().to_string(),
            line: provenance.line,
            id: provenance.id.clone(),
            reason,
            jaccard: witness.map(|(_, jaccard)| jaccard),
            witness: witness.map(|(number, _)| Location::of(&ledger.document(number).provenance)),
            spans: None,
            article_share: None,
            document_share: None,
        };
        if let Evidence::TestArticle(found) = evidence {
            let article = &articles[found.article];
            let share = |ngrams: usize| Some(found.shared as f64 / ngrams as f64);
            record.witness = Some(Location::of_article(article));
            record.spans = Some(found.spans.iter().map(|span| [span.start, span.end]).collect());
            record.article_share = share(article.num_ngrams);
            record.document_share = share(found.document_ngrams);
        }
        record
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

/// Writes one line for every dropped document, in input order.
pub(crate) fn write_removed(
    path: &Path,
    ledger: &Ledger,
    articles: &[Article],
) -> Result<(), CurationError> {
    let removed = (0..ledger.len()).filter_map(|number| {
        let removal = ledger.removal(number)?;
        let provenance = &ledger.document(number).provenance;
        Some(RemovedRecord::new(provenance, removal.reason, &removal.evidence, ledger, articles))
    });
    write_lines(path, removed)
}

/// Writes one line for every kept document, in the order of the shard.
pub(crate) fn write_provenance(
    path: &Path,
    ledger: &Ledger,
    kept: &[usize],
) -> Result<(), CurationError> {
    write_lines(path, kept.iter().map(|&number| Location::of(&ledger.document(number).provenance)))
}

/// Writes each record as a line of JSON.
pub(crate) fn write_lines(
    path: &Path,
    records: impl Iterator<Item = impl Serialize>,
) -> Result<(), CurationError> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        for record in records {
            serde_json::to_writer(&mut file, &record)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(CurationError::io("write", path))
}
