//! [`ContaminationPlan`]: which test sets are looked for in which corpora.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use corpus::reader::{ReadPolicy, SourceConfig};

use crate::error::EvalError;

/// What reports call the task.
pub const NAME: &str = "contamination";

/// The words of an n-gram by which the paper measures overlap.
const PAPER_NGRAM_WORDS: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");

/// Where records have their text, unless it is said otherwise.
pub(super) const DEFAULT_TEXT_KEY: &str = "text";

/// Most words of an n-gram: beyond, a match is one of whole passages.
pub const MAX_NGRAM_WORDS: usize = 100;

/// What to look for, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct ContaminationPlan {
    /// The test sets, a result for each: files, or folders or globs of them. JSONL and Parquet have
    /// an item a record, everything else is text in WikiText's form.
    pub test_sets: Vec<PathBuf>,
    /// The corpora, which together are what the test sets are looked for in: data folders, or files,
    /// folders and globs as the data stage reads them.
    pub corpora: Vec<PathBuf>,
    /// Corpora whose form is not found but written down, as a curation has them. [`measure`] looks
    /// in them and in `corpora` alike.
    ///
    /// [`measure`]: super::measure
    pub sources: Vec<SourceConfig>,
    /// Words of an n-gram, in any order. Results begin with those of 8 words, or with the first
    /// where 8 is not among them.
    pub ngram_words: Vec<NonZeroUsize>,
    /// Key of JSONL, or column of Parquet, that holds the text, in `test_sets` and `corpora`.
    pub text_key: String,
    /// What is done with records and files of the corpora that cannot be read. Those of test sets
    /// are errors.
    pub read_policy: ReadPolicy,
}

impl ContaminationPlan {
    /// The paper's measure: n-grams of 8 words.
    #[must_use]
    pub fn new(test_sets: Vec<PathBuf>, corpora: Vec<PathBuf>) -> Self {
        Self {
            test_sets,
            corpora,
            sources: Vec::new(),
            ngram_words: vec![PAPER_NGRAM_WORDS],
            text_key: DEFAULT_TEXT_KEY.to_owned(),
            read_policy: ReadPolicy::default(),
        }
    }

    /// Refuses what makes no sense before anything is read.
    ///
    /// # Errors
    ///
    /// When there is no test set, no corpus, or no usable number of words.
    pub fn check(&self) -> Result<(), EvalError> {
        if self.test_sets.is_empty() {
            return Err(EvalError::NothingGiven {
                what: "test set",
                remedy: "name at least one with --data",
            });
        }
        if self.corpora.is_empty() && self.sources.is_empty() {
            return Err(EvalError::NothingGiven {
                what: "corpus",
                remedy: "name a data folder, or files or folders of text, with --corpus",
            });
        }
        if self.ngram_words.is_empty() {
            return Err(EvalError::NothingGiven {
                what: "number of words",
                remedy: "give one with --n, such as 8",
            });
        }
        match self.ngram_words.iter().find(|words| words.get() > MAX_NGRAM_WORDS) {
            None => Ok(()),
            Some(words) => Err(EvalError::Setting {
                field: "n",
                value: words.get(),
                problem: format!("is too long an n-gram; allowed: 1 to {MAX_NGRAM_WORDS} words"),
            }),
        }
    }

    /// The paths of all corpora, as they were given.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let written = self.sources.iter().flat_map(|source| &source.paths);
        self.corpora.iter().chain(written).cloned().collect()
    }

    /// The numbers of words, ascending and each once.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.ngram_words.iter().map(|words| words.get()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The place among [`sizes`](Self::sizes) of the one that results begin with.
    pub(super) fn primary_size(&self) -> usize {
        let first = self.ngram_words[0];
        let primary = self.ngram_words.iter().find(|&&words| words == PAPER_NGRAM_WORDS);
        let primary = primary.unwrap_or(&first).get();
        self.sizes().iter().position(|&words| words == primary).expect("it is one of them")
    }
}
