//! Table `[decontamination]`: test sets, and one table for each rule that is on.
//!
//! ```toml
//! [decontamination]
//! test_sets = ["wiki.test.tokens", "lambada_test.jsonl"]
//! [decontamination.article]     # what is on where no rule has a table
//! ngram_words = 8
//! [decontamination.ngram]
//! ngram_words = 8
//! [decontamination.title]
//! ```

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The n-grams by which the paper measures overlap (section 5.2).
const PAPER_NGRAM_WORDS: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");

/// Table `[decontamination]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecontaminationConfig {
    /// Files whose content must not be trained on, or folders or globs of them: JSONL (`*.jsonl`,
    /// `*.ndjson`, `*.json`) and Parquet with one item a record, all else as text with articles
    /// under level-1 headings as in WikiText; `.gz` and `.zst` are unpacked.
    pub test_sets: Vec<PathBuf>,
    /// Key of JSONL, or column of Parquet, that holds the text of a test set's records.
    #[serde(default = "text")]
    pub text_key: String,
    /// A document goes if it covers an item of a test set, or an item covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub article: Option<ArticleConfig>,
    /// A document goes if it shares any n-gram with a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ngram: Option<NGramConfig>,
    /// A document goes if it has the title of an article of a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<TitleConfig>,
}

/// Table `[decontamination.article]`: a document goes if it holds more than half of an item's
/// n-grams, or more than half of its own are in one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArticleConfig {
    /// Words of one n-gram.
    pub ngram_words: NonZeroUsize,
}

impl Default for ArticleConfig {
    fn default() -> Self {
        Self { ngram_words: PAPER_NGRAM_WORDS }
    }
}

/// Table `[decontamination.ngram]`: a document goes if it shares any n-gram with a test set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NGramConfig {
    /// Words of one n-gram.
    pub ngram_words: NonZeroUsize,
}

impl Default for NGramConfig {
    fn default() -> Self {
        Self { ngram_words: PAPER_NGRAM_WORDS }
    }
}

/// Table `[decontamination.title]`: a document goes if its title is a level-1 heading of a test
/// set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TitleConfig {}

/// A rule by which a document counts as test data, named as its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// `[decontamination.article]`.
    Article,
    /// `[decontamination.ngram]`.
    NGram,
    /// `[decontamination.title]`.
    Title,
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Article => "article",
            Self::NGram => "ngram",
            Self::Title => "title",
        })
    }
}

impl DecontaminationConfig {
    /// The rule `article` against some test sets.
    #[must_use]
    pub fn by_article(test_sets: Vec<PathBuf>) -> Self {
        Self {
            test_sets,
            text_key: text(),
            article: Some(ArticleConfig::default()),
            ngram: None,
            title: None,
        }
    }

    /// Turns the rule `article` on where no rule is.
    pub(crate) fn with_a_rule(mut self) -> Self {
        if self.article.is_none() && self.ngram.is_none() && self.title.is_none() {
            self.article = Some(ArticleConfig::default());
        }
        self
    }
}

fn text() -> String {
    "text".to_owned()
}
