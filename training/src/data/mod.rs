//! From a data folder to batches: which documents, which windows of tokens, in which order, in
//! which batch.
//!
//! [`split`] divides the folder's documents, [`sampler`] cuts a part into samples and orders them,
//! [`batch`] puts samples side by side. Everything is a pure function of the folder, the seed and a
//! sample's number, so that a run resumes anywhere without replaying what came before, and no rank
//! or thread changes what is read.

pub mod batch;
pub mod order;
pub mod sampler;
pub mod split;

pub use batch::{Batch, BatchSampler};
pub use order::{KeyedPermutation, SampleOrder};
pub use sampler::{OrderedSamples, Samples};
pub use split::{SplitDocuments, SplitWeights};
