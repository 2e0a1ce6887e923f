//! What a corpus is, in memory and on disk.

mod data_folder;
mod document;
mod error;
mod mapped;
mod ngram;
mod observer;
mod pending_file;
pub mod reader;
pub mod shard;
pub mod tokenizer;
mod verify;

pub use data_folder::{
    DataFolder, DataFolderWriter, DataManifest, Existing, MANIFEST, PROVENANCE, REMOVED, REPORT,
    TokenizerIdentity,
};
pub use document::{Document, Provenance, TokenId};
pub use error::CorpusError;
pub use ngram::{NGram, NormalizedText};
pub use observer::{Observer, Silent, Unit};
pub use pending_file::FileSummary;
pub use verify::{ShardCheck, verify};
