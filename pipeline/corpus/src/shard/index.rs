//! The `.idx` file: where sequences and documents lie in the data.
//!
//! [`ShardIndex`] reads it through a memory map, after checking every number in it once. Offsets
//! are 64-bit and their arithmetic is checked: an overflow is an error, never a wrong place.

use std::ops::Range;
use std::path::Path;

use super::{DType, ShardFault};
use crate::CorpusError;
use crate::mapped::MappedFile;

pub(super) const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const LEGACY_MAGIC: &[u8; 6] = b"TNTIDX";
pub(super) const VERSION: u64 = 1;
const HEADER_BYTES: u64 = 34;
const LENGTH_BYTES: u64 = 4;
const POINTER_BYTES: u64 = 8;
const DOCUMENT_BYTES: u64 = 8;

/// The index of a shard, mapped into memory.
#[derive(Debug)]
pub struct ShardIndex {
    bytes: MappedFile,
    dtype: DType,
    sequences: u64,
    documents: u64,
    tokens: u64,
}

impl ShardIndex {
    /// Maps the index at `path` and checks all of it.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no index, or contradicts itself.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        Self::parse(MappedFile::open(path)?).map_err(CorpusError::shard(path))
    }

    fn parse(bytes: MappedFile) -> Result<Self, ShardFault> {
        let header = Header::parse(&bytes)?;
        let mut index = Self {
            bytes,
            dtype: header.dtype,
            sequences: header.sequences,
            documents: header.document_entries - 1,
            tokens: 0,
        };
        index.tokens = index.check_sequences()?;
        index.check_documents()?;
        Ok(index)
    }

    /// Format of the tokens.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of documents.
    pub fn num_documents(&self) -> u64 {
        self.documents
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> u64 {
        self.sequences
    }

    /// Number of tokens.
    pub fn num_tokens(&self) -> u64 {
        self.tokens
    }

    /// Bytes that the data must have.
    pub fn data_bytes(&self) -> u64 {
        self.tokens * self.dtype.width() as u64
    }

    /// Sequences that make up a document.
    ///
    /// # Errors
    ///
    /// [`ShardFault::OutOfRange`] where there is no such document.
    pub fn document_sequences(&self, document: u64) -> Result<Range<u64>, ShardFault> {
        in_range("document", document, self.documents)?;
        Ok(self.document_entry(document) as u64..self.document_entry(document + 1) as u64)
    }

    /// Tokens of a document, as places in the data.
    ///
    /// # Errors
    ///
    /// [`ShardFault::OutOfRange`] where there is no such document.
    pub fn document_tokens(&self, document: u64) -> Result<Range<u64>, ShardFault> {
        let sequences = self.document_sequences(document)?;
        Ok(self.start_of(sequences.start)..self.start_of(sequences.end))
    }

    /// Tokens of a sequence, as places in the data.
    ///
    /// # Errors
    ///
    /// [`ShardFault::OutOfRange`] where there is no such sequence.
    pub fn sequence_tokens(&self, sequence: u64) -> Result<Range<u64>, ShardFault> {
        in_range("sequence", sequence, self.sequences)?;
        let start = self.start_of(sequence);
        Ok(start..start + self.length(sequence) as u64)
    }

    /// The sequence that holds the token at place `token` of the data; the last one where there is
    /// no such place.
    pub(super) fn sequence_at(&self, token: u64) -> u64 {
        let (mut low, mut high) = (0, self.sequences);
        // Sequences below `low` begin at or before the token, those from `high` on after it.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start_of(middle) <= token { low = middle + 1 } else { high = middle }
        }
        low.saturating_sub(1)
    }

    /// Place of a sequence's first token; that of the one after the last is the end of the data.
    fn start_of(&self, sequence: u64) -> u64 {
        if sequence == self.sequences {
            self.tokens
        } else {
            self.pointer(sequence) as u64 / self.dtype.width() as u64
        }
    }

    fn length(&self, sequence: u64) -> i32 {
        i32::from_le_bytes(self.number(HEADER_BYTES + sequence * LENGTH_BYTES))
    }

    fn pointer(&self, sequence: u64) -> i64 {
        let pointers = HEADER_BYTES + self.sequences * LENGTH_BYTES;
        i64::from_le_bytes(self.number(pointers + sequence * POINTER_BYTES))
    }

    fn document_entry(&self, entry: u64) -> i64 {
        let entries = HEADER_BYTES + self.sequences * (LENGTH_BYTES + POINTER_BYTES);
        i64::from_le_bytes(self.number(entries + entry * DOCUMENT_BYTES))
    }

    fn number<const W: usize>(&self, offset: u64) -> [u8; W] {
        number(&self.bytes, offset as usize)
    }

    /// Checks lengths and pointers; returns the number of tokens.
    fn check_sequences(&self) -> Result<u64, ShardFault> {
        let width = self.dtype.width() as u64;
        let (mut tokens, mut bytes) = (0_u64, 0_u64);
        for sequence in 0..self.sequences {
            let (length, pointer) = (self.length(sequence), self.pointer(sequence));
            if pointer < 0 || pointer as u64 != bytes {
                return Err(ShardFault::Pointer { sequence, expected: bytes, found: pointer });
            }
            let length = u64::try_from(length)
                .map_err(|_| ShardFault::NegativeLength { sequence, found: length })?;
            tokens += length;
            bytes = data_bytes(tokens, width)?;
        }
        Ok(tokens)
    }

    fn check_documents(&self) -> Result<(), ShardFault> {
        let mut previous = 0;
        for entry in 0..=self.documents {
            let found = self.document_entry(entry);
            let expected = match entry {
                0 if found != 0 => "0".to_owned(),
                last if last == self.documents && found != self.sequences as i64 => {
                    format!("{}, the number of sequences", self.sequences)
                }
                _ if found < previous => format!("{previous} or more"),
                _ => {
                    previous = found;
                    continue;
                }
            };
            return Err(ShardFault::DocumentList { entry, expected, found });
        }
        Ok(())
    }
}

/// The first bytes of an index.
struct Header {
    dtype: DType,
    sequences: u64,
    document_entries: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, ShardFault> {
        let found = bytes.len() as u64;
        if bytes.starts_with(LEGACY_MAGIC) {
            return Err(ShardFault::Legacy);
        }
        if found < HEADER_BYTES {
            return Err(ShardFault::ShortHeader { expected: HEADER_BYTES, found });
        }
        if !bytes.starts_with(MAGIC) {
            let found = bytes[..MAGIC.len()].escape_ascii().to_string();
            return Err(ShardFault::Magic { found });
        }
        let version = u64::from_le_bytes(number(bytes, 9));
        if version != VERSION {
            return Err(ShardFault::Version { found: version });
        }
        let dtype = DType::from_code(bytes[17])?;
        let sequences = u64::from_le_bytes(number(bytes, 18));
        let document_entries = u64::from_le_bytes(number(bytes, 26));
        let documents = document_entries.checked_sub(1).ok_or(ShardFault::NoDocumentList)?;
        let expected = index_bytes(sequences, document_entries)
            .ok_or(ShardFault::TooLarge { what: "number of sequences", value: sequences })?;
        if found != expected {
            return Err(ShardFault::IndexSize { expected, found, sequences, documents });
        }
        Ok(Self { dtype, sequences, document_entries })
    }
}

/// Size of an index, in bytes.
fn index_bytes(sequences: u64, document_entries: u64) -> Option<u64> {
    let per_sequence = sequences.checked_mul(LENGTH_BYTES + POINTER_BYTES)?;
    let per_document = document_entries.checked_mul(DOCUMENT_BYTES)?;
    HEADER_BYTES.checked_add(per_sequence)?.checked_add(per_document)
}

/// Size of the data, in bytes: never more than a pointer can hold.
pub(super) fn data_bytes(tokens: u64, width: u64) -> Result<u64, ShardFault> {
    tokens
        .checked_mul(width)
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or(ShardFault::TooLarge { what: "number of tokens", value: tokens })
}

fn number<const W: usize>(bytes: &[u8], offset: usize) -> [u8; W] {
    bytes[offset..offset + W].try_into().expect("a slice of W bytes")
}

fn in_range(what: &'static str, index: u64, count: u64) -> Result<(), ShardFault> {
    if index < count { Ok(()) } else { Err(ShardFault::OutOfRange { what, index, count }) }
}

#[cfg(test)]
mod tests;
