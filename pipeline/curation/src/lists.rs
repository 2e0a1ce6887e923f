//! The last stage: what became of every document, in lists and in counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use corpus::shard::ShardReader;
use corpus::{DataFolderWriter, PROVENANCE, REMOVED, Unit};
use serde::Serialize;

use crate::CurationError;
use crate::curate::REJECTS;
use crate::decontaminate::TestItem;
use crate::documents::Documents;
use crate::outcomes::Outcomes;
use crate::read::rejects_name;
use crate::records::RemovedRecord;
use crate::report::{ClusterSummary, Clusters, SimilarityHistogram, SourceCounts};
use crate::run::Run;
use crate::stop::stop_if_asked;
use crate::verdicts::{Evidence, Verdicts};

/// Documents between two looks at the observer.
const STRETCH_DOCUMENTS: u32 = 1 << 12;

/// What counting came to.
pub(crate) struct Counts {
    pub(crate) sources: BTreeMap<String, SourceCounts>,
    pub(crate) similarity: SimilarityHistogram,
    pub(crate) clusters: ClusterSummary,
}

/// Writes `removed.jsonl`, `provenance.jsonl` and `rejects.jsonl`, and counts.
pub(crate) fn write_lists(
    folder: &DataFolderWriter,
    documents: &Documents,
    outcomes: &Outcomes,
    mut verdicts: Verdicts<'_>,
    shard: &ShardReader,
    test_items: &[TestItem],
    run: &Run<'_>,
) -> Result<Counts, CurationError> {
    let mut removed = JsonList::create(folder.file(REMOVED))?;
    let mut provenance = JsonList::create(folder.file(PROVENANCE))?;
    let mut sources: BTreeMap<String, SourceCounts> = BTreeMap::new();
    let mut similarity = SimilarityHistogram::default();
    let mut clusters = Clusters::new(documents.len());
    let mut kept = 0;
    run.observer.begin("write lists", Some(documents.len().into()), Unit::Documents);
    for segment in 0..documents.num_segments() {
        verdicts.enter(segment, run)?;
        for (start, batch) in documents.batches(segment)? {
            for (row, number) in (0..batch.len()).zip(start..) {
                if number % STRETCH_DOCUMENTS == 0 {
                    stop_if_asked(run.observer)?;
                }
                let document = batch.document(row);
                let source = &documents.file(document.file).source;
                // Looked up before an entry is made, which takes a copy of the name.
                if !sources.contains_key(&**source) {
                    sources.insert(source.to_string(), SourceCounts::default());
                }
                let counts = sources.get_mut(&**source).expect("made where it was not there");
                let Some((reason, evidence)) = verdicts.of(number)? else {
                    provenance.write(&documents.location(&document))?;
                    counts.add_kept(document.text_bytes, num_tokens(shard, kept)?);
                    kept += 1;
                    continue;
                };
                counts.add_dropped(document.text_bytes, reason);
                if let Evidence::Neighbor { jaccard, .. } = &evidence {
                    similarity.add(jaccard.shared as u64, jaccard.union as u64);
                }
                let witness = evidence.witness();
                // The first copy of a text may itself have gone later, for being contaminated or a
                // near-duplicate.
                if let Some((witness, _)) = witness
                    && outcomes.reason(witness).is_none()
                {
                    clusters.add(number, witness);
                }
                let witness = match witness {
                    Some((witness, jaccard)) => Some((documents.location_of(witness)?, jaccard)),
                    None => None,
                };
                let location = documents.location(&document);
                removed
                    .write(&RemovedRecord::new(location, reason, &evidence, witness, test_items))?;
            }
            run.observer.advance(batch.len() as u64);
        }
    }
    removed.finish()?;
    provenance.finish()?;
    join_rejects(&folder.file(REJECTS), documents, run)?;
    run.observer.finish();
    run.sample_memory();
    Ok(Counts { sources, similarity, clusters: clusters.summary() })
}

/// Number of tokens of a document of the shard.
fn num_tokens(shard: &ShardReader, document: u64) -> Result<u64, CurationError> {
    let tokens = shard.document_tokens(document)?;
    Ok(tokens.end - tokens.start)
}

/// The rejects of all segments in one list.
fn join_rejects(path: &Path, documents: &Documents, run: &Run<'_>) -> Result<(), CurationError> {
    let mut out = File::create(path).map_err(CurationError::io("create", path))?;
    for segment in 0..documents.num_segments() {
        let part = run.stages.file(&rejects_name(segment));
        let mut part = File::open(&part).map_err(CurationError::io("open", &part))?;
        io::copy(&mut part, &mut out).map_err(CurationError::io("write", path))?;
    }
    Ok(())
}

/// A file of JSON objects, a line each.
struct JsonList {
    path: PathBuf,
    file: BufWriter<File>,
}

impl JsonList {
    fn create(path: PathBuf) -> Result<Self, CurationError> {
        let file = File::create(&path).map_err(CurationError::io("create", &path))?;
        Ok(Self { path, file: BufWriter::with_capacity(1 << 18, file) })
    }

    fn write(&mut self, record: &impl Serialize) -> Result<(), CurationError> {
        serde_json::to_writer(&mut self.file, record)
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(CurationError::io("write", &self.path))
    }

    fn finish(mut self) -> Result<(), CurationError> {
        self.file.flush().map_err(CurationError::io("write", &self.path))
    }
}
