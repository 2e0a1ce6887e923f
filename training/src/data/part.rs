//! The samples of one part of a data folder, for whoever evaluates on it: training, validation or
//! test documents, once, in the order of the data.
//!
//! They are the very samples that a training's validation takes, where it takes all: the same
//! division of the documents, and the same cut of their tokens.

use std::path::Path;
use std::str::FromStr;

use corpus::{Observer, TokenizerIdentity};
use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::input::DataInputs;
use super::samples::SourceSamples;
use super::split::SplitWeights;
use super::stream::TokenStream;
use crate::TrainError;

/// Which documents of a data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Those that are trained on.
    Train,
    /// Those of the validation loss.
    #[default]
    Validation,
    /// Those that training never reads.
    Test,
}

/// A part of a data folder or shard, cut into samples.
#[derive(Debug)]
pub struct DataPart {
    inputs: DataInputs,
    samples: SourceSamples,
}

impl Part {
    /// The word for it, in configurations and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Train, Self::Validation, Self::Test]
            .into_iter()
            .find(|part| part.name() == name)
            .ok_or_else(|| "train, validation or test is needed".to_owned())
    }
}

impl DataPart {
    /// The samples of `seq_length` inputs each in the documents `part`, of those that `split` makes
    /// of the data folder or shard at `path`, whose tokens are those of `tokenizer`. Reads the
    /// manifest or the index, and no tokens.
    ///
    /// # Errors
    ///
    /// When there is no data, it has another tokenizer, its sources have weights, or the part has no
    /// whole sample.
    pub fn open(
        path: &Path,
        part: Part,
        split: &SplitWeights,
        seq_length: usize,
        tokenizer: &TokenizerIdentity,
    ) -> Result<Self, TrainError> {
        let inputs = DataInputs::of_one(path, tokenizer)?;
        let input = &inputs.inputs()[0];
        if input.has_weighted_sources() {
            return Err(DataError::WeightedPart { path: path.to_owned() }.into());
        }
        let streams = input.sources()?.into_iter().map(|source| source.stream);
        let whole = TokenStream::join(streams);
        let documents = split.divide(whole.num_documents());
        let documents = match part {
            Part::Train => documents.train,
            Part::Validation => documents.validation,
            Part::Test => documents.test,
        };
        let samples = SourceSamples::new(whole.part(&documents), seq_length);
        if samples.is_empty() {
            return Err(DataError::PartTooSmall {
                path: path.to_owned(),
                split: split.to_string(),
                part: part.name(),
                all_documents: whole.num_documents(),
                documents: documents.end - documents.start,
                tokens: samples.num_tokens(),
                needed_tokens: seq_length as u64 + 1,
            }
            .into());
        }
        Ok(Self { inputs, samples })
    }

    /// Reads all of the data once: it is what its manifest says, or at least every token is one of
    /// the vocabulary.
    ///
    /// # Errors
    ///
    /// When it is not; [`TrainError::Stopped`] when the observer asks to stop.
    pub fn verify(&self, observer: &dyn Observer) -> Result<(), TrainError> {
        let vocab_size = self.inputs.tokenizer().vocab_size;
        for input in self.inputs.used() {
            input.verify(vocab_size, observer)?;
        }
        Ok(())
    }

    /// What the data says of its content without being read: the hashes of its files, or where it
    /// has no manifest, how many documents and tokens the part has.
    #[must_use]
    pub fn description(&self) -> String {
        let hashes = self.inputs.used().find_map(|input| input.manifest_hashes());
        hashes.unwrap_or_else(|| {
            format!("{} documents of {} tokens", self.num_documents(), self.num_tokens())
        })
    }

    /// Whole samples.
    #[must_use]
    pub fn num_samples(&self) -> u64 {
        self.samples.len()
    }

    /// Documents.
    #[must_use]
    pub fn num_documents(&self) -> u64 {
        self.samples.stream().num_documents()
    }

    /// Tokens, those behind the last whole sample included.
    #[must_use]
    pub fn num_tokens(&self) -> u64 {
        self.samples.num_tokens()
    }

    /// Appends the `seq_length + 1` tokens of sample `sample` to `out`.
    ///
    /// # Errors
    ///
    /// When the data cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(&self, sample: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        self.samples.read(sample, out)
    }
}
