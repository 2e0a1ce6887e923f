//! Samples of two segments, for masked language models: `[CLS] A [SEP] B [SEP]`.
//!
//! [`map`] says which sentences of which document make a sample and how long it is to be, as the
//! original implementation's `build_mapping` does; [`sample`] cuts them in two, swaps the parts for
//! every other sample, and masks them. What is chosen is a function of the sample's place in the
//! run and the run's seed ([`DrawKey`]): another epoch, in which the sample stands at another place,
//! masks it anew, and a run that goes on chooses what it would have chosen.

pub mod map;
pub mod sample;

use std::sync::Arc;

use corpus::{CorpusError, Observer};
pub use map::{Pair, PairMap, PairMapConfig, SkippedDocuments};
pub use sample::PairSample;

use super::keyed_draws::{DrawKey, KeyedDraws};
use super::masking::Masking;
use super::order::SampleOrder;
use super::stream::TokenStream;
use crate::TrainError;

/// Tokens of a sample that are none of its sentences': `[CLS]` and twice `[SEP]`.
pub const NUM_SPECIAL: usize = 3;

/// The seed of the lengths of held-out samples: the original implementation's default, whatever the
/// run's is.
const HELD_OUT_SEED: u32 = 1234;

/// The pairs of one source.
#[derive(Debug, Clone)]
pub struct SentencePairs {
    stream: TokenStream,
    seq_length: usize,
    map: Arc<PairMap>,
    masking: Arc<Masking>,
    is_shuffled: bool,
}

/// What the pairs of a source are made by.
#[derive(Debug, Clone)]
pub struct PairRecipe {
    /// Tokens of a sample, padding among them.
    pub seq_length: usize,
    /// Share of the samples that are aimed at a random shorter length.
    pub short_seq_prob: f64,
    /// How they are masked.
    pub masking: Arc<Masking>,
}

impl SentencePairs {
    /// The pairs in the documents of `stream`. In the order `"megatron"`, those of the fewest whole
    /// epochs that hold `num_samples`, shuffled; else those of one epoch, as they stand.
    ///
    /// # Errors
    ///
    /// As [`PairMap::build`].
    pub fn new(
        stream: TokenStream,
        recipe: &PairRecipe,
        order: SampleOrder,
        num_samples: u64,
        seed: u32,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let is_shuffled = order == SampleOrder::Megatron;
        let mut config = PairMapConfig {
            max_length: recipe.seq_length.saturating_sub(NUM_SPECIAL),
            short_seq_prob: recipe.short_seq_prob,
            seed,
            max_epochs: 1,
            num_samples: u64::MAX,
        };
        if is_shuffled {
            (config.max_epochs, config.num_samples) = (u64::MAX, num_samples.max(1));
        }
        let memory = corpus::machine::memory_bytes();
        let mut map = PairMap::build(&stream, &config, memory, observer)?;
        if is_shuffled {
            map.shuffle(seed, observer)?;
        }
        Ok(Self {
            stream,
            seq_length: recipe.seq_length,
            map: Arc::new(map),
            masking: Arc::clone(&recipe.masking),
            is_shuffled,
        })
    }

    /// The pairs of one epoch for who only looks at their loss: which they are depends on no seed.
    ///
    /// # Errors
    ///
    /// As [`PairMap::build`].
    pub fn held_out(
        stream: TokenStream,
        recipe: &PairRecipe,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        Self::new(stream, recipe, SampleOrder::Sequential, 0, HELD_OUT_SEED, observer)
    }

    /// Which sentences make which sample.
    pub fn map(&self) -> &PairMap {
        &self.map
    }

    /// Samples of one epoch.
    pub fn per_epoch(&self) -> u64 {
        self.map.per_epoch()
    }

    /// Numbers that name a sample.
    pub fn len(&self) -> u64 {
        self.map.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of a sample, padding among them.
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// The documents.
    pub fn stream(&self) -> &TokenStream {
        &self.stream
    }

    /// Whether the samples of all epochs are shuffled together, as in the order `"megatron"`.
    pub fn is_shuffled(&self) -> bool {
        self.is_shuffled
    }

    /// Sample `sample`, with the choices of `key` at place `place`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(&self, sample: u64, key: DrawKey, place: u64) -> Result<PairSample, CorpusError> {
        let Pair { sentences, target_length } = self.map.pair(sample);
        let ends: Vec<usize> = {
            let start = self.stream.sequence_tokens(sentences.start).start;
            let ends = sentences
                .clone()
                .map(|sentence| (self.stream.sequence_tokens(sentence).end - start) as usize);
            ends.collect()
        };
        let mut tokens = vec![0; ends[ends.len() - 1]];
        self.stream.read(self.stream.sequence_tokens(sentences.start).start, &mut tokens)?;
        let mut draws = KeyedDraws::new(key, place);
        Ok(PairSample::new(
            &tokens,
            &ends,
            target_length,
            self.seq_length,
            &self.masking,
            &mut draws,
        ))
    }
}
