//! How much of the test sets a corpus holds, measured beside the verdicts: the overlap that the
//! paper reports.
//!
//! The overlap of a test set is the share of its n-grams that occur in the corpus (Radford et al.
//! 2019, section 4, whose measure the Megatron-LM paper repeats in section 5.2). It is counted by
//! position, where an n-gram counts as often as it occurs in the test set, and by distinct n-grams.
//! The corpus is every document that reaches the decontamination, those that then go among them.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use corpus::test_set::TestItem;
use serde::{Deserialize, Serialize};

use super::Decontamination;
use super::config::Rule;
use super::ngram_index::{ItemNGrams, Matches, NGramIndex, distinct};

/// Items of a test set that a report shows.
const ITEMS_SHOWN: usize = 100;

/// Which n-grams of the test sets some document held: a bit for each. Bits are only ever set, so
/// that threads need no order.
///
/// What was seen in parts of a corpus is written and read as numbers of 64 bits each, and
/// [merged](Self::merge).
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(Vec<Vec<AtomicU64>>);

impl Seen {
    /// Nothing seen yet, for each of the indexes.
    pub(super) fn none<'i>(indexes: impl Iterator<Item = &'i NGramIndex>) -> Self {
        let marks = |index: &NGramIndex| {
            (0..index.num_distinct().div_ceil(64)).map(|_| AtomicU64::new(0)).collect()
        };
        Self(indexes.map(marks).collect())
    }

    /// Marks what a document shares with the test sets, in the index of this number.
    pub(super) fn mark(&self, index: usize, matches: &Matches) {
        for &ngram in &matches.ngrams {
            let (word, bit) = (ngram as usize / 64, 1 << (ngram % 64));
            // Nearly all are marked already where a corpus holds a benchmark many times.
            if self.0[index][word].load(Ordering::Relaxed) & bit == 0 {
                self.0[index][word].fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Adds what was seen in another part of the corpus.
    ///
    /// # Panics
    ///
    /// Where `other` belongs to other test sets.
    pub fn merge(&self, other: &Self) {
        assert!(self.has_shape_of(other), "marks of the n-grams of other test sets");
        for (word, others) in self.0.iter().flatten().zip(other.0.iter().flatten()) {
            word.fetch_or(others.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether `other` has room for the same n-grams, as it has where it belongs to the same test
    /// sets and rules.
    #[must_use]
    pub fn has_shape_of(&self, other: &Self) -> bool {
        self.0.iter().map(Vec::len).eq(other.0.iter().map(Vec::len))
    }
}

/// The overlap of the test sets with a corpus, in n-grams of one number of words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlapReport {
    /// Words of one n-gram.
    pub ngram_words: usize,
    /// The rules that judge by these n-grams.
    pub rules: Vec<Rule>,
    /// Each test set.
    pub test_sets: Vec<TestSetOverlap>,
}

/// The overlap of one test set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestSetOverlap {
    /// The file.
    pub file: String,
    /// Number of articles or records.
    pub items: u64,
    /// Those of fewer words than an n-gram.
    pub items_without_ngrams: u64,
    /// Positions at which an n-gram begins.
    pub ngrams: u64,
    /// Those whose n-gram occurs in the corpus.
    pub matched_ngrams: u64,
    /// The second divided by the first.
    pub share: f64,
    /// Number of distinct n-grams.
    pub distinct_ngrams: u64,
    /// Those that occur in the corpus.
    pub matched_distinct_ngrams: u64,
    /// Number of items of which an n-gram occurs in the corpus.
    pub matched_items: u64,
    /// The hundred of them of which the largest share occurs.
    pub most_matched: Vec<ItemOverlap>,
}

/// The overlap of one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemOverlap {
    /// Line of the heading or record.
    pub line: u64,
    /// Its title or identifier.
    pub id: Option<String>,
    /// Positions at which an n-gram begins.
    pub ngrams: u64,
    /// Those whose n-gram occurs in the corpus.
    pub matched_ngrams: u64,
    /// The second divided by the first.
    pub share: f64,
}

impl Decontamination {
    /// The overlap with the documents that were judged, for each number of words.
    pub fn overlap(&self, seen: &Seen) -> Vec<OverlapReport> {
        let reports = self.indexes.iter().zip(&seen.0).map(|(index, seen)| {
            let paired: Vec<_> = self.items.iter().zip(index.items()).collect();
            OverlapReport {
                ngram_words: index.ngram_words,
                rules: self.rules_of(index.ngram_words),
                test_sets: paired
                    .chunk_by(|(one, _), (next, _)| one.file == next.file)
                    .map(|items| of_test_set(&items[0].0.file, items, seen))
                    .collect(),
            }
        });
        reports.collect()
    }
}

impl OverlapReport {
    /// Distinct n-grams of each test set, and those of them that occur in the corpus.
    pub(super) fn distinct(&self) -> (u64, u64) {
        let sum = |of: fn(&TestSetOverlap) -> u64| self.test_sets.iter().map(of).sum();
        (sum(|it| it.distinct_ngrams), sum(|it| it.matched_distinct_ngrams))
    }

    /// A warning where test sets have items that nothing can be found to share an n-gram with.
    pub(super) fn warning(&self) -> Option<String> {
        let without: u64 = self.test_sets.iter().map(|it| it.items_without_ngrams).sum();
        let items: u64 = self.test_sets.iter().map(|it| it.items).sum();
        let words = self.ngram_words;
        (without > 0).then(|| {
            format!(
                "{without} of {items} items of the test sets have fewer than {words} words, and \
                 match nothing by n-grams"
            )
        })
    }
}

fn of_test_set(
    file: &Path,
    items: &[(&TestItem, &ItemNGrams)],
    seen: &[AtomicU64],
) -> TestSetOverlap {
    let is_seen =
        |ngram: u32| seen[ngram as usize / 64].load(Ordering::Relaxed) & 1 << (ngram % 64) != 0;
    let mut matched: Vec<ItemOverlap> =
        items.iter().map(|(item, ngrams)| of_item(item, ngrams, is_seen)).collect();
    let items_without_ngrams = matched.iter().filter(|item| item.ngrams == 0).count() as u64;
    let ngrams = matched.iter().map(|item| item.ngrams).sum();
    let matched_ngrams = matched.iter().map(|item| item.matched_ngrams).sum();

    let positions: Vec<u32> =
        items.iter().flat_map(|(_, ngrams)| &*ngrams.positions).copied().collect();
    let distinct = distinct(&positions);

    matched.retain(|item| item.matched_ngrams > 0);
    let matched_items = matched.len() as u64;
    // Shares are compared as fractions, without the rounding of a division; a stable sort keeps
    // file order.
    matched.sort_by(|a, b| {
        let cross = |a: &ItemOverlap, b: &ItemOverlap| a.matched_ngrams * b.ngrams;
        Reverse(cross(a, b)).cmp(&Reverse(cross(b, a)))
    });
    matched.truncate(ITEMS_SHOWN);
    TestSetOverlap {
        file: file.display().to_string(),
        items: items.len() as u64,
        items_without_ngrams,
        ngrams,
        matched_ngrams,
        share: share(matched_ngrams, ngrams),
        distinct_ngrams: distinct.len() as u64,
        matched_distinct_ngrams: distinct.iter().filter(|&&ngram| is_seen(ngram)).count() as u64,
        matched_items,
        most_matched: matched,
    }
}

fn of_item(item: &TestItem, ngrams: &ItemNGrams, is_seen: impl Fn(u32) -> bool) -> ItemOverlap {
    let all = ngrams.positions.len() as u64;
    let matched = ngrams.positions.iter().filter(|&&ngram| is_seen(ngram)).count() as u64;
    ItemOverlap {
        line: item.line,
        id: item.name().map(str::to_owned),
        ngrams: all,
        matched_ngrams: matched,
        share: share(matched, all),
    }
}

/// A part of a whole; of nothing, nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
