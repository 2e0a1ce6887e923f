//! The samples of one part of a data folder, for whoever evaluates on it: training, validation or
//! test documents, once, in the order of the data.
//!
//! They are the very samples that a training's validation takes, where it takes all: the same
//! division of the documents, and the same cut of their tokens.

use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use corpus::{Observer, TokenizerIdentity};
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::error::DataError;
use super::form::SampleForm;
use super::input::DataInputs;
use super::order::SampleOrder;
use super::sampler::OrderedSamples;
use super::samples::{Samples, SourceSamples};
use super::sentence_pairs::{PairSample, SentencePairs, SkippedDocuments};
use super::split::SplitWeights;
use super::stream::TokenStream;
use super::windows::Windows;
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

/// What is wanted of a data folder.
#[derive(Debug, Clone, Copy)]
pub struct PartRequest<'r> {
    /// Which documents.
    pub part: Part,
    /// How documents are divided into parts.
    pub split: &'r SplitWeights,
    /// What a sample is.
    pub form: SampleForm,
    /// Inputs per sample.
    pub seq_length: usize,
    /// The model's tokenizer.
    pub tokenizer: &'r TokenizerIdentity,
}

/// A part of a data folder or shard, cut into samples.
#[derive(Debug)]
pub struct DataPart {
    inputs: DataInputs,
    samples: OrderedSamples,
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
    /// The samples of the part that `request` names, of the data folder or shard at `path`. Reads
    /// the manifest or the index, and no tokens.
    ///
    /// # Errors
    ///
    /// When there is no data, it has another tokenizer or other sequences than samples of the form
    /// are made of, its sources have weights, or the part has no whole sample;
    /// [`TrainError::Stopped`] when the observer asks to stop.
    pub fn open(
        path: &Path,
        request: &PartRequest<'_>,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let PartRequest { part, split, form, seq_length, tokenizer } = *request;
        let inputs = DataInputs::of_one(path, tokenizer)?;
        inputs.check_form(form)?;
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
        let stream = whole.part(&documents);
        // Questions are no part of such data, which was checked.
        let samples = match inputs.pair_recipe(form, seq_length)? {
            None => SourceSamples::Windows(Windows::new(stream, seq_length)),
            Some(recipe) => {
                SourceSamples::SentencePairs(SentencePairs::held_out(stream, &recipe, observer)?)
            }
        };
        if let (true, Some(skipped)) = (samples.is_empty(), samples.skipped()) {
            return Err(DataError::NoPairs {
                source_name: path.display().to_string(),
                part: part.name(),
                split: split.to_string(),
                documents: documents.end - documents.start,
                skipped,
            }
            .into());
        }
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
        let samples = Samples::of_sources(vec![samples]);
        let samples = OrderedSamples::new(samples, SampleOrder::Sequential, 0).held_out();
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
        self.source().len()
    }

    /// Documents.
    #[must_use]
    pub fn num_documents(&self) -> u64 {
        self.source().stream().num_documents()
    }

    /// Tokens, those behind the last whole sample included.
    #[must_use]
    pub fn num_tokens(&self) -> u64 {
        self.source().num_tokens()
    }

    /// Documents that give no sample, where the samples are pairs of sentences.
    #[must_use]
    pub fn skipped(&self) -> Option<SkippedDocuments> {
        self.source().skipped()
    }

    /// Appends the `seq_length + 1` tokens of sample `sample` to `out`.
    ///
    /// # Errors
    ///
    /// When the data cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample, or it is no window.
    pub fn read(&self, sample: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        self.samples.samples().read(sample, out)
    }

    /// The pair of sentences `sample` with its masks, the same for every model.
    ///
    /// # Errors
    ///
    /// When the data cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample, or it is no pair.
    pub fn pair(&self, sample: u64) -> Result<PairSample, TrainError> {
        self.samples.pair(sample, sample)
    }

    /// The pairs of sentences `samples` with their masks, the same for every model; every masked
    /// token and every label has the weight 1, so that losses add up over batches.
    ///
    /// # Errors
    ///
    /// When the data cannot be read there.
    ///
    /// # Panics
    ///
    /// When there are no such samples, none at all, or they are no pairs.
    pub fn pairs(&self, samples: Range<u64>) -> Result<Batch, TrainError> {
        let first = samples.start as usize;
        let pairs = samples.map(|sample| self.pair(sample));
        Ok(Batch::of_pairs(&pairs.collect::<Result<Vec<_>, _>>()?, first, 1, 1))
    }

    /// How many tokens are to be predicted in the samples `samples`.
    ///
    /// # Errors
    ///
    /// When the data cannot be read there.
    pub fn scored_targets(&self, samples: Range<u64>) -> Result<u64, TrainError> {
        self.samples.scored_targets(&samples)
    }

    fn source(&self) -> &SourceSamples {
        &self.samples.samples().sources()[0]
    }
}
