//! Writes the `.idx` file of a new shard.
//!
//! What an index holds is known only at its end: its parts stand one after another, and the first
//! of them is as long as the number of sequences. The parts are therefore written to files of
//! their own while the sequences come, in the form that the index has them in, and put together at
//! the end. Memory holds nothing that grows with the shard.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::index::{MAGIC, VERSION, data_bytes};
use super::{DType, ShardCheckpoint, ShardFault, ShardPaths};
use crate::CorpusError;
use crate::pending_file::PendingFile;

/// The index of a shard being written: 4 bytes per sequence and 8 per document on disk.
#[derive(Debug)]
pub(super) struct IndexWriter {
    path: PathBuf,
    dtype: DType,
    sequences: u64,
    documents: u64,
    tokens: u64,
    /// Whether the sequences so far all belong to documents that were ended.
    is_complete: bool,
    /// Length of each sequence, as `i32`.
    lengths: PendingFile,
    /// Number of sequences before the end of each document, as `i64`.
    document_ends: PendingFile,
}

impl IndexWriter {
    /// Begins the index of the shard of these files.
    pub(super) fn create(paths: &ShardPaths, dtype: DType) -> Result<Self, CorpusError> {
        Ok(Self {
            path: paths.index.clone(),
            dtype,
            sequences: 0,
            documents: 0,
            tokens: 0,
            is_complete: true,
            lengths: PendingFile::replace(&part(&paths.index, "lengths"))?,
            document_ends: PendingFile::replace(&part(&paths.index, "documents"))?,
        })
    }

    /// Goes on behind the sequences of a checkpoint.
    pub(super) fn resume(
        paths: &ShardPaths,
        dtype: DType,
        written: &ShardCheckpoint,
    ) -> Result<Self, CorpusError> {
        let resume = |name, written| PendingFile::resume(&part(&paths.index, name), written);
        Ok(Self {
            path: paths.index.clone(),
            dtype,
            sequences: written.sequences,
            documents: written.documents,
            tokens: written.tokens,
            is_complete: true,
            lengths: resume("lengths", &written.lengths)?,
            document_ends: resume("documents", &written.document_ends)?,
        })
    }

    pub(super) fn num_documents(&self) -> u64 {
        self.documents
    }

    pub(super) fn num_sequences(&self) -> u64 {
        self.sequences
    }

    pub(super) fn num_tokens(&self) -> u64 {
        self.tokens
    }

    /// Whether every sequence belongs to a document that was ended.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds a sequence of `length` tokens to the document at hand.
    pub(super) fn push_sequence(&mut self, length: usize) -> Result<(), CorpusError> {
        let fault = CorpusError::shard(&self.path);
        let Ok(stored) = i32::try_from(length) else {
            let value = length as u64;
            return Err(fault(ShardFault::TooLarge { what: "length of a sequence", value }));
        };
        let tokens = self.tokens + length as u64;
        data_bytes(tokens, self.dtype.width() as u64).map_err(fault)?;
        self.lengths.write(|file| file.write_all(&stored.to_le_bytes()))?;
        self.tokens = tokens;
        self.sequences += 1;
        self.is_complete = false;
        Ok(())
    }

    /// Ends the document that the sequences since the last end belong to.
    pub(super) fn end_document(&mut self) -> Result<(), CorpusError> {
        let end = self.sequences;
        self.document_ends.write(|file| file.write_all(&end.to_le_bytes()))?;
        self.documents += 1;
        self.is_complete = true;
        Ok(())
    }

    /// Notes in `checkpoint` what was written of the parts; it is on disk then.
    pub(super) fn checkpoint(
        &mut self,
        checkpoint: &mut ShardCheckpoint,
    ) -> Result<(), CorpusError> {
        checkpoint.documents = self.documents;
        checkpoint.sequences = self.sequences;
        checkpoint.tokens = self.tokens;
        checkpoint.lengths = self.lengths.checkpoint()?;
        checkpoint.document_ends = self.document_ends.checkpoint()?;
        Ok(())
    }

    /// Puts the parts together in `index`.
    pub(super) fn write(&mut self, index: &mut PendingFile) -> Result<(), CorpusError> {
        let (dtype, sequences, documents) = (self.dtype, self.sequences, self.documents);
        index.write(|out| {
            out.write_all(MAGIC)?;
            out.write_all(&VERSION.to_le_bytes())?;
            out.write_all(&[dtype.code()])?;
            out.write_all(&sequences.to_le_bytes())?;
            out.write_all(&(documents + 1).to_le_bytes())
        })?;
        self.lengths.read_back(|lengths| index.write(|out| io::copy(lengths, out).map(drop)))?;
        self.lengths.read_back(|lengths| {
            index.write(|out| write_pointers(lengths, sequences, dtype.width() as u64, out))
        })?;
        index.write(|out| out.write_all(&0_u64.to_le_bytes()))?;
        self.document_ends.read_back(|ends| index.write(|out| io::copy(ends, out).map(drop)))
    }

    /// Removes the parts.
    pub(super) fn discard_parts(self) {
        self.lengths.discard();
        self.document_ends.discard();
    }
}

/// Where each of the sequences of these lengths begins, in bytes of the data.
fn write_pointers(
    lengths: &mut dyn Read,
    sequences: u64,
    width: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut lengths = BufReader::with_capacity(1 << 20, lengths);
    let mut pointer = 0_u64;
    for _ in 0..sequences {
        out.write_all(&pointer.to_le_bytes())?;
        let mut length = [0; 4];
        lengths.read_exact(&mut length)?;
        pointer += u64::from(u32::from_le_bytes(length)) * width;
    }
    Ok(())
}

/// The file of a part: `NAME.idx.PART`.
fn part(index: &Path, part: &str) -> PathBuf {
    index.with_added_extension(part)
}
