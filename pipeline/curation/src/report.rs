//! What a curation did: the content of `report.json`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decontaminate::ContaminationReport;
use crate::filter::DropReason;
use crate::input::{SkippedFile, TruncatedFile};
use crate::ledger::Ledger;
use crate::records::Location;

/// Clusters that a report shows.
const CLUSTERS_SHOWN: usize = 10;

/// Counts and examples of one curation. Keys of `report.json` are the names of the fields; what is
/// absent is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Bytes of the input files on disk.
    pub bytes_in: u64,
    /// Wall time.
    pub seconds: f64,
    /// The most memory that the process has held so far, in bytes; `None` where the system does not
    /// tell.
    pub peak_rss_bytes: Option<u64>,
    /// What decontamination found; `None` where it is off.
    pub contamination: Option<ContaminationReport>,
    /// The ten largest clusters: a kept document and those that name it as witness.
    pub clusters: Vec<Cluster>,
    /// Counts of each source.
    pub sources: BTreeMap<String, SourceCounts>,
    /// Files and folders that were left out of the input though nobody asked for it.
    pub skipped_files: Vec<SkippedFile>,
    /// Files that break off, and of which the documents before the break were kept.
    pub truncated_files: Vec<TruncatedFile>,
    /// Kept documents that are each other's candidates in great numbers, and cost time.
    pub hot_buckets: Vec<HotBucketReport>,
    /// Time of all threads spent on documents that met a hot bucket.
    pub hot_bucket_seconds: f64,
    /// What a user should look at, in sentences.
    pub warnings: Vec<String>,
}

/// Documents of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// In the input.
    #[serde(rename = "in")]
    pub documents_in: u64,
    /// In the curated corpus.
    pub kept: u64,
}

/// A kept document with its exact and near duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Number of documents, the kept one among them.
    pub size: u64,
    /// The kept document and the first that was removed for it.
    pub example: ClusterExample,
}

/// A pair of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterExample {
    /// The document that was kept.
    pub kept: Location,
    /// A document that was removed.
    pub removed: Location,
    /// Their Jaccard similarity; 1 for equal texts.
    pub jaccard: f64,
}

/// Many kept documents that share one band of their signatures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotBucketReport {
    /// Number of documents.
    pub members: u64,
    /// The earliest of them.
    pub example: Location,
}

/// The largest clusters, largest first, earliest first among equals.
pub(crate) fn largest_clusters(ledger: &Ledger) -> Vec<Cluster> {
    struct Found {
        size: u64,
        first_removed: usize,
        jaccard: f64,
    }
    let mut by_witness: BTreeMap<usize, Found> = BTreeMap::new();
    for number in 0..ledger.len() {
        let Some((witness, jaccard)) = ledger.removal(number).and_then(|it| it.evidence.witness())
        else {
            continue;
        };
        // The first copy of a text may itself have gone later, for being contaminated or a
        // near-duplicate.
        if ledger.removal(witness).is_none() {
            by_witness
                .entry(witness)
                .or_insert(Found { size: 1, first_removed: number, jaccard })
                .size += 1;
        }
    }
    let mut clusters: Vec<_> = by_witness.into_iter().collect();
    clusters.sort_by_key(|(witness, found)| (Reverse(found.size), *witness));
    clusters.truncate(CLUSTERS_SHOWN);
    let location = |number| Location::of(&ledger.document(number).provenance);
    clusters
        .into_iter()
        .map(|(witness, found)| Cluster {
            size: found.size,
            example: ClusterExample {
                kept: location(witness),
                removed: location(found.first_removed),
                jaccard: found.jaccard,
            },
        })
        .collect()
}

/// Counts of every source of which a document was read.
pub(crate) fn source_counts(ledger: &Ledger) -> BTreeMap<String, SourceCounts> {
    let mut sources: BTreeMap<String, SourceCounts> = BTreeMap::new();
    for number in 0..ledger.len() {
        let source = &ledger.document(number).provenance.source;
        // Looked up before an entry is made, which takes a copy of the name.
        if !sources.contains_key(&**source) {
            sources.insert(source.to_string(), SourceCounts::default());
        }
        if let Some(counts) = sources.get_mut(&**source) {
            counts.documents_in += 1;
            counts.kept += u64::from(ledger.removal(number).is_none());
        }
    }
    sources
}

/// A warning for each source that lost more than half of its documents.
pub(crate) fn source_warnings(sources: &BTreeMap<String, SourceCounts>) -> Vec<String> {
    sources
        .iter()
        .filter(|(_, counts)| 2 * counts.kept < counts.documents_in)
        .map(|(name, counts)| {
            let lost = counts.documents_in - counts.kept;
            let share = 100.0 * lost as f64 / counts.documents_in as f64;
            format!(
                "source {name} lost {share:.0}% of its documents ({lost} of {})",
                counts.documents_in
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use corpus::{Document, Provenance};

    use super::*;
    use crate::dedup::Jaccard;
    use crate::ledger::Evidence;

    fn ledger(sources: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        for (source, line) in sources.iter().zip(1..) {
            let file = Path::new("f.jsonl").into();
            let provenance =
                Provenance { source: (*source).into(), file, line: Some(line), id: None };
            ledger.add(Document { provenance, title: None, text: "text".to_owned() });
        }
        ledger
    }

    #[test]
    fn clusters_are_kept_documents_with_those_that_name_them() {
        let mut ledger = ledger(&["a"; 7]);
        let neighbor =
            |witness| Evidence::Neighbor { witness, jaccard: Jaccard { shared: 4, union: 5 } };
        ledger.remove(1, DropReason::NearDuplicate, neighbor(0));
        ledger.remove(3, DropReason::NearDuplicate, neighbor(2));
        ledger.remove(4, DropReason::ExactDuplicate, Evidence::Copy { witness: 2 });
        // Its first copy is no longer in, so that it belongs to no cluster.
        ledger.remove(5, DropReason::ExactDuplicate, Evidence::Copy { witness: 1 });

        let clusters = largest_clusters(&ledger);
        let seen: Vec<_> = clusters
            .iter()
            .map(|it| (it.size, it.example.kept.line, it.example.removed.line, it.example.jaccard))
            .collect();
        assert_eq!(seen, [(3, Some(3), Some(4), 0.8), (2, Some(1), Some(2), 0.8)]);
    }

    #[test]
    fn a_source_that_loses_more_than_half_is_warned_of() {
        let mut ledger = ledger(&["a", "a", "b", "b", "b"]);
        for number in [0, 2, 3] {
            ledger.remove(number, DropReason::TooShort, Evidence::Itself);
        }
        let sources = source_counts(&ledger);
        assert_eq!(sources["a"], SourceCounts { documents_in: 2, kept: 1 });
        assert_eq!(source_warnings(&sources), ["source b lost 67% of its documents (2 of 3)"]);
    }
}
