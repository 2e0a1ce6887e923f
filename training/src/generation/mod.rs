//! Text from a trained model: it predicts a token, which is drawn and appended, and so on.
//!
//! | file              | what                                                                      |
//! |-------------------|---------------------------------------------------------------------------|
//! | [`sampler`]       | [`Sampling`]: from logits to a token, by temperature, top-k, top-p and seed |
//! | [`request`]       | [`GenerationRequest`]: what is asked for; [`Continuation`]: what comes of it |
//! | [`generator`]     | [`Generator`]: the loop over tokens, on rank threads                       |
//! | [`text_stream`]   | [`TextStream`]: tokens back to whole characters as they come               |
//!
//! # What a text depends on
//!
//! On the weights, the prompt, the sampling with its seed, and the number of the sample; on nothing
//! else. Keys and values of earlier positions are kept; computing everything anew for each token
//! gives the same bits (see [`IncrementalKernels`](crate::backend::IncrementalKernels)), and so do
//! any number of threads and of samples side by side. Each draw is a function of (seed, sample,
//! position). Tensor-parallel ranks add up in another order: there logits agree up to rounding, some
//! 1e-6 of them, and the text is another only where that decides between two tokens.
//!
//! # Longer than the model sees
//!
//! A model has learned as many positions as its `seq_length`. A prompt that is longer is refused.
//! A text that grows longer is gone on with from the second half of what the model saw, which is
//! encoded again from position 0: by this rule, the same with the cache as without.

mod error;
pub mod generator;
mod rank;
pub mod request;
pub mod sampler;
pub mod text_stream;

pub use error::GenerationError;
pub use generator::{GenerationSpeed, Generator};
pub use request::{Continuation, Finish, GenerationRequest};
pub use sampler::Sampling;
pub use text_stream::TextStream;
