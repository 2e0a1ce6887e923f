//! What a corpus is, in memory and on disk.

mod document;
mod observer;

pub use document::{Document, Provenance, TokenId};
pub use observer::{Observer, Silent, Unit};
