//! GPT-2 on burn with tensor parallelism.
//!
//! - [`model`] reads as the model on one device would.
//! - [`parallel`] has the layers it is made of, split over the ranks of a group: the paper's
//!   section 3.
//! - [`parameters`] is the one table that says what each parameter is called, how it is shaped,
//!   split and started.
//! - [`backend`] adds to burn the fused operations and the collectives that have gradients.

pub mod backend;
pub mod error;
pub mod model;
pub mod parallel;
pub mod parameters;

pub use error::TrainError;
