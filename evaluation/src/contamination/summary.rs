//! What a plan amounts to, found without reading the corpora.

use std::path::PathBuf;

use corpus::Observer;
use serde::Serialize;

use super::corpora::Corpus;
use super::plan::ContaminationPlan;
use super::test_items;
use crate::error::EvalError;

/// What a plan amounts to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContaminationSummary {
    /// Words of the n-grams, ascending.
    pub ngram_words: Vec<usize>,
    /// The test sets.
    pub test_sets: Vec<TestSetSummary>,
    /// The corpora.
    pub corpora: Vec<CorpusSummary>,
    /// Bytes that would be read of the corpora.
    pub corpus_bytes: u64,
}

/// A test set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestSetSummary {
    /// As it was given.
    pub data: PathBuf,
    /// Articles or records.
    pub items: u64,
    /// Words.
    pub words: u64,
    /// Positions of the n-grams of each number of words.
    pub positions: Vec<u64>,
}

/// A corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CorpusSummary {
    /// As it was given.
    pub corpus: PathBuf,
    /// How its documents lie in it: `data folder`, `JSONL`, `Parquet` or `text`.
    pub form: &'static str,
    /// Files, where it consists of files of text.
    pub files: Option<u64>,
    /// Documents, where they are counted without reading.
    pub documents: Option<u64>,
    /// Bytes on disk.
    pub bytes: u64,
}

impl ContaminationPlan {
    /// What the plan amounts to. Reads the test sets, and of the corpora what files there are and
    /// the manifests of data folders.
    ///
    /// # Errors
    ///
    /// What [`measure`](super::measure) would find wrong before it reads the corpora, or that
    /// `observer` asks to stop.
    pub fn summary(&self, observer: &dyn Observer) -> Result<ContaminationSummary, EvalError> {
        self.check()?;
        let (test_sets, dictionaries) = test_items::read_all(self, observer)?;
        let corpora = Corpus::open_all(self)?;
        let test_sets = test_sets.iter().zip(&dictionaries).map(|(test_set, dictionary)| {
            let positions = |size| dictionary.numbers(size, 0..dictionary.num_words()).flatten();
            let sizes = 0..dictionary.sizes().len();
            TestSetSummary {
                data: test_set.path.clone(),
                items: test_set.items.len() as u64,
                words: dictionary.num_words() as u64,
                positions: sizes.map(|size| positions(size).count() as u64).collect(),
            }
        });
        Ok(ContaminationSummary {
            ngram_words: self.sizes(),
            test_sets: test_sets.collect(),
            corpus_bytes: corpora.iter().map(Corpus::bytes).sum(),
            corpora: corpora.iter().map(CorpusSummary::of).collect(),
        })
    }
}

impl CorpusSummary {
    fn of(corpus: &Corpus) -> Self {
        Self {
            corpus: corpus.path().to_owned(),
            form: corpus.form(),
            files: corpus.files(),
            documents: corpus.documents(),
            bytes: corpus.bytes(),
        }
    }
}
