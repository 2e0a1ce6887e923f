//! The result of the task: shares, counts, settings, the worst documents and items.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::PathBuf;

use corpus::ngram::NGramDictionary;
use corpus::reader::{OnBadFile, OnBadLine};
use serde::Serialize;

use super::clean_subset::CleanSubsets;
use super::document::Matches;
use super::plan::ContaminationPlan;
use super::scan::{DocumentPlace, FoundOfTestSet};
use super::seen::Seen;
use super::test_items::{Item, ItemShare, Overlap, TestItems};
use crate::report;

/// Items that a report lists.
const ITEMS_SHOWN: usize = 20;

/// What the task found of one test set.
///
/// The protocol is always `megatron`: other programs count by other words, or by documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Shares, counts and settings, of the n-grams that a plan begins with.
    #[serde(flatten)]
    pub findings: report::Findings<Metrics, Counts, Settings>,
    /// The same shares and counts for every number of words, ascending.
    pub by_ngram_words: Vec<SizeOverlap>,
    /// The items of which the largest share occurs in the corpus: no more than twenty.
    pub most_matched_items: Vec<ItemOverlap>,
    /// The documents that share the most n-grams with the test set: no more than twenty.
    pub worst_documents: Vec<DocumentOverlap>,
    /// A model's score on what the corpus does not hold; `None` where no model was asked.
    pub clean_subset: Option<CleanSubsets>,
}

/// How much of the test set occurs in the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Share of the positions whose n-gram occurs in the corpus: the number to compare with the
    /// paper's.
    pub position_share: f64,
    /// Share of the distinct n-grams.
    pub distinct_share: f64,
}

/// Sizes of the test set and of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Positions of the test set at which an n-gram begins.
    pub positions: u64,
    /// Those whose n-gram occurs in the corpus.
    pub matched_positions: u64,
    /// Distinct n-grams of the test set.
    pub distinct: u64,
    /// Those that occur in the corpus.
    pub matched_distinct: u64,
    /// Words of the test set.
    pub words: u64,
    /// Articles or records of the test set.
    pub items: u64,
    /// Those in which no n-gram begins.
    pub items_without_ngrams: u64,
    /// Those of which an n-gram occurs in the corpus.
    pub matched_items: u64,
    /// Documents of the corpus.
    pub corpus_documents: u64,
    /// Those that share an n-gram with the test set.
    pub contaminated_documents: u64,
    /// Records of the corpus whose text is null.
    pub corpus_null_texts: u64,
    /// Records of the corpus that could not be read and were passed over.
    pub corpus_rejected: u64,
    /// Files of the corpus of which only the beginning could be read.
    pub corpus_broken_files: u64,
    /// Words of the corpus.
    pub corpus_words: u64,
    /// Bytes of the corpus' text.
    pub corpus_text_bytes: u64,
    /// Bytes of the corpus on disk.
    pub corpus_bytes: u64,
}

/// What the numbers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Words of the n-grams that metrics and counts are of.
    pub ngram_words: usize,
    /// What a word is.
    pub words: &'static str,
    /// What no n-gram crosses.
    pub borders: &'static str,
    /// How n-grams are compared.
    pub comparison: &'static str,
    /// The test set.
    pub data: PathBuf,
    /// The corpora.
    pub corpora: Vec<PathBuf>,
    /// Key or column of the text, where texts are records.
    pub text_key: String,
    /// What was done with records of the corpora that cannot be read.
    pub on_bad_line: OnBadLine,
    /// What was done with files of the corpora that break off.
    pub on_bad_file: OnBadFile,
}

/// The overlap by n-grams of one number of words.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizeOverlap {
    /// Words of an n-gram.
    pub ngram_words: usize,
    /// As in [`Metrics`].
    pub position_share: f64,
    /// As in [`Metrics`].
    pub distinct_share: f64,
    /// As in [`Counts`].
    pub positions: u64,
    /// As in [`Counts`].
    pub matched_positions: u64,
    /// As in [`Counts`].
    pub distinct: u64,
    /// As in [`Counts`].
    pub matched_distinct: u64,
    /// As in [`Counts`].
    pub matched_items: u64,
    /// As in [`Counts`].
    pub items_without_ngrams: u64,
}

/// How much of one item occurs in the corpus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemOverlap {
    /// File of the test set.
    pub file: String,
    /// Line of the heading or record, from 1.
    pub line: u64,
    /// The title of an article, the identifier of a record.
    pub name: Option<String>,
    /// N-grams that begin in it.
    pub ngrams: u64,
    /// Those that occur in the corpus.
    pub matched_ngrams: u64,
    /// The second divided by the first.
    pub share: f64,
}

/// What a document of the corpus shares with the test set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DocumentOverlap {
    /// Distinct n-grams that both hold.
    pub shared_ngrams: u64,
    /// Positions of the document at which one of them begins.
    pub matched_positions: u64,
    /// Positions of the document at which an n-gram begins.
    pub positions: u64,
    /// The corpus, as it was given.
    pub corpus: String,
    /// Number of the document in its data folder, from 0; `None` in a file of text.
    pub document: Option<u64>,
    /// Name of the source.
    pub source: Option<String>,
    /// The file it was read from; of a data folder, the one it was made of.
    pub file: Option<String>,
    /// Its line or row there, from 1; `None` where it is the whole file.
    pub line: Option<u64>,
    /// Its own identifier.
    pub id: Option<String>,
    /// The item of the test set with which it shares the most, the first of equals.
    pub item: SharedItem,
    /// The beginning of the longest passage that is covered by shared n-grams.
    pub excerpt: String,
}

/// The item with which a document shares the most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedItem {
    /// File of the test set.
    pub file: String,
    /// Line of the heading or record, from 1.
    pub line: u64,
    /// The title of an article, the identifier of a record.
    pub name: Option<String>,
    /// Distinct n-grams that both hold.
    pub shared_ngrams: u64,
}

impl SizeOverlap {
    fn new(overlap: &Overlap) -> Self {
        Self {
            ngram_words: overlap.ngram_words,
            position_share: share(overlap.matched_positions, overlap.positions),
            distinct_share: share(overlap.matched_distinct, overlap.distinct),
            positions: overlap.positions,
            matched_positions: overlap.matched_positions,
            distinct: overlap.distinct,
            matched_distinct: overlap.matched_distinct,
            matched_items: overlap.matched_items,
            items_without_ngrams: overlap.items_without_ngrams,
        }
    }
}

impl Measured {
    /// What is told of `test_set`.
    pub(super) fn new(
        plan: &ContaminationPlan,
        test_set: &TestItems,
        dictionary: &NGramDictionary,
        seen: &Seen,
        found: &FoundOfTestSet,
    ) -> Self {
        let primary = plan.primary_size();
        let overlaps = test_set.overlaps(dictionary, seen);
        let by_ngram_words: Vec<SizeOverlap> = overlaps.iter().map(SizeOverlap::new).collect();
        let of_primary = &by_ngram_words[primary];
        let shares = test_set.item_shares(dictionary, primary, seen);
        let documents = found.worst.iter().map(|(place, matches)| {
            DocumentOverlap::new(place, matches, test_set, dictionary, primary)
        });
        Self {
            findings: report::Findings {
                protocol: "megatron",
                metrics: Metrics {
                    position_share: of_primary.position_share,
                    distinct_share: of_primary.distinct_share,
                },
                counts: Counts {
                    positions: of_primary.positions,
                    matched_positions: of_primary.matched_positions,
                    distinct: of_primary.distinct,
                    matched_distinct: of_primary.matched_distinct,
                    words: dictionary.num_words() as u64,
                    items: test_set.items.len() as u64,
                    items_without_ngrams: of_primary.items_without_ngrams,
                    matched_items: of_primary.matched_items,
                    corpus_documents: found.read.documents,
                    contaminated_documents: found.contaminated,
                    corpus_null_texts: found.read.null_texts,
                    corpus_rejected: found.read.rejected,
                    corpus_broken_files: found.read.broken_files,
                    corpus_words: found.read.words,
                    corpus_text_bytes: found.read.text_bytes,
                    corpus_bytes: found.read.bytes,
                },
                settings: settings(plan, test_set, of_primary.ngram_words),
            },
            most_matched_items: most_matched(&test_set.items, &shares),
            worst_documents: documents.collect(),
            by_ngram_words,
            clean_subset: None,
        }
    }
}

fn settings(plan: &ContaminationPlan, test_set: &TestItems, ngram_words: usize) -> Settings {
    Settings {
        ngram_words,
        words: "runs of a to z and 0 to 9 in the lower-cased text",
        borders: if test_set.is_stream {
            "documents of the corpus; the test set is one stream a file, and an n-gram belongs to \
             the article that it begins in"
        } else {
            "documents of the corpus, items of the test set"
        },
        comparison: "exact, word by word",
        data: test_set.path.clone(),
        corpora: plan.paths(),
        text_key: plan.text_key.clone(),
        on_bad_line: plan.read_policy.on_bad_line,
        on_bad_file: plan.read_policy.on_bad_file,
    }
}

/// The items of which the largest share was seen.
fn most_matched(items: &[Item], shares: &[ItemShare]) -> Vec<ItemOverlap> {
    let mut matched: Vec<(&Item, &ItemShare)> =
        items.iter().zip(shares).filter(|(_, share)| share.matched > 0).collect();
    // Shares are compared as fractions, without the rounding of a division; a stable sort keeps
    // file order among equals.
    matched.sort_by(|(_, a), (_, b)| {
        let cross = |a: &ItemShare, b: &ItemShare| u128::from(a.matched) * u128::from(b.ngrams);
        Reverse(cross(a, b)).cmp(&Reverse(cross(b, a)))
    });
    matched.truncate(ITEMS_SHOWN);
    let overlaps = matched.into_iter().map(|(item, of_item)| ItemOverlap {
        file: item.identity.file.display().to_string(),
        line: item.identity.line,
        name: item.identity.name().map(str::to_owned),
        ngrams: of_item.ngrams,
        matched_ngrams: of_item.matched,
        share: share(of_item.matched, of_item.ngrams),
    });
    overlaps.collect()
}

impl DocumentOverlap {
    fn new(
        place: &DocumentPlace,
        matches: &Matches,
        test_set: &TestItems,
        dictionary: &NGramDictionary,
        size: usize,
    ) -> Self {
        let DocumentPlace { corpus, document, source, file, line, id } = place.clone();
        Self {
            shared_ngrams: matches.numbers.len() as u64,
            matched_positions: matches.positions,
            positions: matches.ngrams,
            corpus,
            document,
            source,
            file,
            line,
            id,
            item: SharedItem::of(matches, test_set, dictionary, size),
            excerpt: matches.excerpt.clone(),
        }
    }
}

impl SharedItem {
    fn of(
        matches: &Matches,
        test_set: &TestItems,
        dictionary: &NGramDictionary,
        size: usize,
    ) -> Self {
        let shared = |item: &Item| {
            let numbers = dictionary.numbers(size, item.words.clone()).flatten();
            let shared = numbers.filter(|number| matches.numbers.binary_search(number).is_ok());
            shared.collect::<HashSet<u32>>().len() as u64
        };
        let counts = test_set.items.iter().map(|item| (item, shared(item)));
        // The first of equals: `max_by_key` gives the last.
        let (item, shared_ngrams) = counts
            .rev()
            .max_by_key(|&(_, shared)| shared)
            .expect("a test set without items has no n-gram that a document could share");
        Self {
            file: item.identity.file.display().to_string(),
            line: item.identity.line,
            name: item.identity.name().map(str::to_owned),
            shared_ngrams,
        }
    }
}

/// A part of a whole; of nothing, nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
