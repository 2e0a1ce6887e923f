//! Reads tokens out of a shard through a memory map.

mod scan;

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{DType, ShardFault, ShardIndex, ShardPaths};
use crate::CorpusError;
use crate::mapped::MappedFile;
use crate::observer::{Observer, stop_if_asked};

/// An open shard. Reading copies: tokens are 32 bits wide whatever their width on disk.
#[derive(Debug)]
pub struct ShardReader {
    index: ShardIndex,
    data: MappedFile,
    data_path: PathBuf,
}

impl ShardReader {
    /// Opens the shard of this stem, or of this `.bin` or `.idx` file, and checks that index and
    /// data fit together.
    ///
    /// # Errors
    ///
    /// Where a file is missing or cannot be read, or with the file and the [`ShardFault`] found in
    /// it.
    pub fn open(stem: &Path) -> Result<Self, CorpusError> {
        let paths = ShardPaths::new(stem);
        paths.check_present()?;
        let index = ShardIndex::open(&paths.index)?;
        let data = MappedFile::open(&paths.data)?;
        let (expected, found) = (index.data_bytes(), data.len() as u64);
        if expected != found {
            let (tokens, dtype) = (index.num_tokens(), index.dtype());
            let fault = ShardFault::DataSize { expected, found, tokens, dtype };
            return Err(CorpusError::Shard { path: paths.data, fault });
        }
        Ok(Self { index, data, data_path: paths.data })
    }

    /// The index: where documents and sequences lie.
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    /// Number of documents.
    pub fn num_documents(&self) -> u64 {
        self.index.num_documents()
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> u64 {
        self.index.num_sequences()
    }

    /// Number of tokens.
    pub fn num_tokens(&self) -> u64 {
        self.index.num_tokens()
    }

    /// Format of the tokens on disk.
    pub fn dtype(&self) -> DType {
        self.index.dtype()
    }

    /// Tokens of a document.
    ///
    /// # Errors
    ///
    /// Where there is no such document, or the data holds a number that is no token.
    pub fn document(&self, document: u64) -> Result<Vec<u32>, CorpusError> {
        self.tokens(self.document_tokens(document)?)
    }

    /// The places of a document's tokens.
    ///
    /// # Errors
    ///
    /// Where there is no such document.
    pub fn document_tokens(&self, document: u64) -> Result<Range<u64>, CorpusError> {
        self.index.document_tokens(document).map_err(CorpusError::shard(&self.data_path))
    }

    /// The sequences of a document.
    ///
    /// # Errors
    ///
    /// Where there is no such document.
    pub fn document_sequences(&self, document: u64) -> Result<Range<u64>, CorpusError> {
        self.index.document_sequences(document).map_err(CorpusError::shard(&self.data_path))
    }

    /// The places of a sequence's tokens.
    ///
    /// # Errors
    ///
    /// Where there is no such sequence.
    pub fn sequence_tokens(&self, sequence: u64) -> Result<Range<u64>, CorpusError> {
        self.index.sequence_tokens(sequence).map_err(CorpusError::shard(&self.data_path))
    }

    /// Tokens of a sequence.
    ///
    /// # Errors
    ///
    /// Where there is no such sequence, or the data holds a number that is no token.
    pub fn sequence(&self, sequence: u64) -> Result<Vec<u32>, CorpusError> {
        let tokens =
            self.index.sequence_tokens(sequence).map_err(CorpusError::shard(&self.data_path))?;
        self.tokens(tokens)
    }

    /// Tokens at these places of the data, across the ends of documents.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn tokens(&self, places: Range<u64>) -> Result<Vec<u32>, CorpusError> {
        self.check_range(&places)?;
        let mut tokens = vec![0; (places.end - places.start) as usize];
        self.read(places.start, &mut tokens)?;
        Ok(tokens)
    }

    /// Fills `tokens` with those from place `start` of the data on, across the ends of documents.
    ///
    /// # Errors
    ///
    /// Where the range leaves the shard, or the data holds a number that is no token.
    pub fn read(&self, start: u64, tokens: &mut [u32]) -> Result<(), CorpusError> {
        self.check_range(&(start..start.saturating_add(tokens.len() as u64)))?;
        let width = self.dtype().width();
        let from = start as usize * width;
        let bytes = &self.data[from..from + tokens.len() * width];
        self.dtype().decode(bytes, tokens).map_err(|(index, found)| CorpusError::Shard {
            path: self.data_path.clone(),
            fault: ShardFault::NotAToken { position: start + index as u64, found },
        })
    }

    /// The highest token, or `None` in an empty shard. Reads all of the data.
    ///
    /// # Errors
    ///
    /// Where the data holds a number that is no token, or the observer asks to stop.
    pub fn max_token(&self, observer: &dyn Observer) -> Result<Option<u32>, CorpusError> {
        let mut highest = None;
        self.for_each_block(observer, |block| {
            highest = highest.max(block.iter().copied().max());
            Ok(())
        })?;
        Ok(highest)
    }

    /// Hands all tokens to `work`, block by block, and tells `observer` of their bytes.
    pub(super) fn for_each_block(
        &self,
        observer: &dyn Observer,
        mut work: impl FnMut(&[u32]) -> Result<(), CorpusError>,
    ) -> Result<(), CorpusError> {
        const BLOCK_TOKENS: u64 = 1 << 16;
        let mut block = vec![0; BLOCK_TOKENS.min(self.num_tokens()) as usize];
        let mut start = 0;
        while start < self.num_tokens() {
            stop_if_asked(observer)?;
            let block = &mut block[..BLOCK_TOKENS.min(self.num_tokens() - start) as usize];
            self.read(start, block)?;
            work(block)?;
            start += block.len() as u64;
            observer.advance((block.len() * self.dtype().width()) as u64);
        }
        Ok(())
    }

    fn check_range(&self, places: &Range<u64>) -> Result<(), CorpusError> {
        let count = self.num_tokens();
        if places.start <= places.end && places.end <= count {
            return Ok(());
        }
        let fault =
            ShardFault::OutOfRange { what: "token", index: places.end.saturating_sub(1), count };
        Err(CorpusError::Shard { path: self.data_path.clone(), fault })
    }
}

#[cfg(test)]
mod tests;
