//! From data folders to batches: which documents, which windows of tokens, in which order, in which
//! batch.
//!
//! [`weighted_path`] is what was asked for and `input` opens it; [`split`] divides documents into
//! training, validation and test, [`stream`] makes one row of tokens of them, and [`samples`] cuts
//! it: into [`windows`] for GPT-2, into [`sentence_pairs`] for BERT, with some of their tokens under
//! [`masking`]. A BERT that is fine-tuned takes [`questions`] instead, of RACE's own folder. [`order`] permutes a source's samples, or [`megatron_index`] as the original implementation
//! does; [`blend`] mixes the sources, [`sampler`] puts both together, and [`batch`] puts samples
//! side by side. `training_data` is the road from the first to the last, and [`part`] a shorter one
//! for who only evaluates. Everything is a pure function of the data, the seed and a sample's place,
//! so that a run resumes anywhere without replaying what came before, and no rank or thread changes
//! what is read. Counts and places have 64 bits.

pub mod batch;
pub mod blend;
pub mod error;
pub mod form;
pub(crate) mod input;
pub mod keyed_draws;
pub mod masking;
pub mod megatron_index;
pub mod mersenne_twister;
pub mod mersenne_twister_64;
pub mod order;
pub mod part;
pub mod questions;
pub mod record;
pub(crate) mod run_data;
pub mod sampler;
pub mod samples;
pub mod segments;
pub mod sentence_pairs;
mod shares;
pub mod split;
pub mod stream;
pub(crate) mod training_data;
pub mod weighted_path;
pub mod windows;

pub use batch::{Batch, BatchSampler};
pub use blend::{Blend, Draw};
pub use error::DataError;
pub use form::{MaskedLmConfig, SampleForm};
pub use keyed_draws::{DrawKey, KeyedDraws};
pub use masking::Masking;
pub use megatron_index::MegatronIndex;
pub use mersenne_twister::MersenneTwister;
pub use mersenne_twister_64::MersenneTwister64;
pub use order::{KeyedPermutation, SampleOrder};
pub use part::{DataPart, Part, PartRequest};
pub use questions::{QuestionSample, Questions};
pub use record::DataRecord;
pub use sampler::OrderedSamples;
pub use samples::{Samples, SourceSamples};
pub use segments::Segments;
pub use sentence_pairs::{
    Pair, PairMap, PairMapConfig, PairRecipe, PairSample, SentencePairs, SkippedDocuments,
};
pub use split::{SplitDocuments, SplitWeights};
pub use stream::TokenStream;
pub use training_data::DataSourceSummary;
pub use weighted_path::WeightedPath;
pub use windows::Windows;
