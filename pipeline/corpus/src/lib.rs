//! What a corpus is, in memory and on disk.
//!
//! ```text
//! files ──reader──▶ Document ──tokenizer──▶ tokens ──shard──▶ NAME.bin, NAME.idx ──▶ training
//!                   text and                 Vec<u32>          two bytes a token,
//!                   provenance                                 mapped into memory
//! ```
//!
//! 1. [`reader`] finds the documents in JSONL files and text trees, in an order that is part of
//!    every result. A [`Document`] is a text and its [`Provenance`], so that each later verdict can
//!    name a line of a file.
//! 2. [`tokenizer`] turns text into tokens: GPT-2's byte-level BPE, BERT's WordPiece, or what a
//!    `tokenizer.json` describes; for BERT, [`sentences()`] cuts it first.
//! 3. [`shard`] stores tokens in Megatron-LM's format and reads them back through a memory map.
//! 4. [`DataFolder`] puts a shard together with its manifest, its report and the fate of every
//!    document; [`verify()`] holds it, or a foreign shard, against all that is known of it, and
//!    [`merge()`] makes one of several.
//!
//! Beside the road stand a [`test_set`] and the [n-grams](ngram) by which it is compared with a
//! corpus, the questions of [`race`], the [`Observer`] that long work reports to, and what the
//! [`machine`] gives it.
//!
//! # A shard, byte by byte
//!
//! Two documents in 16 bits, "Hello world" and "Hello", each ended by token 50256:
//!
//! ```text
//! NAME.bin   9c 3c  e3 03  50 c4 | 9c 3c  50 c4
//!            15496  995    50256 | 15496  50256
//!
//! NAME.idx   4d 4d 49 44 49 44 58 00 00     "MMIDIDX\0\0"
//!            01 00 00 00 00 00 00 00        version 1
//!            08                             format of a token: u16
//!            02 00 00 00 00 00 00 00        2 sequences
//!            03 00 00 00 00 00 00 00        2 documents and one
//!            03 00 00 00  02 00 00 00       sequences of 3 and 2 tokens,
//!            00 .. 00     06 00 .. 00       beginning at bytes 0 and 6
//!            00 .. 00  01 00 .. 00  02 ..   documents: sequences 0 to 1, 1 to 2
//! ```
//!
//! # What is not here
//!
//! No tensor, no filter, and no output to a terminal: `training` and `curation` build on this
//! crate, and the program prints.

mod byte_classes;
mod data_folder;
mod document;
mod error;
mod foreign_shard;
pub mod machine;
mod mapped;
mod merge;
pub mod ngram;
mod observer;
mod pending_file;
pub mod race;
pub mod reader;
mod sentences;
pub mod shard;
pub mod test_set;
pub mod tokenizer;
mod verify;
mod word_hash;

pub use byte_classes::ByteClasses;
pub use data_folder::{
    DataFolder, DataFolderWriter, DataManifest, Existing, MANIFEST, PROVENANCE, REMOVED, REPORT,
    SHARD, Sequences, SourceSpan, TokenizerIdentity, Workplace,
};
pub use document::{Document, Provenance, TokenId};
pub use error::CorpusError;
pub use foreign_shard::ForeignShard;
pub use merge::merge;
pub use ngram::{NGram, NormalizedText};
pub use observer::{Observer, Silent, Unit};
pub use pending_file::{FilePrefix, FileSummary, PendingFile, sync_folder};
pub use sentences::sentences;
pub use verify::{ShardCheck, shards_at, verify};
pub use word_hash::{hash_ascii_word, hash_lower_case_word};
