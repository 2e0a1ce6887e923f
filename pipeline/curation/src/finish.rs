//! The end of a curation: lists, counts and the manifest of a data folder.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use corpus::shard::{ShardReader, ShardSummary};
use corpus::{DataFolder, DataManifest, REPORT, SHARD, Sequences, SourceSpan};

use crate::curate::config_value;
use crate::decontaminate::{ContaminationReport, Decontamination};
use crate::documents::Documents;
use crate::input::Input;
use crate::lists::{Counts, write_lists};
use crate::near_duplicates::Decided;
use crate::outcomes::Outcomes;
use crate::report::{
    self, ClusterExample, ClusterPair, CurationReport, CutWords, HotBucketReport, REPORT_PAGE,
};
use crate::run::Run;
use crate::stages::ORIGIN;
use crate::tokenize::WordCuts;
use crate::verdicts::{CompletedStages, Verdicts, similarities};
use crate::{CurationError, CurationPlan};

/// What the stages came to.
pub(crate) struct Made<'p> {
    pub(crate) plan: &'p CurationPlan,
    pub(crate) test_sets: Option<&'p Decontamination>,
    pub(crate) documents: Documents,
    pub(crate) outcomes: Outcomes,
    pub(crate) input: Input,
    pub(crate) contamination: Option<ContaminationReport>,
    pub(crate) decided: Decided,
    pub(crate) shard: ShardSummary,
    pub(crate) cuts: WordCuts,
}

impl Made<'_> {
    /// Writes the data folder `out`, and last its manifest, which makes it whole.
    pub(crate) fn finish(
        self,
        out: &Path,
        run: &Run<'_>,
        started: Instant,
    ) -> Result<CurationReport, CurationError> {
        let folder = DataFolder::create(out, self.plan.existing)?;
        let verdicts = Verdicts::new(&self.outcomes, self.completed(), run)?;
        let shard = ShardReader::open(&run.stages.file(SHARD))?;
        let items = self.test_sets.map_or(&[][..], Decontamination::items);
        let (documents, outcomes) = (&self.documents, &self.outcomes);
        let counts = write_lists(&folder, documents, outcomes, verdicts, &shard, items, run)?;
        let report = self.report(counts, run, started)?;
        folder.write_json(REPORT, &report)?;
        folder.write(REPORT_PAGE, report::page(&report, &config_value(self.plan)).as_bytes())?;
        let stage_files = self.shard.files.iter().map(|file| file.name.as_str()).chain([ORIGIN]);
        for name in stage_files {
            folder.adopt(&run.stages.file(name), name)?;
        }
        folder.finish(self.manifest(&report))?;
        Ok(report)
    }

    fn completed(&self) -> CompletedStages<'_> {
        CompletedStages {
            exact_duplicates: self.plan.exact_duplicates,
            decontaminated: self.test_sets.is_some(),
            near_duplicates: &self.decided,
        }
    }

    fn report(
        &self,
        counts: Counts,
        run: &Run<'_>,
        started: Instant,
    ) -> Result<CurationReport, CurationError> {
        let shown = counts.clusters.shown().map(|pair| pair.removed).collect::<BTreeSet<u32>>();
        let similarities = similarities(&shown, self.completed(), run)?;
        let example = |pair: ClusterPair| -> Result<ClusterExample, CurationError> {
            Ok(ClusterExample {
                kept: self.documents.location_of(pair.kept)?,
                removed: self.documents.location_of(pair.removed)?,
                jaccard: similarities[&pair.removed],
            })
        };
        let (clusters, cluster_sizes) = counts.clusters.report(example)?;
        let hot_buckets = self.decided.hot_buckets.iter().map(|bucket| {
            let example = self.documents.location_of(bucket.example)?;
            Ok(HotBucketReport { members: u64::from(bucket.members), example })
        });
        let mut report = CurationReport {
            documents_in: u64::from(self.outcomes.len()),
            documents_kept: self.shard.documents,
            dropped: self.outcomes.dropped(),
            rejected: self.input.rejected.clone(),
            repaired: self.input.replaced.clone(),
            tokens: self.shard.tokens,
            sentences: (self.plan.sequences == Sequences::Sentences)
                .then_some(self.shard.sequences),
            bytes_in: self.input.bytes,
            seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: corpus::machine::peak_rss_bytes(),
            peak_anonymous_bytes: run.peak_anonymous_bytes(),
            contamination: self.contamination.clone(),
            unicode_repaired: self
                .plan
                .unicode_repair
                .as_ref()
                .map(|_| self.input.unicode_repaired),
            clusters,
            cluster_sizes,
            similarity: self.plan.near_duplicates.is_some().then_some(counts.similarity),
            sources: counts.sources,
            excluded_sources: self.excluded_sources(),
            cut_words: self.cut_words()?,
            hot_buckets: hot_buckets.collect::<Result<_, CurationError>>()?,
            hot_bucket_seconds: self.decided.hot_bucket_time.as_secs_f64(),
            truncated_files: self.input.truncated_files(),
            empty_files: self.input.empty_files.clone(),
            skipped_files: self.input.skipped_files.clone(),
            warnings: Vec::new(),
        };
        let signs = report.signs();
        for sign in &signs {
            tracing::warn!("{sign}");
        }
        // The reader has logged its own when it met the files.
        report.warnings = signs.into_iter().chain(self.input.warnings()).collect();
        Ok(report)
    }

    fn excluded_sources(&self) -> Vec<String> {
        self.plan.excluded_sources.iter().map(|source| source.name.clone()).collect()
    }

    /// The documents of each source in the shard, which has them in the order of the sources.
    fn spans(&self, report: &CurationReport) -> Vec<SourceSpan> {
        let mut first_document = 0;
        let kept = self.plan.sources.iter().filter_map(|source| {
            let counts = report.sources.get(&source.name).filter(|counts| counts.kept > 0)?;
            let span = SourceSpan {
                source: source.name.clone(),
                weight: source.weight,
                first_document,
                documents: counts.kept,
                tokens: counts.tokens,
            };
            first_document += counts.kept;
            Some(span)
        });
        kept.collect()
    }

    fn cut_words(&self) -> Result<Option<CutWords>, CurationError> {
        let Some((document, _)) = self.cuts.first else { return Ok(None) };
        Ok(Some(CutWords {
            number: self.cuts.number,
            documents: self.cuts.documents,
            first: self.documents.location_of(document)?,
        }))
    }

    fn manifest(&self, report: &CurationReport) -> DataManifest {
        let mut manifest = DataManifest::new(self.plan.tokenizer.as_ref(), &self.shard)
            .with_sequences(self.plan.sequences, &self.shard);
        manifest.sources = self.plan.sources.clone();
        manifest.spans = self.spans(report);
        manifest.config = config_value(self.plan);
        manifest.dropped =
            report.dropped.iter().map(|(reason, &count)| (reason.to_string(), count)).collect();
        manifest
    }
}
