//! Token shards: tokenized documents on disk, read through a memory map.
//!
//! A shard is a pair of files in the format of Megatron-LM's memory-mapped indexed dataset
//! (`megatron/data/ indexed_dataset.py`), which every other stack reads: `NAME.bin` holds tokens
//! and nothing else, `NAME.idx` says what they are. All numbers are little-endian.
//!
//! ```text
//! NAME.idx                                       NAME.bin
//! offset  bytes  what                            ┌──────────────┐ byte 0 = pointer[0]
//!      0      9  "MMIDIDX\0\0"                   │ sequence 0   │ size[0] tokens
//!      9      8  version: u64 = 1                ├──────────────┤ pointer[1]
//!     17      1  format of a token: u8           │ sequence 1   │ size[1] tokens
//!     18      8  number of sequences S: u64      ├──────────────┤ pointer[2]
//!     26      8  number of documents D + 1: u64  │ ...          │
//!     34     4S  size[S]: i32, in tokens         └──────────────┘
//!  34+4S     8S  pointer[S]: i64, in bytes
//! 34+12S   8D+8  document[D + 1]: i64, in sequences: document d is the
//!                sequences document[d] to document[d + 1]; the first is 0, the last S
//! ```
//!
//! A corpus for GPT-2 has one sequence per document, ended by the end-of-document token; one for
//! BERT has a sequence per sentence. Formats of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7
//! f32, 8 u16. Written are u16 for vocabularies below 65,500 and i32 for all others; read is every
//! integer format.

mod block;
mod dtype;
mod fault;
#[cfg(test)]
pub(crate) mod foreign;
mod index;
mod index_writer;
mod reader;
mod writer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use block::ShardBlock;
pub use dtype::DType;
pub use fault::ShardFault;
pub use index::ShardIndex;
pub use reader::ShardReader;
pub use writer::{ShardCheckpoint, ShardSummary, ShardWriter};

use crate::CorpusError;

/// The two files of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPaths {
    /// The tokens, `NAME.bin`.
    pub data: PathBuf,
    /// The index, `NAME.idx`.
    pub index: PathBuf,
}

impl ShardPaths {
    /// The files of the shard of this stem (`folder/NAME`), or to which this file belongs.
    pub fn new(stem: &Path) -> Self {
        let is_file =
            stem.extension().is_some_and(|extension| extension == "bin" || extension == "idx");
        let stem = if is_file { stem.with_extension("") } else { stem.to_owned() };
        let with = |extension: &str| {
            let mut name = OsString::from(&stem);
            name.push(extension);
            PathBuf::from(name)
        };
        Self { data: with(".bin"), index: with(".idx") }
    }

    /// Refuses a shard of which a file is missing.
    pub(crate) fn check_present(&self) -> Result<(), CorpusError> {
        for (path, other) in [(&self.index, &self.data), (&self.data, &self.index)] {
            if !path.exists() && other.exists() {
                let present = other.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(CorpusError::Shard {
                    path: path.clone(),
                    fault: ShardFault::Missing { present },
                });
            }
        }
        Ok(())
    }
}
