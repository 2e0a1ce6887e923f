//! The data stage from its first file to its last: [`curate`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use corpus::reader::{Item, Sources};
use corpus::shard::{ShardBlock, ShardSummary};
use corpus::tokenizer::{EncodeScratch, Tokenizer};
use corpus::{
    DataFolder, DataFolderWriter, DataManifest, Observer, PROVENANCE, REMOVED, REPORT, Unit,
};
use rayon::prelude::*;

use crate::decontaminate::{Contamination, ContaminationReport, Decontamination, TestItem};
use crate::dedup::{ExactIndex, HotBucket, NearDuplicateRule, SignedDocuments, near_duplicates};
use crate::filter::{DropReason, EmptyFilter, Filter, LengthFilter, Verdict};
use crate::input::Input;
use crate::ledger::{Evidence, Ledger};
use crate::records::{Location, RejectRecord, write_lines, write_provenance, write_removed};
use crate::report::{
    CurationReport, HotBucketReport, largest_clusters, source_counts, source_warnings,
};
use crate::stop::stop_if_asked;
use crate::{CurationError, CurationPlan};

/// Name of the list of records that could not be read.
pub const REJECTS: &str = "rejects.jsonl";

/// Documents that are worked on at once. The observer hears of a block, and is asked for each
/// document: a single one may take a second.
const BLOCK_DOCUMENTS: usize = 512;

/// Documents that one thread encodes into one block of the shard.
const SHARD_BLOCK_DOCUMENTS: usize = 16;

/// Makes a curated corpus of a plan's sources: the data folder `out`, which is there in whole when
/// this returns, and not at all when it fails.
///
/// Works on the threads of the current rayon pool. The shard and every verdict are the same for any
/// number of threads, and for any division of the input into files of the same order.
///
/// # Errors
///
/// Where a source, a test set or the output cannot be used, where nothing is kept, and where the
/// observer asks to stop.
pub fn curate(
    plan: &CurationPlan,
    out: &Path,
    observer: &dyn Observer,
) -> Result<CurationReport, CurationError> {
    let started = Instant::now();

    // 0. What can be refused is refused before the first document is read.
    let folder = DataFolder::create(out, plan.existing)?;
    let test_sets = plan.decontamination.as_ref().map(Decontamination::open).transpose()?;

    // 1. Read every document, in the order that all results follow.
    let (mut ledger, input) = read(plan, observer)?;

    // 2. Drop what is empty or too short.
    apply_filters(&filters(plan), &mut ledger, observer)?;

    // 3. Drop all but the first of equal texts.
    drop_exact_duplicates(&mut ledger, observer)?;

    // 4. Drop test data; before near-duplicates, so that a contaminated document takes no clean
    //    neighbor with it.
    let contamination = match &test_sets {
        Some(test_sets) => Some(drop_contaminated(test_sets, &mut ledger, observer)?),
        None => None,
    };

    // 5. Drop near-duplicates of what is kept.
    let search = match &plan.near_duplicates {
        Some(rule) => drop_near_duplicates(rule, &mut ledger, observer)?,
        None => SearchCost::default(),
    };

    // 6. Write what is left as tokens.
    let kept = ledger.kept();
    if kept.is_empty() {
        return Err(nothing_kept(&ledger, &input));
    }
    let shard = write_shard(&folder, &ledger, &kept, plan.tokenizer.as_ref(), observer)?;

    // 7. Write what became of every document, and last the manifest, which makes the folder whole.
    let test_items = test_sets.as_ref().map_or(&[][..], Decontamination::items);
    write_lists(&folder, &ledger, &kept, &input, test_items)?;
    let report = report(&ledger, input, contamination, &search, &shard, started);
    folder.write_json(REPORT, &report)?;
    folder.finish(manifest(plan, &shard, &report))?;
    Ok(report)
}

/// What the near-duplicate search spent on buckets with many members.
#[derive(Default)]
struct SearchCost {
    hot_buckets: Vec<HotBucketReport>,
    hot_bucket_time: Duration,
}

fn read(plan: &CurationPlan, observer: &dyn Observer) -> Result<(Ledger, Input), CurationError> {
    let mut sources = Sources::open(&plan.sources, plan.read_policy)?;
    let mut ledger = Ledger::default();
    let mut rejects = Vec::new();
    let mut bytes_read = 0;
    observer.begin("read", Some(sources.total_bytes()), Unit::Bytes);
    while let Some(item) = sources.next() {
        match item? {
            Item::Document(document) => ledger.add(document),
            Item::Repaired(document, reject) => {
                ledger.add(document);
                rejects.push(RejectRecord::new(&reject, true));
            }
            Item::NullText(provenance) => ledger.add_without_text(provenance),
            Item::Rejected(reject) => rejects.push(RejectRecord::new(&reject, false)),
        }
        observer.advance(sources.bytes_read() - bytes_read);
        bytes_read = sources.bytes_read();
        stop_if_asked(observer)?;
    }
    observer.finish();
    let input = Input::of(&sources, rejects);
    Ok((ledger, input))
}

/// The filters of a plan, in the order in which they judge.
fn filters(plan: &CurationPlan) -> Vec<Box<dyn Filter>> {
    let mut filters: Vec<Box<dyn Filter>> = vec![Box::new(EmptyFilter)];
    if let Some(min_tokens) = plan.min_tokens {
        filters.push(Box::new(LengthFilter::new(min_tokens, plan.tokenizer.clone())));
    }
    filters
}

/// Drops each document for the first reason that a filter finds.
fn apply_filters(
    filters: &[Box<dyn Filter>],
    ledger: &mut Ledger,
    observer: &dyn Observer,
) -> Result<(), CurationError> {
    let found = for_each_kept(ledger, "filter", observer, |ledger, number| {
        let document = ledger.document(number);
        filters.iter().map(|filter| filter.judge(document)).find(|&it| it != Verdict::Keep)
    })?;
    for (number, verdict) in found {
        if let Some(Verdict::Drop(reason)) = verdict {
            ledger.remove(number, reason, Evidence::Itself);
        }
    }
    Ok(())
}

fn drop_exact_duplicates(
    ledger: &mut Ledger,
    observer: &dyn Observer,
) -> Result<(), CurationError> {
    let kept = ledger.kept();
    observer.begin("exact duplicates", Some(kept.len() as u64), Unit::Documents);
    let mut index = ExactIndex::default();
    let mut copies = Vec::new();
    for block in kept.chunks(BLOCK_DOCUMENTS) {
        for &number in block {
            stop_if_asked(observer)?;
            let first = index.first_copy_or_insert(number, &ledger.document(number).text);
            copies.extend(first.map(|witness| (number, witness)));
        }
        observer.advance(block.len() as u64);
    }
    observer.finish();
    for (number, witness) in copies {
        ledger.remove(number, DropReason::ExactDuplicate, Evidence::Copy { witness });
    }
    Ok(())
}

fn drop_contaminated(
    test_sets: &Decontamination,
    ledger: &mut Ledger,
    observer: &dyn Observer,
) -> Result<ContaminationReport, CurationError> {
    let seen = test_sets.nothing_seen();
    let judged = for_each_kept(ledger, "decontaminate", observer, |ledger, number| {
        test_sets.judge(ledger.document(number), &seen)
    })?;
    let titled =
        judged.iter().filter(|(number, _)| ledger.document(*number).title.is_some()).count();
    let found = judged.iter().filter_map(|(_, found)| found.as_ref());
    let report = ContaminationReport::new(test_sets, &seen, judged.len(), titled, found);
    for (number, found) in judged {
        if let Some(found) = found {
            let reason = match found {
                Contamination::Article(_) | Contamination::NGram(_) => DropReason::Contaminated,
                Contamination::Title { .. } => DropReason::Title,
            };
            ledger.remove(number, reason, Evidence::TestItem(found));
        }
    }
    Ok(report)
}

fn drop_near_duplicates(
    rule: &NearDuplicateRule,
    ledger: &mut Ledger,
    observer: &dyn Observer,
) -> Result<SearchCost, CurationError> {
    // From here to the ledger, documents go by their place among those that are still in.
    let kept = ledger.kept();
    let texts: Vec<&str> =
        kept.iter().map(|&number| ledger.document(number).text.as_str()).collect();

    let bytes = texts.iter().map(|text| text.len() as u64).sum();
    observer.begin("sign documents", Some(bytes), Unit::Bytes);
    let signed = SignedDocuments::sign(&texts, rule, observer)?;
    observer.finish();

    observer.begin("near-duplicates", Some(kept.len() as u64), Unit::Documents);
    let decisions = near_duplicates(&signed, rule, observer)?;
    observer.finish();

    for (place, decision) in decisions.removed.iter().enumerate() {
        if let Some(found) = decision {
            let witness = kept[found.witness as usize];
            let evidence = Evidence::Neighbor { witness, jaccard: found.jaccard };
            ledger.remove(kept[place], DropReason::NearDuplicate, evidence);
        }
    }
    let in_report = |bucket: &HotBucket| HotBucketReport {
        members: u64::from(bucket.members),
        example: Location::of(&ledger.document(kept[bucket.example as usize]).provenance),
    };
    Ok(SearchCost {
        hot_buckets: decisions.hot_buckets.iter().map(in_report).collect(),
        hot_bucket_time: decisions.hot_bucket_time,
    })
}

/// Encodes documents in parallel, some ahead of the writing, and ends each with the token for it.
fn write_shard(
    folder: &DataFolderWriter,
    ledger: &Ledger,
    kept: &[usize],
    tokenizer: &dyn Tokenizer,
    observer: &dyn Observer,
) -> Result<ShardSummary, CurationError> {
    let encode = |documents: &[usize]| -> Result<Vec<ShardBlock>, CurationError> {
        documents
            .par_chunks(SHARD_BLOCK_DOCUMENTS)
            .map_init(EncodeScratch::default, |scratch, documents| {
                let texts = documents.iter().map(|&number| ledger.document(number).text.as_str());
                encode_block(texts, tokenizer, scratch, observer)
            })
            .collect()
    };

    observer.begin("tokenize", Some(kept.len() as u64), Unit::Documents);
    let mut shard = folder.shard(tokenizer.vocab_size())?;
    let mut rest = kept.chunks(BLOCK_DOCUMENTS);
    let mut encoded = rest.next().map(encode);
    while let Some(blocks) = encoded {
        let blocks = blocks?;
        let write = || blocks.iter().try_for_each(|block| shard.push_block(block));
        let next = rest.next();
        let (written, next) = rayon::join(write, || next.map(encode));
        written?;
        observer.advance(blocks.iter().map(ShardBlock::num_documents).sum());
        encoded = next;
    }
    let summary = shard.finish()?;
    observer.finish();
    Ok(summary)
}

/// The tokens of some texts, each ended by the token for it.
fn encode_block<'t>(
    texts: impl Iterator<Item = &'t str>,
    tokenizer: &dyn Tokenizer,
    scratch: &mut EncodeScratch,
    observer: &dyn Observer,
) -> Result<ShardBlock, CurationError> {
    let mut block = ShardBlock::new(tokenizer.vocab_size());
    for text in texts {
        tokenizer.encode_to(text, scratch, &mut |tokens| {
            block.push_tokens(tokens);
            if observer.stop_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        stop_if_asked(observer)?;
        block.push_document([&[tokenizer.eod()][..]]);
    }
    Ok(block)
}

fn write_lists(
    folder: &DataFolderWriter,
    ledger: &Ledger,
    kept: &[usize],
    input: &Input,
    test_items: &[TestItem],
) -> Result<(), CurationError> {
    write_removed(&folder.file(REMOVED), ledger, test_items)?;
    write_provenance(&folder.file(PROVENANCE), ledger, kept)?;
    write_lines(&folder.file(REJECTS), input.rejects.iter())
}

fn report(
    ledger: &Ledger,
    input: Input,
    contamination: Option<ContaminationReport>,
    search: &SearchCost,
    shard: &ShardSummary,
    started: Instant,
) -> CurationReport {
    let sources = source_counts(ledger);
    let mut warnings = source_warnings(&sources);
    warnings.extend(contamination.iter().flat_map(ContaminationReport::warnings));
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    warnings.extend(input.warnings());
    let count_rejects = |replaced| {
        let mut counts = BTreeMap::new();
        for reject in input.rejects.iter().filter(|reject| reject.replaced == replaced) {
            *counts.entry(reject.reason.clone()).or_default() += 1;
        }
        counts
    };
    CurationReport {
        documents_in: ledger.len() as u64,
        documents_kept: shard.documents,
        dropped: ledger.dropped(),
        rejected: count_rejects(false),
        repaired: count_rejects(true),
        tokens: shard.tokens,
        bytes_in: input.bytes,
        seconds: started.elapsed().as_secs_f64(),
        peak_rss_bytes: corpus::machine::peak_rss_bytes(),
        contamination,
        clusters: largest_clusters(ledger),
        sources,
        hot_buckets: search.hot_buckets.clone(),
        hot_bucket_seconds: search.hot_bucket_time.as_secs_f64(),
        warnings,
        truncated_files: input.truncated_files(),
        skipped_files: input.skipped_files,
    }
}

fn manifest(plan: &CurationPlan, shard: &ShardSummary, report: &CurationReport) -> DataManifest {
    let mut manifest = DataManifest::new(plan.tokenizer.as_ref(), shard);
    manifest.sources = plan.sources.clone();
    manifest.config = serde_json::to_value(&plan.config)
        .expect("a config is made of strings, numbers and tables, which JSON has");
    manifest.dropped =
        report.dropped.iter().map(|(reason, &count)| (reason.to_string(), count)).collect();
    manifest
}

fn nothing_kept(ledger: &Ledger, input: &Input) -> CurationError {
    CurationError::NothingKept {
        documents_in: ledger.len() as u64,
        dropped: ledger.dropped(),
        rejected: input.rejects.iter().filter(|reject| !reject.replaced).count() as u64,
    }
}

/// Applies `judge` to every document that is in, in parallel; the answers come in order, with the
/// documents' numbers.
fn for_each_kept<T: Send>(
    ledger: &Ledger,
    stage: &str,
    observer: &dyn Observer,
    judge: impl Fn(&Ledger, usize) -> T + Sync,
) -> Result<Vec<(usize, T)>, CurationError> {
    let kept = ledger.kept();
    observer.begin(stage, Some(kept.len() as u64), Unit::Documents);
    let mut answers = Vec::with_capacity(kept.len());
    for block in kept.chunks(BLOCK_DOCUMENTS) {
        let judge_one = |&number: &usize| {
            stop_if_asked(observer)?;
            Ok((number, judge(ledger, number)))
        };
        let judged: Result<Vec<_>, CurationError> = block.par_iter().map(judge_one).collect();
        answers.extend(judged?);
        observer.advance(block.len() as u64);
    }
    observer.finish();
    Ok(answers)
}
