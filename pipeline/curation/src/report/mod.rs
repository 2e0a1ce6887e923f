//! What a curation did: the content of `report.json`.
//!
//! The counts are made while the fate of each document passes by once, in input order, and take
//! no more memory than [`Clusters`] says: [`SourceCounts`] of each source, the
//! [`SimilarityHistogram`] and the [`Clusters`].

mod clusters;
mod page;
mod similarity;
mod sources;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use clusters::{
    Cluster, ClusterExample, ClusterPair, ClusterSize, ClusterSummary, Clusters, SizeClass,
};
pub use page::{REPORT_PAGE, page};
pub use similarity::{SimilarityBin, SimilarityHistogram};
pub use sources::{SourceCounts, total};

use crate::decontaminate::ContaminationReport;
use crate::filter::DropReason;
use crate::input::{SkippedFile, TruncatedFile};
use crate::records::Location;

/// Counts and examples of one curation. Keys of `report.json` are the names of the fields; what is
/// absent is `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CurationReport {
    /// Documents of the input, those without text among them.
    pub documents_in: u64,
    /// Documents of the curated corpus.
    pub documents_kept: u64,
    /// Number of documents dropped, for each reason that occurred.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Number of records that could not be read and were passed over, by reason: they are no
    /// documents.
    pub rejected: BTreeMap<String, u64>,
    /// Number of documents in which characters were replaced, by the reason.
    pub repaired: BTreeMap<String, u64>,
    /// Tokens of the curated corpus, ends of documents among them.
    pub tokens: u64,
    /// Sentences of the curated corpus, where they are the sequences of its shard.
    pub sentences: Option<u64>,
    /// Bytes of the input files on disk.
    pub bytes_in: u64,
    /// Wall time of the process that completed the corpus; of a run that was gone on with, its last
    /// part.
    pub seconds: f64,
    /// The most memory that the process has held so far, in bytes; `None` where the system does not
    /// tell.
    pub peak_rss_bytes: Option<u64>,
    /// The most memory that the process held for itself, without the files that it reads through
    /// the memory map, as far as looks now and then tell.
    pub peak_anonymous_bytes: Option<u64>,
    /// What decontamination found; `None` where it is off.
    pub contamination: Option<ContaminationReport>,
    /// Documents that the repair of Unicode changed; `None` where it is off.
    pub unicode_repaired: Option<u64>,
    /// The ten largest clusters: a kept document and those that name it as witness.
    pub clusters: Vec<Cluster>,
    /// All clusters, by their size.
    pub cluster_sizes: Vec<ClusterSize>,
    /// The near-duplicates by their similarity; `None` where they stay.
    pub similarity: Option<SimilarityHistogram>,
    /// Counts of each source.
    pub sources: BTreeMap<String, SourceCounts>,
    /// Names of the sources that were left out, for the model that the corpus is for.
    pub excluded_sources: Vec<String>,
    /// Words that were cut for being too long to be encoded as one, and where the first of them
    /// stands; `None` where there is none.
    pub cut_words: Option<CutWords>,
    /// Files and folders that were left out of the input though nobody asked for it.
    pub skipped_files: Vec<SkippedFile>,
    /// Files that break off, and of which the documents before the break were kept.
    pub truncated_files: Vec<TruncatedFile>,
    /// Files that hold no record.
    pub empty_files: Vec<String>,
    /// Kept documents that are each other's candidates in great numbers, and cost time.
    pub hot_buckets: Vec<HotBucketReport>,
    /// Time of all threads spent on documents that met a hot bucket.
    pub hot_bucket_seconds: f64,
    /// What a user should look at, in sentences.
    pub warnings: Vec<String>,
}

/// Words that were cut before they were encoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutWords {
    /// Number of words.
    pub number: u64,
    /// Documents that hold one.
    pub documents: u64,
    /// The first of these documents.
    pub first: Location,
}

/// Many kept documents that share one band of their signatures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotBucketReport {
    /// Number of documents.
    pub members: u64,
    /// The earliest of them.
    pub example: Location,
}

impl CurationReport {
    /// What a user should look at, by the counts of this report, in sentences. What the reader said
    /// of the input is not among them.
    #[must_use]
    pub fn signs(&self) -> Vec<String> {
        let mut signs = sources::source_warnings(&self.sources);
        signs.extend(self.contamination.iter().flat_map(ContaminationReport::warnings));
        signs.extend(self.cut_words.iter().map(|cut| {
            format!(
                "{} words of {} documents were too long to be encoded whole and were cut; the \
                 first is in {}",
                cut.number, cut.documents, cut.first
            )
        }));
        signs
    }
}
