//! Samples: what each number means, over all sources of a run.
//!
//! A source's samples have the form that the model asks for: [`Windows`] of running text,
//! [`SentencePairs`] or [`Questions`]. Several sources are numbered one behind the other: source `i` has the numbers
//! from the sum of the sources before it on. One number thus names source and sample, in every
//! epoch and layout.

use std::ops::Range;
use std::sync::Arc;

use corpus::shard::ShardReader;

use super::keyed_draws::DrawKey;
use super::questions::{QuestionSample, Questions};
use super::sentence_pairs::{PairSample, SentencePairs, SkippedDocuments};
use super::stream::TokenStream;
use super::windows::Windows;
use crate::TrainError;

/// The samples of one source.
#[derive(Debug, Clone)]
pub enum SourceSamples {
    /// Windows of running text.
    Windows(Windows),
    /// Masked pairs of sentences.
    SentencePairs(SentencePairs),
    /// Questions, each with all its answers.
    Questions(Questions),
}

impl SourceSamples {
    /// Whole samples of one epoch.
    pub fn per_epoch(&self) -> u64 {
        match self {
            Self::Windows(windows) => windows.per_epoch(),
            Self::SentencePairs(pairs) => pairs.per_epoch(),
            Self::Questions(questions) => questions.len(),
        }
    }

    /// Numbers that name a sample.
    pub fn len(&self) -> u64 {
        match self {
            Self::Windows(windows) => windows.len(),
            Self::SentencePairs(pairs) => pairs.len(),
            Self::Questions(questions) => questions.len(),
        }
    }

    /// Whether there is no whole sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of the documents, those that belong to no sample included.
    pub fn num_tokens(&self) -> u64 {
        match self {
            Self::Windows(windows) => windows.stream().num_tokens(),
            Self::SentencePairs(pairs) => pairs.stream().num_tokens(),
            Self::Questions(questions) => questions.num_tokens(),
        }
    }

    /// Inputs per row of a batch.
    pub fn seq_length(&self) -> usize {
        match self {
            Self::Windows(windows) => windows.seq_length(),
            Self::SentencePairs(pairs) => pairs.seq_length(),
            Self::Questions(questions) => questions.seq_length(),
        }
    }

    /// The documents.
    ///
    /// # Panics
    ///
    /// When the samples are questions, whose texts are no stream.
    pub fn stream(&self) -> &TokenStream {
        match self {
            Self::Windows(windows) => windows.stream(),
            Self::SentencePairs(pairs) => pairs.stream(),
            Self::Questions(_) => panic!("questions have no stream of tokens"),
        }
    }

    /// Epochs whose samples are shuffled together, in the order `"megatron"`; `None` in others.
    pub fn shuffled_epochs(&self) -> Option<u64> {
        match self {
            Self::Windows(windows) => windows.index().map(|index| index.epochs()),
            Self::SentencePairs(pairs) => pairs.is_shuffled().then(|| pairs.map().epochs()),
            Self::Questions(_) => None,
        }
    }

    /// Which sample stands at place `position` of the source's samples in the order `"megatron"`;
    /// `None` in others.
    ///
    /// # Panics
    ///
    /// Behind the places that the shuffle was made for.
    pub fn shuffled_at(&self, position: u64) -> Option<u64> {
        match self {
            Self::Windows(windows) => windows.index().map(|index| index.sample_at(position)),
            Self::SentencePairs(pairs) => {
                let place = || {
                    assert!(position < pairs.len(), "place {position} of {}", pairs.len());
                    position // the samples themselves are in that order
                };
                pairs.is_shuffled().then(place)
            }
            Self::Questions(_) => None,
        }
    }

    /// How often a run that draws `drawn` samples goes through the source.
    pub fn epochs(&self, drawn: u64) -> f64 {
        let drawn = drawn as f64;
        match (self, self.shuffled_epochs()) {
            (_, None) => drawn / self.per_epoch() as f64,
            // Its epochs follow without a gap, so that a source of less than one sample has some.
            (Self::Windows(windows), _) => {
                drawn * windows.seq_length() as f64 / windows.num_tokens() as f64
            }
            (Self::SentencePairs(pairs), Some(epochs)) => {
                drawn * epochs as f64 / pairs.len() as f64
            }
            (Self::Questions(_), Some(_)) => unreachable!("questions are shuffled by key"),
        }
    }

    /// Documents that give no sample; `None` where every document does.
    pub fn skipped(&self) -> Option<SkippedDocuments> {
        match self {
            Self::Windows(_) | Self::Questions(_) => None,
            Self::SentencePairs(pairs) => Some(pairs.map().skipped()),
        }
    }
}

/// The samples of all sources, under one numbering.
#[derive(Debug, Clone)]
pub struct Samples {
    sources: Vec<SourceSamples>,
    /// The first number of each source, and the one behind the last.
    first_ids: Vec<u64>,
    seq_length: usize,
}

impl Samples {
    /// The samples of `seq_length` inputs each in the documents `documents` of one shard.
    ///
    /// # Panics
    ///
    /// When the shard has no such documents.
    #[must_use]
    pub fn new(shard: &Arc<ShardReader>, documents: Range<u64>, seq_length: usize) -> Self {
        let stream = TokenStream::new(shard, documents);
        Self::of_sources(vec![SourceSamples::Windows(Windows::new(stream, seq_length))])
    }

    /// The samples of several sources.
    ///
    /// # Panics
    ///
    /// When there is no source, they differ in the length of a sample, or their samples are more
    /// than 64 bits can number.
    #[must_use]
    pub fn of_sources(sources: Vec<SourceSamples>) -> Self {
        let seq_length = sources[0].seq_length();
        let mut first_ids = vec![0_u64];
        for source in &sources {
            assert_eq!(source.seq_length(), seq_length, "samples of one length");
            let first = first_ids[first_ids.len() - 1];
            first_ids.push(first.checked_add(source.len()).expect("samples in 64 bits"));
        }
        Self { sources, first_ids, seq_length }
    }

    /// Numbers that name a sample.
    pub fn len(&self) -> u64 {
        self.first_ids[self.sources.len()]
    }

    /// Whether there is no whole sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whole samples when each source is gone through once.
    pub fn per_epoch(&self) -> u64 {
        self.sources.iter().map(SourceSamples::per_epoch).sum()
    }

    /// Tokens of the documents, those that belong to no sample included.
    pub fn num_tokens(&self) -> u64 {
        self.sources.iter().map(SourceSamples::num_tokens).sum()
    }

    /// Inputs per row of a batch: a question has several.
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// The sources.
    pub fn sources(&self) -> &[SourceSamples] {
        &self.sources
    }

    /// The number of a source's sample.
    pub fn id_of(&self, source: usize, sample: u64) -> u64 {
        self.first_ids[source] + sample
    }

    /// Appends the `seq_length + 1` tokens of sample `id` to `out`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample, or it is no window.
    pub fn read(&self, id: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        match self.find(id) {
            (SourceSamples::Windows(windows), sample) => windows.read(sample, out),
            (SourceSamples::SentencePairs(_), _) => panic!("sample {id} is a pair of sentences"),
            (SourceSamples::Questions(_), _) => panic!("sample {id} is a question"),
        }
    }

    /// Sample `id`, with the choices of `key` at place `place`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample, or it is no pair of sentences.
    pub fn read_pair(&self, id: u64, key: DrawKey, place: u64) -> Result<PairSample, TrainError> {
        match self.find(id) {
            (SourceSamples::Windows(_), _) => panic!("sample {id} is a window"),
            (SourceSamples::SentencePairs(pairs), sample) => Ok(pairs.read(sample, key, place)?),
            (SourceSamples::Questions(_), _) => panic!("sample {id} is a question"),
        }
    }

    /// Sample `id`.
    ///
    /// # Panics
    ///
    /// When there is no such sample, or it is no question.
    #[must_use]
    pub fn read_question(&self, id: u64) -> QuestionSample {
        match self.find(id) {
            (SourceSamples::Questions(questions), sample) => questions.read(sample),
            _ => panic!("sample {id} is no question"),
        }
    }

    /// The source of sample `id`, and its number there.
    fn find(&self, id: u64) -> (&SourceSamples, u64) {
        assert!(id < self.len(), "sample {id} of {}", self.len());
        let source = self.first_ids.partition_point(|&first| first <= id) - 1;
        (&self.sources[source], id - self.first_ids[source])
    }

    /// Loss in nats of predicting each token by its frequency in these documents, those of all
    /// sources alike: what a model has to beat to have learned anything about context.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read.
    ///
    /// # Panics
    ///
    /// When the samples are questions.
    pub fn unigram_loss(&self) -> Result<f64, TrainError> {
        let mut counts: Vec<u64> = Vec::new();
        for source in &self.sources {
            count_tokens(source.stream(), &mut counts)?;
        }
        let total = self.num_tokens() as f64;
        let shares = counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        Ok(shares.map(|share| -share * share.ln()).sum())
    }
}

/// Adds to `counts` how often each token is in `stream`.
fn count_tokens(stream: &TokenStream, counts: &mut Vec<u64>) -> Result<(), TrainError> {
    const BLOCK: u64 = 1 << 16;
    let mut block = Vec::new();
    let mut begin = 0;
    while begin < stream.num_tokens() {
        block.resize(BLOCK.min(stream.num_tokens() - begin) as usize, 0);
        stream.read(begin, &mut block)?;
        for &token in &block {
            let token = token as usize;
            if token >= counts.len() {
                counts.resize(token + 1, 0);
            }
            counts[token] += 1;
        }
        begin += block.len() as u64;
    }
    Ok(())
}
