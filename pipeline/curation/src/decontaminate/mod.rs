//! Keeping test data out of the corpus.
//!
//! A test set is cut into items: the articles of a text in WikiText's form, the records of a
//! JSONL or Parquet benchmark ([`corpus::test_set`]). A document goes for the first of these rules
//! that is on and applies:
//!
//! 1. `article`: it holds more than half of an item's distinct n-grams, or more than half of its
//!    own are in one item. The first finds the article inside a longer page, the second an excerpt
//!    of it.
//! 2. `ngram`: it shares any n-gram with a test set.
//! 3. `title`: its title is that of an article (`title`).
//!
//! N-grams are runs of eight words by [`NormalizedText`](corpus::NormalizedText), to which case,
//! punctuation and spacing make no difference, and never cross the border of two items. A document
//! or an item of fewer words has none and so matches nothing by them; a test set in which no item
//! has one is an error, for it would flag nothing.
//!
//! All rules take one look at a document: its words are hashed once (`screen`), and only where a
//! run of them is in a test set's hashes are they compared (`ngram_index`). Beside the verdicts the
//! pass measures how much of the test sets the corpus holds (`overlap`).
//!
//! Paper: section 4.1 removes the Wikipedia articles that are in the WikiText103 test set, and does
//! not say how they were recognized: `article` does so by content, in whatever source and under
//! whatever title an article stands, `title` by name. `ngram` is the strictest reading of the
//! overlap that section 5.2 measures.

mod config;
mod ngram_index;
mod overlap;
mod report;
mod screen;
mod title;

use std::mem;
use std::path::PathBuf;

pub use corpus::test_set::TestItem;
use corpus::test_set::{SettingNames, TestSets};
use corpus::{FileSummary, Observer};
use serde::{Deserialize, Serialize};

pub use config::{ArticleConfig, DecontaminationConfig, NGramConfig, Rule, TitleConfig};
pub use ngram_index::Shared;
use ngram_index::{Matches, NGramIndex};
pub use overlap::{ItemOverlap, OverlapReport, Seen, TestSetOverlap};
pub(crate) use report::EXAMPLES_SHOWN;
pub use report::{ContaminationCounts, ContaminationExample, ContaminationReport};
use title::TitleIndex;

use crate::CurationError;
use crate::filter::DropReason;

/// What a configuration calls the settings that messages about test sets speak of.
const SETTINGS: SettingNames = SettingNames {
    test_sets: "decontamination.test_sets",
    list: "test_sets",
    text_key: "decontamination.text_key",
};

/// The test sets, and the rules by which a document counts as a part of them.
pub struct Decontamination {
    items: Vec<TestItem>,
    /// One for each number of words that a rule asks for.
    indexes: Vec<NGramIndex>,
    /// Number of words of the rule `article`, where it is on.
    article: Option<usize>,
    /// Number of words of the rule `ngram`, where it is on.
    ngram: Option<usize>,
    /// The titles, where the rule `title` is on.
    titles: Option<TitleIndex>,
    /// Number of records whose text is null, for each test set that has some.
    null_records: Vec<(PathBuf, u64)>,
    /// Size and checksum of each file.
    files: Vec<(PathBuf, FileSummary)>,
}

/// Why a document is contaminated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contamination {
    /// It covers an item, or is covered by it; the spans are those of n-grams of this item.
    Article(Shared),
    /// It shares n-grams with the test sets, of which this item holds the most; the spans are those
    /// of all.
    NGram(Shared),
    /// It has the title of this item.
    Title {
        /// Index of the item.
        item: usize,
    },
}

impl Contamination {
    /// The rule that applies.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self {
            Self::Article(_) => Rule::Article,
            Self::NGram(_) => Rule::NGram,
            Self::Title { .. } => Rule::Title,
        }
    }

    /// The reason under which the document is counted.
    #[must_use]
    pub fn reason(&self) -> DropReason {
        match self {
            Self::Article(_) | Self::NGram(_) => DropReason::Contaminated,
            Self::Title { .. } => DropReason::Title,
        }
    }

    /// Index of the item that shows it.
    #[must_use]
    pub fn item(&self) -> usize {
        match self {
            Self::Article(shared) | Self::NGram(shared) => shared.item,
            Self::Title { item } => *item,
        }
    }

    /// What document and item have in common, where they were compared by content.
    #[must_use]
    pub fn shared(&self) -> Option<&Shared> {
        match self {
            Self::Article(shared) | Self::NGram(shared) => Some(shared),
            Self::Title { .. } => None,
        }
    }
}

impl Decontamination {
    /// Reads the test sets and makes them ready for the rules that are on.
    ///
    /// # Errors
    ///
    /// [`CurationError::TestSet`] for a file that cannot be read, or with which a rule would find
    /// nothing; [`CurationError::Stopped`] where the observer asks to stop.
    pub fn open(
        config: &DecontaminationConfig,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let mut test_sets = TestSets::new(SETTINGS);
        for path in &config.test_sets {
            test_sets.add(path, &config.text_key, observer).map_err(CurationError::of_test_sets)?;
        }
        let TestSets { contents, null_records, files, .. } = test_sets;
        let article = config.article.as_ref().map(|rule| rule.ngram_words.get());
        let ngram = config.ngram.as_ref().map(|rule| rule.ngram_words.get());
        let mut sizes: Vec<usize> = article.into_iter().chain(ngram).collect();
        sizes.dedup();
        let indexes = sizes
            .into_iter()
            .map(|words| NGramIndex::new(words, &contents, observer))
            .collect::<Result<_, _>>()?;
        let items: Vec<TestItem> = contents.into_iter().map(|(item, _)| item).collect();
        let titles = config.title.as_ref().map(|_| TitleIndex::new(items.iter()));
        if titles.as_ref().is_some_and(|titles| titles.usable() == 0) {
            let problem = "no test set has a level-1 heading without <unk>, so the rule title would \
                           find nothing. Leave [decontamination.title] out";
            return Err(CurationError::test_set(&config.test_sets[0], problem.to_owned()));
        }
        Ok(Self { items, indexes, article, ngram, titles, null_records, files })
    }

    /// All items, in the order of the test sets.
    #[must_use]
    pub fn items(&self) -> &[TestItem] {
        &self.items
    }

    /// Size and checksum of each file of the test sets: two runs with other files differ.
    #[must_use]
    pub fn files(&self) -> &[(PathBuf, FileSummary)] {
        &self.files
    }

    /// The rules that are on, in the order in which they judge.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        let article = self.article.map(|_| Rule::Article);
        let ngram = self.ngram.map(|_| Rule::NGram);
        let title = self.titles.as_ref().map(|_| Rule::Title);
        article.into_iter().chain(ngram).chain(title).collect()
    }

    /// Titles that the rule `title` compares; `None` where it is off.
    #[must_use]
    pub fn num_titles(&self) -> Option<usize> {
        self.titles.as_ref().map(TitleIndex::usable)
    }

    /// Marks for the n-grams that [`judge`](Self::judge) finds in documents.
    #[must_use]
    pub fn nothing_seen(&self) -> Seen {
        Seen::none(self.indexes.iter())
    }

    /// Whether the document of this title and text is contaminated, and by what. Marks the n-grams
    /// that it shares with the test sets in `seen`.
    #[must_use]
    pub fn judge(&self, title: Option<&str>, text: &str, seen: &Seen) -> Option<Contamination> {
        let matches = self.matches(text, seen);
        let of_rule = |ngram_words: Option<usize>| {
            let at =
                self.indexes.iter().position(|index| Some(index.ngram_words) == ngram_words)?;
            Some((&self.indexes[at], matches[at].as_ref()?))
        };
        let by_article = || {
            let (index, matches) = of_rule(self.article)?;
            index.covered_item(text, matches).map(Contamination::Article)
        };
        let by_ngram = || {
            let (index, matches) = of_rule(self.ngram)?;
            Some(Contamination::NGram(index.closest_item(text, matches)))
        };
        let by_title = || {
            let item = self.titles.as_ref()?.find(title?)?;
            Some(Contamination::Title { item })
        };
        by_article().or_else(by_ngram).or_else(by_title)
    }

    /// What a text shares with the test sets, by each index.
    fn matches(&self, text: &str, seen: &Seen) -> Vec<Option<Matches>> {
        let mut words = Vec::new();
        if !self.indexes.is_empty() {
            screen::push_word_hashes(text, &mut words);
        }
        let matches = self.indexes.iter().enumerate().map(|(number, index)| {
            let is_last = number + 1 == self.indexes.len();
            let words = if is_last { mem::take(&mut words) } else { words.clone() };
            let matches = index.matches(text, words);
            if let Some(matches) = &matches {
                seen.mark(number, matches);
            }
            matches
        });
        matches.collect()
    }

    /// The rules that judge by n-grams of this many words.
    fn rules_of(&self, ngram_words: usize) -> Vec<Rule> {
        let article = self.article.filter(|&words| words == ngram_words).map(|_| Rule::Article);
        let ngram = self.ngram.filter(|&words| words == ngram_words).map(|_| Rule::NGram);
        article.into_iter().chain(ngram).collect()
    }
}

#[cfg(test)]
mod tests;
