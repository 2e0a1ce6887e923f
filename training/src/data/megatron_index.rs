//! The original implementation's order of samples, to the bit: documents shuffled over all epochs,
//! one stream of them cut into samples, the samples shuffled again.
//!
//! What Megatron-LM v1.0 keeps in three tables (`gpt2_dataset.py`: `doc_idx`, `sample_idx`,
//! `shuffle_idx`) are two here. Row `k` of its `sample_idx` says in which entry of `doc_idx` token
//! `k·S` of the stream lies, and how deep; with the running sum of the documents' lengths noted at
//! every 64th entry that is found by bisection, and the largest of the tables is not needed. Entries
//! have 32 bits where they fit. 300,000 steps of 512 samples over eight million documents of 1,100
//! tokens (18 epochs) were measured to take 1.2 GB, half of it in either table, and 17 s to make on
//! one busy core (`benches/sample_order.rs`). They are made anew whenever a run starts or goes on,
//! for they follow from the documents' lengths, the seed and the number of samples alone.
//!
//! The number of samples decides over how many epochs the documents are shuffled, and with that the
//! order from the first sample on: `schedule.train_steps` is part of it. Megatron-LM asks its index
//! of the training part for as many samples as the run trains on, and so does this one; its index of
//! the validation part, over all validations of the run, has no counterpart here, where validation
//! takes the same samples each time, in the order of the data.

use std::time::Instant;

use corpus::{CorpusError, Observer, Unit};
use tracing::info;

use super::error::{DataError, gibibytes};
use super::mersenne_twister::MersenneTwister;
use super::stream::TokenStream;
use crate::TrainError;

/// Entries between two of which the place in the stream is noted.
const SPACING: u64 = 64;
/// Entries that are added up between two looks at an observer.
const POLL: u64 = 1 << 16;

/// The order of one source's samples.
#[derive(Clone)]
pub struct MegatronIndex {
    seq_length: u64,
    epochs: u64,
    /// Documents of all epochs in their order: `doc_idx`.
    documents: Table,
    /// Place in the stream where every 64th of them begins.
    begins: Vec<u64>,
    /// Samples in their order: `shuffle_idx`.
    samples: Table,
}

/// A permuted list of numbers, as narrow as they allow.
#[derive(Clone)]
enum Table {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl MegatronIndex {
    /// The order of the `num_samples` samples and more that the fewest whole epochs of `stream`
    /// hold, shuffled from `seed`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Stopped`] when the observer asks to stop; a [`DataError`] when the tables do
    /// not fit into `memory_bytes`.
    ///
    /// # Panics
    ///
    /// When the stream has no token.
    pub fn build(
        stream: &TokenStream,
        seq_length: usize,
        num_samples: u64,
        seed: u32,
        memory_bytes: Option<u64>,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let started = Instant::now();
        let seq_length = seq_length as u64;
        let (tokens, documents) = (stream.num_tokens(), stream.num_documents());
        assert!(tokens > 0, "an index of no token");
        let too_long = || DataError::OrderTooLong { num_samples };
        let epochs = epochs(tokens, seq_length, num_samples).ok_or_else(too_long)?;
        let all_tokens = epochs.checked_mul(tokens).ok_or_else(too_long)?;
        let all_documents = epochs.checked_mul(documents).ok_or_else(too_long)?;
        let count = (all_tokens - 1) / seq_length;

        let needed = Table::bytes(documents, all_documents)
            .saturating_add(Table::bytes(count, count))
            .saturating_add(all_documents / SPACING * 8);
        if let Some(present) = memory_bytes.filter(|&present| needed > present) {
            return Err(DataError::OrderTooLarge { num_samples: count, needed, present }.into());
        }

        let mut random = MersenneTwister::new(seed);
        observer.begin("shuffle documents", Some(all_documents), Unit::Documents);
        let order = Table::shuffled(documents, epochs, &mut random, observer)?;
        observer.begin("add up documents", Some(all_documents), Unit::Documents);
        let begins = begins(stream, &order, observer)?;
        observer.begin("shuffle samples", Some(count), Unit::Samples);
        let samples = Table::shuffled(count, 1, &mut random, observer)?;
        observer.finish();
        info!(
            "order = \"megatron\": {count} samples in {epochs} epochs, tables of {} made in {:.1} s",
            gibibytes(needed),
            started.elapsed().as_secs_f64()
        );
        Ok(Self { seq_length, epochs, documents: order, begins, samples })
    }

    /// Samples of all epochs.
    #[must_use]
    pub fn num_samples(&self) -> u64 {
        self.samples.len()
    }

    /// Times that the documents are in it.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// The document at place `entry` of the shuffled documents: `doc_idx[entry]`, for documents
    /// counted from the first of the part.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    #[must_use]
    pub fn document_at(&self, entry: u64) -> u64 {
        self.documents.get(entry)
    }

    /// Which sample stands at place `position` of the order: `shuffle_idx[position]`.
    ///
    /// # Panics
    ///
    /// When there is no such place.
    #[must_use]
    pub fn sample_at(&self, position: u64) -> u64 {
        self.samples.get(position)
    }

    /// Where sample `sample` begins: the entry of the shuffled documents and the token in that
    /// document, `sample_idx[sample]`; the end of the last sample counts as a beginning too.
    #[must_use]
    pub fn row(&self, stream: &TokenStream, sample: u64) -> (u64, u64) {
        if sample == 0 {
            return (0, 0); // even where the first documents are empty
        }
        let token = sample * self.seq_length;
        let noted = self.begins.partition_point(|&begin| begin <= token) - 1;
        let mut entry = noted as u64 * SPACING;
        let mut begin = self.begins[noted];
        loop {
            let length = self.length(stream, entry);
            if token < begin + length {
                return (entry, token - begin);
            }
            begin += length;
            entry += 1;
        }
    }

    /// Appends the `seq_length + 1` tokens of sample `sample` to `out`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(
        &self,
        stream: &TokenStream,
        sample: u64,
        out: &mut Vec<u32>,
    ) -> Result<(), CorpusError> {
        assert!(sample < self.num_samples(), "sample {sample} of {}", self.num_samples());
        let (mut entry, mut offset) = self.row(stream, sample);
        let mut missing = self.seq_length as usize + 1;
        while missing > 0 {
            let document = stream.document_tokens(self.document_at(entry));
            let begin = document.start + offset;
            let here = (document.end - begin).min(missing as u64) as usize;
            let filled = out.len();
            out.resize(filled + here, 0);
            stream.read(begin, &mut out[filled..])?;
            missing -= here;
            (entry, offset) = (entry + 1, 0);
        }
        Ok(())
    }

    fn length(&self, stream: &TokenStream, entry: u64) -> u64 {
        let tokens = stream.document_tokens(self.document_at(entry));
        tokens.end - tokens.start
    }
}

/// The fewest epochs of `tokens` tokens that hold `num_samples` samples.
fn epochs(tokens: u64, seq_length: u64, num_samples: u64) -> Option<u64> {
    // The least e with (e·tokens - 1) / S >= num_samples is the least with e·tokens > num_samples·S.
    let last_token = u128::from(num_samples) * u128::from(seq_length);
    u64::try_from(last_token / u128::from(tokens) + 1).ok()
}

/// Place in the stream where every 64th of the shuffled documents begins.
fn begins(
    stream: &TokenStream,
    order: &Table,
    observer: &dyn Observer,
) -> Result<Vec<u64>, TrainError> {
    // A list by itself: looked up in the order of the shuffle, the index would miss every cache.
    let lengths = Table::lengths(stream);
    let mut begins = Vec::with_capacity(order.len().div_ceil(SPACING) as usize);
    let mut begin = 0;
    for entry in 0..order.len() {
        if entry.is_multiple_of(SPACING) {
            begins.push(begin);
        }
        begin += lengths.get(order.get(entry));
        if (entry + 1).is_multiple_of(POLL) {
            if observer.stop_requested() {
                return Err(TrainError::Stopped);
            }
            observer.advance(POLL);
        }
    }
    Ok(begins)
}

impl Table {
    /// The numbers below `count`, `times` times over, shuffled.
    fn shuffled(
        count: u64,
        times: u64,
        random: &mut MersenneTwister,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let repeated = || (0..times).flat_map(|_| 0..count);
        let len = (times * count) as usize;
        if Self::is_narrow(count) {
            let mut numbers = Vec::with_capacity(len);
            numbers.extend(repeated().map(|number| number as u32));
            random.shuffle(&mut numbers, observer)?;
            Ok(Self::Narrow(numbers))
        } else {
            let mut numbers = Vec::with_capacity(len);
            numbers.extend(repeated());
            random.shuffle(&mut numbers, observer)?;
            Ok(Self::Wide(numbers))
        }
    }

    /// Tokens of each document of `stream`.
    fn lengths(stream: &TokenStream) -> Self {
        let lengths = || {
            (0..stream.num_documents()).map(|document| {
                let tokens = stream.document_tokens(document);
                tokens.end - tokens.start
            })
        };
        match lengths().map(u32::try_from).collect() {
            Ok(narrow) => Self::Narrow(narrow),
            Err(_) => Self::Wide(lengths().collect()),
        }
    }

    /// Bytes of `len` numbers below `count`.
    fn bytes(count: u64, len: u64) -> u64 {
        let width = if Self::is_narrow(count) { size_of::<u32>() } else { size_of::<u64>() };
        len.saturating_mul(width as u64)
    }

    fn is_narrow(count: u64) -> bool {
        count <= 1 << u32::BITS
    }

    fn len(&self) -> u64 {
        match self {
            Self::Narrow(numbers) => numbers.len() as u64,
            Self::Wide(numbers) => numbers.len() as u64,
        }
    }

    fn get(&self, place: u64) -> u64 {
        match self {
            Self::Narrow(numbers) => numbers[place as usize].into(),
            Self::Wide(numbers) => numbers[place as usize],
        }
    }
}

/// Not the tables, which have millions of entries.
impl std::fmt::Debug for MegatronIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MegatronIndex")
            .field("seq_length", &self.seq_length)
            .field("epochs", &self.epochs)
            .field("num_samples", &self.num_samples())
            .finish_non_exhaustive()
    }
}
