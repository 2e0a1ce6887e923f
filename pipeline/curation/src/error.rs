//! What can go wrong while a corpus is curated.

use thiserror::Error;

/// An error of the data stage.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CurationError {
    /// The observer asked to stop; nothing was left half written.
    #[error("stopped before the corpus was written")]
    Stopped,
}
