//! A test set as its items' words, and how many of its n-grams were seen.

use std::ops::Range;
use std::path::{Path, PathBuf};

use corpus::ngram::{NGramDictionary, for_each_word};
use corpus::test_set::{SettingNames, TestItem, TestSets};
use corpus::{CorpusError, Observer};
use tracing::warn;

use super::plan::ContaminationPlan;
use super::seen::Seen;
use crate::error::EvalError;

/// What the program calls the settings that messages about test sets speak of.
const SETTINGS: SettingNames =
    SettingNames { test_sets: "--data", list: "--data", text_key: "--text-key" };

/// A test set.
#[derive(Debug)]
pub(super) struct TestItems {
    /// As it is given.
    pub(super) path: PathBuf,
    /// Its items, in order.
    pub(super) items: Vec<Item>,
    /// Whether some of its n-grams belong to an item and reach into the next.
    pub(super) is_stream: bool,
    /// Its files, by paths without links.
    files: Vec<PathBuf>,
}

/// An item of a test set.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) identity: TestItem,
    /// Its words, as places of the test set's dictionary.
    pub(super) words: Range<usize>,
}

/// How many n-grams of one size a test set or an item has, and how many of them were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Overlap {
    pub(super) ngram_words: usize,
    pub(super) positions: u64,
    pub(super) matched_positions: u64,
    pub(super) distinct: u64,
    pub(super) matched_distinct: u64,
    /// Items of which an n-gram was seen.
    pub(super) matched_items: u64,
    /// Items without an n-gram.
    pub(super) items_without_ngrams: u64,
}

/// How many n-grams begin in an item, and how many of them were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemShare {
    /// Line of the heading or record.
    pub(super) line: u64,
    pub(super) ngrams: u64,
    pub(super) matched: u64,
}

/// Reads all test sets of a plan.
///
/// # Errors
///
/// For a test set that cannot be read, is empty, or has no n-gram of some size, and where the
/// observer asks to stop.
pub(super) fn read_all(
    plan: &ContaminationPlan,
    observer: &dyn Observer,
) -> Result<(Vec<TestItems>, Vec<NGramDictionary>), EvalError> {
    let mut reader = TestSets::new(SETTINGS);
    let (mut test_sets, mut dictionaries) = (Vec::new(), Vec::new());
    for path in &plan.test_sets {
        reader.add(path, &plan.text_key, observer)?;
        let contents = std::mem::take(&mut reader.contents);
        let (test_set, dictionary) = TestItems::new(path, contents, plan)?;
        test_sets.push(test_set);
        dictionaries.push(dictionary);
    }
    for (path, count) in &reader.null_records {
        warn!("{}: {count} records have null for a text, and match nothing", path.display());
    }
    Ok((test_sets, dictionaries))
}

impl TestItems {
    fn new(
        path: &Path,
        contents: Vec<(TestItem, String)>,
        plan: &ContaminationPlan,
    ) -> Result<(Self, NGramDictionary), EvalError> {
        let problem =
            |problem| EvalError::Corpus(CorpusError::TestSet { path: path.into(), problem });
        let bytes: usize = contents.iter().map(|(_, text)| text.len()).sum();
        if bytes > NGramDictionary::MAX_BYTES {
            let most = NGramDictionary::MAX_BYTES >> 30;
            return Err(problem(format!("more than {most} GiB of text. Measure it in parts")));
        }
        let texts = streams(&contents);
        let dictionary = NGramDictionary::new(&plan.sizes(), texts.iter().map(String::as_str));
        let is_stream = texts.len() < contents.len();
        drop(texts);
        for (size, words) in dictionary.sizes().enumerate() {
            if dictionary.num_distinct(size) == 0 {
                return Err(problem(format!(
                    "no item has the {words} words of an n-gram, so there is nothing to measure. \
                     Give a lower --n, or another file with --data"
                )));
            }
        }
        let mut files: Vec<PathBuf> =
            contents.iter().filter_map(|(item, _)| item.file.canonicalize().ok()).collect();
        files.dedup();
        let mut end = 0;
        let items = contents.into_iter().map(|(identity, text)| {
            let start = end;
            for_each_word(&text, |_, _| end += 1);
            Item { identity, words: start..end }
        });
        let test_set = Self { path: path.to_owned(), items: items.collect(), is_stream, files };
        Ok((test_set, dictionary))
    }

    /// Whether the file of this path, which has no links, is one of the test set.
    pub(super) fn is_of(&self, file: &Path) -> bool {
        self.files.iter().any(|own| own == file)
    }

    /// What was seen of each item, by n-grams of one size.
    pub(super) fn item_shares(
        &self,
        dictionary: &NGramDictionary,
        size: usize,
        seen: &Seen,
    ) -> Vec<ItemShare> {
        let share = |item: &Item| {
            let mut share = ItemShare { line: item.identity.line, ngrams: 0, matched: 0 };
            for number in dictionary.numbers(size, item.words.clone()).flatten() {
                share.ngrams += 1;
                share.matched += u64::from(seen.has(size, number));
            }
            share
        };
        self.items.iter().map(share).collect()
    }

    /// What was seen of the whole test set, by n-grams of each size.
    pub(super) fn overlaps(&self, dictionary: &NGramDictionary, seen: &Seen) -> Vec<Overlap> {
        let of_size = |(size, ngram_words): (usize, usize)| {
            let shares = self.item_shares(dictionary, size, seen);
            let count = |is_counted: fn(&ItemShare) -> bool| {
                shares.iter().filter(|&share| is_counted(share)).count() as u64
            };
            Overlap {
                ngram_words,
                positions: shares.iter().map(|share| share.ngrams).sum(),
                matched_positions: shares.iter().map(|share| share.matched).sum(),
                distinct: dictionary.num_distinct(size) as u64,
                matched_distinct: seen.count(size),
                matched_items: count(|share| share.matched > 0),
                items_without_ngrams: count(|share| share.ngrams == 0),
            }
        };
        dictionary.sizes().enumerate().map(of_size).collect()
    }
}

/// The texts across which no n-gram reaches: the articles of a file are one, a record is one.
fn streams(contents: &[(TestItem, String)]) -> Vec<String> {
    let files = contents.chunk_by(|(one, _), (next, _)| one.file == next.file);
    let texts = files.flat_map(|items| {
        let has_articles = items.iter().any(|(item, _)| item.title.is_some());
        if has_articles {
            vec![items.iter().map(|(_, text)| text.as_str()).collect()]
        } else {
            items.iter().map(|(_, text)| text.clone()).collect()
        }
    });
    texts.collect()
}
