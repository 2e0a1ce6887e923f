//! Writes a shard as its documents come, whole or not at all.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::index::IndexBuilder;
use super::{DType, ShardPaths};
use crate::CorpusError;
use crate::pending_file::{FileSummary, PendingFile};

/// A shard being written. It appears under its name when [`finish`](Self::finish) returns; dropped
/// before, it leaves nothing behind.
///
/// Tokens go to disk as they come; 12 bytes per document stay in memory until the end.
///
/// ```
/// # fn main() -> Result<(), corpus::CorpusError> {
/// # let folder = tempfile::tempdir().unwrap();
/// use corpus::shard::{ShardReader, ShardWriter};
///
/// let stem = folder.path().join("corpus");
/// let mut writer = ShardWriter::create(&stem, 50_257)?;
/// writer.push_document(&[15496, 995, 50256])?;
/// writer.finish()?;
///
/// assert_eq!(ShardReader::open(&stem)?.document(0)?, [15496, 995, 50256]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardWriter {
    vocab_size: usize,
    dtype: DType,
    index: IndexBuilder,
    data_file: PendingFile,
    index_file: PendingFile,
    buffer: Vec<u8>,
}

/// What a finished shard holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardSummary {
    /// Number of documents.
    pub documents: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Format of the tokens.
    pub dtype: DType,
    /// The data and the index.
    pub files: [FileSummary; 2],
}

impl ShardWriter {
    /// Begins the shard `STEM.bin`, `STEM.idx` for tokens below `vocab_size`.
    ///
    /// # Errors
    ///
    /// Where one of the files exists already, or cannot be created.
    pub fn create(stem: &Path, vocab_size: usize) -> Result<Self, CorpusError> {
        let paths = ShardPaths::new(stem);
        let dtype = DType::for_vocabulary(vocab_size);
        Ok(Self {
            vocab_size,
            dtype,
            index: IndexBuilder::new(dtype),
            data_file: PendingFile::create(&paths.data)?,
            index_file: PendingFile::create(&paths.index)?,
            buffer: Vec::new(),
        })
    }

    /// Adds a document of one sequence.
    ///
    /// # Errors
    ///
    /// As [`push_sequence`](Self::push_sequence).
    pub fn push_document(&mut self, tokens: &[u32]) -> Result<(), CorpusError> {
        self.push_sequence(tokens)?;
        self.end_document();
        Ok(())
    }

    /// Adds a sequence, such as a sentence, to the document at hand.
    ///
    /// # Errors
    ///
    /// Where a token lies outside the vocabulary, the sequence is empty or longer than 2³¹ - 1
    /// tokens, or the data cannot be written.
    pub fn push_sequence(&mut self, tokens: &[u32]) -> Result<(), CorpusError> {
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= self.vocab_size) {
            let (document, vocab_size) = (self.num_documents(), self.vocab_size);
            return Err(CorpusError::TokenOutsideVocabulary { token, document, vocab_size });
        }
        self.index
            .push_sequence(tokens.len())
            .map_err(CorpusError::shard(self.data_file.path()))?;
        self.buffer.clear();
        self.dtype.encode(tokens, &mut self.buffer);
        self.data_file.write(|file| file.write_all(&self.buffer))
    }

    /// Ends the document at hand.
    pub fn end_document(&mut self) {
        self.index.end_document();
    }

    /// Number of documents so far.
    pub fn num_documents(&self) -> u64 {
        self.index.num_documents()
    }

    /// Number of tokens so far.
    pub fn num_tokens(&self) -> u64 {
        self.index.num_tokens()
    }

    /// Writes the index, waits until all is on disk, and gives both files their names, the index
    /// last.
    ///
    /// # Errors
    ///
    /// Where something cannot be written.
    ///
    /// # Panics
    ///
    /// Where the last document was not ended.
    pub fn finish(mut self) -> Result<ShardSummary, CorpusError> {
        assert!(self.index.is_complete(), "the last document was not ended");
        self.index_file.write(|mut file| self.index.write(&mut file))?;
        let summary = ShardSummary {
            documents: self.index.num_documents(),
            sequences: self.index.num_sequences(),
            tokens: self.index.num_tokens(),
            dtype: self.dtype,
            files: [self.data_file.sync()?, self.index_file.sync()?],
        };
        self.data_file.commit()?;
        self.index_file.commit()?;
        Ok(summary)
    }
}

#[cfg(test)]
mod tests;
