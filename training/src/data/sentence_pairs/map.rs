//! Which sentences make a sample: the original implementation's `build_mapping`, row by row.
//!
//! Each document is cut from its beginning on. A sample takes sentences until it has the length that
//! it is aimed at, two at least, and leaves two at least for the next; the document's last takes
//! what is left. It is aimed at the full length or, one time in `round(1 / short_seq_prob)`, at a
//! random one; lengths come from one MT19937 for all documents and epochs, so that each epoch cuts
//! in other places. Documents of fewer than two sentences, or with one of more than 512 tokens, are
//! left out, and counted.
//!
//! A row takes 8 bytes: the first sentence, the number of sentences, the length; 16 where the
//! sentences of a source are more than 32 bits number. One epoch of the paper's 174 GB comes to
//! some 80 million rows; ten million sentences are mapped in 0.2 s (`benches/sample_order.rs`). In the order `"keyed"` one epoch's rows are kept, as they stand, and a
//! permutation that is computed visits them, so that a run goes on anywhere; in `"megatron"` those
//! of all epochs, shuffled by MT19937-64.

use std::ops::Range;
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::info;

use crate::TrainError;
use crate::data::error::{DataError, gibibytes};
use crate::data::mersenne_twister::MersenneTwister;
use crate::data::mersenne_twister_64::MersenneTwister64;
use crate::data::stream::TokenStream;

/// Tokens of the longest sentence with which a document is used.
pub const LONGEST_SENTENCE: u64 = 512;
/// Sentences of a sample at least.
const FEWEST_SENTENCES: u64 = 2;
/// Documents between two looks at an observer.
const POLL: u64 = 1 << 14;
/// Rows that are swapped between two looks at an observer.
const POLL_ROWS: usize = 1 << 20;

/// What a map is built by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairMapConfig {
    /// Tokens of a full sample, without the special ones.
    pub max_length: usize,
    /// Share of the samples that are aimed at a random length.
    pub short_seq_prob: f64,
    /// Seed of the lengths.
    pub seed: u32,
    /// Epochs at most.
    pub max_epochs: u64,
    /// Samples after which no further epoch is begun.
    pub num_samples: u64,
}

/// The sentences of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The sentences, as the stream of documents counts its sequences.
    pub sentences: Range<u64>,
    /// Tokens that it is aimed at.
    pub target_length: usize,
}

/// Documents that give no sample, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SkippedDocuments {
    /// With fewer than two sentences.
    pub of_one_sentence: u64,
    /// With a sentence of more than 512 tokens.
    pub with_long_sentence: u64,
}

impl SkippedDocuments {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.of_one_sentence + self.with_long_sentence
    }
}

/// The samples of a source.
#[derive(Clone)]
pub struct PairMap {
    rows: Rows,
    epochs: u64,
    per_epoch: u64,
    skipped: SkippedDocuments,
}

/// Rows as narrow as they allow.
#[derive(Clone)]
enum Rows {
    /// First sentence, sentences, length.
    Narrow(Vec<(u32, u16, u16)>),
    Wide(Vec<(u64, u32, u32)>),
}

impl PairMap {
    /// The samples of `stream` in whole epochs, unshuffled. There are none where no document has
    /// two sentences of a fitting length.
    ///
    /// # Errors
    ///
    /// [`TrainError::Stopped`] when the observer asks to stop; a [`DataError`] when a sample is too
    /// short for two segments, or the map does not fit into `memory_bytes`.
    pub fn build(
        stream: &TokenStream,
        config: &PairMapConfig,
        memory_bytes: Option<u64>,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let max_length = u32::try_from(config.max_length).unwrap_or(u32::MAX);
        if max_length < FEWEST_SENTENCES as u32 {
            return Err(DataError::SampleTooShort { max_length: config.max_length }.into());
        }
        let started = Instant::now();
        let documents = stream.num_documents();
        let total = (config.max_epochs == 1).then_some(documents);
        observer.begin("pair sentences", total, Unit::Documents);
        let mut lengths = TargetLengths::new(config.seed, config.short_seq_prob, max_length);
        let mut map = Self {
            rows: Rows::for_sentences(stream.num_sequences()),
            epochs: 0,
            per_epoch: 0,
            skipped: SkippedDocuments::default(),
        };
        while map.epochs < config.max_epochs && map.len() < config.num_samples {
            map.add_epoch(stream, &mut lengths, memory_bytes, observer)?;
            map.epochs += 1;
            if map.epochs == 1 {
                map.per_epoch = map.len();
                if map.is_empty() {
                    break;
                }
                let epochs = config.num_samples.div_ceil(map.len()).min(config.max_epochs);
                check_memory(map.rows.bytes().saturating_mul(epochs), memory_bytes)?;
            }
        }
        observer.finish();
        info!(
            "{} pairs of sentences in {} epochs of {documents} documents, {} made in {:.1} s",
            map.len(),
            map.epochs,
            gibibytes(map.rows.bytes()),
            started.elapsed().as_secs_f64()
        );
        Ok(map)
    }

    /// Shuffles the samples as the original implementation does from `seed`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Stopped`] when the observer asks to stop.
    pub fn shuffle(&mut self, seed: u32, observer: &dyn Observer) -> Result<(), TrainError> {
        // The original's seed is signed.
        let mut random = MersenneTwister64::new((i64::from(seed as i32) + 1) as u64);
        observer.begin("shuffle samples", Some(self.len()), Unit::Samples);
        for left in (1..self.len() as usize).rev() {
            let other = (random.next_u64() % (left as u64 + 1)) as usize;
            match &mut self.rows {
                Rows::Narrow(rows) => rows.swap(left, other),
                Rows::Wide(rows) => rows.swap(left, other),
            }
            if left.is_multiple_of(POLL_ROWS) {
                stop_if_asked(observer)?;
                observer.advance(POLL_ROWS as u64);
            }
        }
        observer.finish();
        Ok(())
    }

    /// Samples of all epochs.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.rows {
            Rows::Narrow(rows) => rows.len() as u64,
            Rows::Wide(rows) => rows.len() as u64,
        }
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples of the first epoch.
    #[must_use]
    pub fn per_epoch(&self) -> u64 {
        self.per_epoch
    }

    /// Epochs.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Documents of an epoch that give no sample.
    #[must_use]
    pub fn skipped(&self) -> SkippedDocuments {
        self.skipped
    }

    /// Sample `sample`.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    #[must_use]
    pub fn pair(&self, sample: u64) -> Pair {
        let (first, sentences, length) = match &self.rows {
            Rows::Narrow(rows) => {
                let (first, sentences, length) = rows[sample as usize];
                (u64::from(first), u64::from(sentences), usize::from(length))
            }
            Rows::Wide(rows) => {
                let (first, sentences, length) = rows[sample as usize];
                (first, u64::from(sentences), length as usize)
            }
        };
        Pair { sentences: first..first + sentences, target_length: length }
    }

    /// Cuts every document once.
    fn add_epoch(
        &mut self,
        stream: &TokenStream,
        lengths: &mut TargetLengths,
        memory_bytes: Option<u64>,
        observer: &dyn Observer,
    ) -> Result<(), TrainError> {
        let mut sizes = Vec::new();
        for document in 0..stream.num_documents() {
            let sentences = stream.document_sequences(document);
            sizes.clear();
            sizes.extend(sentences.clone().map(|sentence| {
                let tokens = stream.sequence_tokens(sentence);
                tokens.end - tokens.start
            }));
            self.add_document(sentences.start, &sizes, lengths);
            if (document + 1).is_multiple_of(POLL) {
                stop_if_asked(observer)?;
                observer.advance(POLL);
                check_memory(self.rows.bytes(), memory_bytes)?;
            }
        }
        observer.advance(stream.num_documents() % POLL);
        Ok(())
    }

    /// Cuts a document whose sentences, from number `first` on, have these sizes.
    fn add_document(&mut self, first: u64, sizes: &[u64], lengths: &mut TargetLengths) {
        let is_first_epoch = self.epochs == 0;
        if (sizes.len() as u64) < FEWEST_SENTENCES {
            self.skipped.of_one_sentence += u64::from(is_first_epoch);
            return;
        }
        if sizes.iter().any(|&size| size > LONGEST_SENTENCE) {
            self.skipped.with_long_sentence += u64::from(is_first_epoch);
            return;
        }
        let mut target = lengths.draw();
        let (mut start, mut tokens) = (0, 0);
        for (place, size) in sizes.iter().enumerate() {
            tokens += size;
            let (taken, left) = (place + 1 - start, sizes.len() - place - 1);
            let is_full = tokens >= u64::from(target) && left > 1 && taken > 1;
            if is_full || left == 0 {
                self.rows.push(first + start as u64, taken as u64, target);
                target = lengths.draw();
                (start, tokens) = (place + 1, 0);
            }
        }
    }
}

impl Rows {
    fn for_sentences(sentences: u64) -> Self {
        match u32::try_from(sentences) {
            Ok(_) => Self::Narrow(Vec::new()),
            Err(_) => Self::Wide(Vec::new()),
        }
    }

    fn push(&mut self, first: u64, sentences: u64, length: u32) {
        if let Self::Narrow(rows) = self {
            // A sample of more sentences than 16 bits count has mostly empty ones.
            if let (Ok(first), Ok(sentences), Ok(length)) =
                (u32::try_from(first), u16::try_from(sentences), u16::try_from(length))
            {
                rows.push((first, sentences, length));
                return;
            }
            let widened = rows.iter().map(|&(first, sentences, length)| {
                (u64::from(first), u32::from(sentences), u32::from(length))
            });
            *self = Self::Wide(widened.collect());
        }
        if let Self::Wide(rows) = self {
            let sentences =
                u32::try_from(sentences).expect("fewer than 2^32 sentences in a sample");
            rows.push((first, sentences, length));
        }
    }

    fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Narrow(rows) => size_of_val(&rows[..]),
            Self::Wide(rows) => size_of_val(&rows[..]),
        };
        bytes as u64
    }
}

/// The lengths that samples are aimed at.
struct TargetLengths {
    random: MersenneTwister,
    /// One in so many is short; none where it is 0.
    short_ratio: u32,
    max_length: u32,
}

impl TargetLengths {
    fn new(seed: u32, short_seq_prob: f64, max_length: u32) -> Self {
        let ratio = if short_seq_prob > 0.0 { (1.0 / short_seq_prob).round() } else { 0.0 };
        Self { random: MersenneTwister::new(seed), short_ratio: ratio as u32, max_length }
    }

    fn draw(&mut self) -> u32 {
        if self.short_ratio == 0 {
            return self.max_length;
        }
        let drawn = self.random.next_u32();
        match drawn % self.short_ratio {
            0 => 2 + drawn % (self.max_length - 1),
            _ => self.max_length,
        }
    }
}

fn check_memory(needed: u64, memory_bytes: Option<u64>) -> Result<(), DataError> {
    match memory_bytes.filter(|&present| needed > present) {
        None => Ok(()),
        Some(present) => Err(DataError::PairsTooLarge { needed, present }),
    }
}

fn stop_if_asked(observer: &dyn Observer) -> Result<(), TrainError> {
    if observer.stop_requested() { Err(TrainError::Stopped) } else { Ok(()) }
}

/// Not the rows, of which there are millions.
impl std::fmt::Debug for PairMap {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PairMap")
            .field("samples", &self.len())
            .field("epochs", &self.epochs)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}
