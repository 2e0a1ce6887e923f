//! How much of a test set stands in a corpus: the paper's 8-gram overlap.
//!
//! The overlap is the share of the test set's n-grams that occur in the corpus, counted by
//! position, where an n-gram counts as often as it stands in the test set, and by distinct n-grams.
//! Words are those of [`NormalizedText`](corpus::NormalizedText), to which case, punctuation and
//! spacing make no difference. It is exact: a match is one of words, not of hashes
//! ([`NGramDictionary`](corpus::ngram::NGramDictionary) says why), where the original used Bloom
//! filters and gave an upper bound.
//!
//! A text in WikiText's form counts as one stream, in which an n-gram belongs to the article that it
//! begins in; the records of a benchmark count each by itself. No n-gram crosses the border of two
//! documents of the corpus.
//!
//! [`measure`] searches the corpus once, whatever the test sets and the numbers of words, and holds
//! of it what is being looked at: memory grows with the test sets. (The tokens of a data folder are
//! read once before, against the hashes of its manifest.) Its result does not depend on the number
//! of threads, nor on how the corpus is cut into files.
//!
//! | module | |
//! |---|---|
//! | `plan` | what to measure |
//! | `test_items` | the test sets, as words |
//! | `corpora`, `scan` | the corpora, and the one pass over them |
//! | `seen`, `document` | what the pass finds: n-grams, and documents that hold many |
//! | `report`, `tables` | what is told of it |
//! | `clean_subset` | a model's score on what the corpus does not hold |
//!
//! # Source
//!
//! Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 5.2,
//! after Radford et al., *Language Models are Unsupervised Multitask Learners* (2019), section 4.

mod clean_subset;
mod corpora;
mod document;
mod plan;
mod report;
mod scan;
mod seen;
mod summary;
mod tables;
mod test_items;

use std::time::Instant;

pub use clean_subset::{CleanSubset, CleanSubsets, ClozeScore, SubsetScore, TextScore};
use corpora::Corpus;
use corpus::Observer;
pub use plan::{ContaminationPlan, MAX_NGRAM_WORDS, NAME};
pub use report::{
    Counts, DocumentOverlap, ItemOverlap, Measured, Metrics, Settings, SharedItem, SizeOverlap,
};
use scan::Scan;
pub use summary::{ContaminationSummary, CorpusSummary, TestSetSummary};
pub(crate) use tables::Tables;
use test_items::TestItems;
use tracing::{info, warn};

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::evaluate::{ScoresOnDisk, evaluate_keeping_scores};
use crate::report::{self as eval_report, EvalReport, TaskResult};

/// Measures how much of each test set stands in the corpora: one result for each, in order.
///
/// With `scoring`, a task for each test set in the same order, each result has the model's score on
/// the whole of its test set beside those on what the corpora do not hold.
///
/// # Errors
///
/// When the plan makes no sense, a test set cannot be used or has no n-gram, a corpus cannot be
/// read or none has a word, scoring fails, or `observer` asks to stop. Nothing is reported then.
///
/// # Panics
///
/// When `scoring` has not one task for each test set.
pub fn measure(
    plan: &ContaminationPlan,
    scoring: Option<&EvalPlan>,
    observer: &dyn Observer,
) -> Result<EvalReport, EvalError> {
    let (report, scores) = measure_keeping_scores(plan, scoring, observer)?;
    scores.forget();
    Ok(report)
}

/// [`measure`] for who has yet to write the report down: the scores of the model stay where they are
/// kept until they are [forgotten](ScoresOnDisk::forget).
///
/// # Errors
///
/// As [`measure`].
///
/// # Panics
///
/// As [`measure`].
pub fn measure_keeping_scores(
    plan: &ContaminationPlan,
    scoring: Option<&EvalPlan>,
    observer: &dyn Observer,
) -> Result<(EvalReport, ScoresOnDisk), EvalError> {
    plan.check()?;
    if let Some(scoring) = scoring {
        assert_eq!(scoring.tasks.len(), plan.test_sets.len(), "one task for each test set");
        // A model that cannot score is better found out before hours of reading.
        scoring.summary(observer)?;
    }
    let start = Instant::now();
    let (test_sets, dictionaries) = test_items::read_all(plan, observer)?;
    let corpora = Corpus::open_all(plan)?;
    warn_of_itself(&test_sets, &corpora);
    for corpus in &corpora {
        corpus.verify(observer)?;
    }
    info!(
        test_sets = test_sets.len(),
        corpora = corpora.len(),
        bytes = corpora.iter().map(Corpus::bytes).sum::<u64>(),
        "searching for n-grams of the test sets"
    );
    let found = Scan::new(plan, &dictionaries).run(corpora, observer)?;
    let seconds = start.elapsed().as_secs_f64();

    let mut results: Vec<TaskResult> = Vec::with_capacity(test_sets.len());
    for (place, (test_set, dictionary)) in test_sets.iter().zip(&dictionaries).enumerate() {
        let (seen, of_test_set) = (found.seen(place), found.of(place));
        let measured = Measured::new(plan, test_set, dictionary, seen, of_test_set);
        results.push(TaskResult {
            task: NAME.to_owned(),
            measured: eval_report::Measured::Contamination(Box::new(measured)),
            partial: false,
            items: None,
            seconds,
        });
    }
    let mut scores = ScoresOnDisk::none();
    if let Some(scoring) = scoring {
        let (scored, kept) = evaluate_keeping_scores(scoring, observer)?;
        scores = kept;
        for (place, (result, scored)) in results.iter_mut().zip(scored.results).enumerate() {
            let dictionary = &dictionaries[place];
            let shares =
                test_sets[place].item_shares(dictionary, plan.primary_size(), found.seen(place));
            result.partial = scored.partial;
            result.seconds += scored.seconds;
            if let eval_report::Measured::Contamination(measured) = &mut result.measured {
                measured.clean_subset = Some(CleanSubsets::of(&scored, &shares));
            }
        }
    }
    Ok((EvalReport { results }, scores))
}

/// Warns where a file is both test set and corpus.
fn warn_of_itself(test_sets: &[TestItems], corpora: &[Corpus]) {
    for corpus in corpora {
        for file in corpus.canonical_files() {
            if test_sets.iter().any(|test_set| test_set.is_of(&file)) {
                warn!(
                    "{}: is a test set and in the corpus too: it measures itself, which is 100%",
                    file.display()
                );
            }
        }
    }
}
