//! The data stage.

pub mod dedup;
mod error;

pub use error::CurationError;
