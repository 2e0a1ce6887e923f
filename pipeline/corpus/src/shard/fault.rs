//! What can be wrong with a shard.

use thiserror::Error;

use super::DType;

/// A way in which an index, or an index and its data, do not hold together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardFault {
    /// One file of the pair is not there.
    #[error(
        "missing; a shard is a .bin and an .idx file of one name, and {present} is there alone"
    )]
    Missing {
        /// Name of the other file.
        present: String,
    },
    /// A folder holds neither a manifest nor a shard.
    #[error("no shard here: expected files *.bin and *.idx")]
    NoShard,
    /// The index is shorter than its own header.
    #[error(
        "index of {found} bytes: expected at least {expected}, its header; it was cut: copy the shard again"
    )]
    ShortHeader {
        /// Bytes of a header.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The index does not begin as one.
    #[error("no shard index: expected the first bytes MMIDIDX, found {found}")]
    Magic {
        /// The first bytes, escaped.
        found: String,
    },
    /// The index has the format that Megatron-LM's memory-mapped one replaced.
    #[error(
        "index in the legacy TNTIDX format: expected MMIDIDX. Write the data again as a memory-mapped (mmap) dataset"
    )]
    Legacy,
    /// An index version that is not known.
    #[error("index version {found}: expected 1")]
    Version {
        /// The version.
        found: u64,
    },
    /// A number format that is not known.
    #[error("unknown token format {code}: expected 1, 2, 3, 4, 5 or 8")]
    UnknownDType {
        /// Its code.
        code: u8,
    },
    /// Floating-point numbers.
    #[error("token format {code} is floating-point: expected an integer format")]
    FloatTokens {
        /// Its code.
        code: u8,
    },
    /// The index is not as long as its header says.
    #[error(
        "index of {found} bytes: expected {expected} for {sequences} sequences and {documents} documents; \
         it was cut or damaged: copy the shard again"
    )]
    IndexSize {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes of the file.
        found: u64,
        /// Sequences, as the header has it.
        sequences: u64,
        /// Documents, as the header has it.
        documents: u64,
    },
    /// A sequence of negative length.
    #[error("sequence {sequence} has {found} tokens: expected 0 or more")]
    NegativeLength {
        /// Index of the sequence.
        sequence: u64,
        /// Its length.
        found: i32,
    },
    /// A sequence that does not begin where the one before it ends.
    #[error(
        "sequence {sequence} begins at byte {found} of the data: expected {expected}, where the one before ends"
    )]
    Pointer {
        /// Index of the sequence.
        sequence: u64,
        /// Sum of the lengths before, in bytes.
        expected: u64,
        /// What the index says.
        found: i64,
    },
    /// The list of documents lacks even its first entry.
    #[error("the list of documents is empty: expected at least the entry 0")]
    NoDocumentList,
    /// The list of documents is not ascending from 0 to the number of sequences.
    #[error("entry {entry} of the list of documents is {found}: expected {expected}")]
    DocumentList {
        /// Place in the list.
        entry: u64,
        /// What would be right.
        expected: String,
        /// What stands there.
        found: i64,
    },
    /// The data is not as long as the index says.
    #[error(
        "data of {found} bytes: expected {expected}, {tokens} tokens of {dtype:?}; it was cut or damaged: copy the shard again"
    )]
    DataSize {
        /// Bytes that the index asks for.
        expected: u64,
        /// Bytes of the file.
        found: u64,
        /// Tokens, as the index has it.
        tokens: u64,
        /// Format of the tokens.
        dtype: DType,
    },
    /// A number in the data that is no token.
    #[error("token {position} is {found}: expected 0 to 4294967295")]
    NotAToken {
        /// Place in the data, in tokens.
        position: u64,
        /// What stands there.
        found: i64,
    },
    /// A number in the data that is no token of the vocabulary that the shard belongs to.
    #[error(
        "token {place} of sequence {sequence} is {found}: expected 0 to {}, the vocabulary that the \
         data is said to have",
        vocab_size.saturating_sub(1)
    )]
    OutsideVocabulary {
        /// The sequence, counted from 0.
        sequence: u64,
        /// Place in the sequence, counted from 0.
        place: u64,
        /// What stands there.
        found: i64,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// A read that leaves the shard.
    #[error("no {what} {index}: the shard has {count}")]
    OutOfRange {
        /// `document`, `sequence` or `token`.
        what: &'static str,
        /// What was asked for.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A quantity that leaves the format's range.
    #[error("{what} {value} exceeds what the format holds")]
    TooLarge {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A sequence without tokens, which no reader expects.
    #[error("sequence {sequence} has no tokens; leave such documents out")]
    EmptySequence {
        /// Index that the sequence would have had.
        sequence: u64,
    },
}
