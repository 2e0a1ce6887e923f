//! Writes a shard as its documents come, whole or not at all; or up to a checkpoint, from which a
//! later process goes on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::block::Misfit;
use super::index_writer::IndexWriter;
use super::{DType, ShardBlock, ShardFault, ShardPaths, ShardReader};
use crate::CorpusError;
use crate::data_folder::Existing;
use crate::observer::{Observer, stop_if_asked};
use crate::pending_file::{FilePrefix, FileSummary, PendingFile};

/// A shard being written. It appears under its name when [`finish`](Self::finish) returns; dropped
/// before, one that was [created](Self::create) leaves nothing behind, and one that is to be
/// [resumed](Self::resume) leaves what was written.
///
/// Everything goes to disk as it comes: memory holds nothing that grows with the shard.
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
    dtype: DType,
    index: IndexWriter,
    data_file: PendingFile,
    index_file: PendingFile,
    /// Room for the one sequence that is pushed by itself.
    single: ShardBlock,
}

/// How far an unfinished shard was written: what [`ShardWriter::resume`] needs to go on. The
/// default is the checkpoint of a shard that was not begun.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardCheckpoint {
    /// Number of documents.
    pub documents: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// What was written of the data.
    pub data: FilePrefix,
    /// What was written of the sequences' lengths.
    pub lengths: FilePrefix,
    /// What was written of the list of documents.
    pub document_ends: FilePrefix,
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

impl ShardSummary {
    /// What the shard of this stem holds, where it was finished: its index gets its name last.
    /// Reads both files for their checksums.
    ///
    /// # Errors
    ///
    /// Where the shard cannot be read or is broken.
    pub fn finished(stem: &Path) -> Result<Option<Self>, CorpusError> {
        let paths = ShardPaths::new(stem);
        if !paths.index.exists() {
            return Ok(None);
        }
        let shard = ShardReader::open(stem)?;
        Ok(Some(Self {
            documents: shard.num_documents(),
            sequences: shard.num_sequences(),
            tokens: shard.num_tokens(),
            dtype: shard.dtype(),
            files: [FileSummary::of(&paths.data)?, FileSummary::of(&paths.index)?],
        }))
    }
}

impl ShardWriter {
    /// Begins the shard `STEM.bin`, `STEM.idx` for tokens below `vocab_size`.
    ///
    /// # Errors
    ///
    /// Where one of the files exists already, or cannot be created.
    pub fn create(stem: &Path, vocab_size: usize) -> Result<Self, CorpusError> {
        let dtype = DType::for_vocabulary(vocab_size);
        Self::begin(stem, dtype, vocab_size, Existing::Refuse)
    }

    /// Begins a shard for tokens below `vocab_size`, which fit into `dtype`; where one is to be
    /// replaced, it stays until this one is whole.
    pub(crate) fn begin(
        stem: &Path,
        dtype: DType,
        vocab_size: usize,
        existing: Existing,
    ) -> Result<Self, CorpusError> {
        let paths = ShardPaths::new(stem);
        let begin = match existing {
            Existing::Refuse => PendingFile::create,
            Existing::Replace => PendingFile::replace,
        };
        Ok(Self {
            dtype,
            data_file: begin(&paths.data)?,
            index_file: begin(&paths.index)?,
            index: IndexWriter::create(&paths, dtype)?,
            single: ShardBlock::with_dtype(dtype, vocab_size),
        })
    }

    /// Goes on with a shard that an earlier process wrote up to `checkpoint`, or begins it, from
    /// the default checkpoint. What was written after the checkpoint is cut off; what was written
    /// before is read and held against it. The shard is the one that [`create`](Self::create)
    /// would have made without the break, byte for byte.
    ///
    /// The files belong to the caller: dropped unfinished, this leaves them for the next resume.
    /// Ask [`ShardSummary::finished`] first: a shard that has its name is not resumed.
    ///
    /// # Errors
    ///
    /// [`CorpusError::ManifestMismatch`] where a file does not begin as the checkpoint says; where
    /// one cannot be read or written.
    pub fn resume(
        stem: &Path,
        vocab_size: usize,
        checkpoint: &ShardCheckpoint,
    ) -> Result<Self, CorpusError> {
        let paths = ShardPaths::new(stem);
        let dtype = DType::for_vocabulary(vocab_size);
        Ok(Self {
            dtype,
            data_file: PendingFile::resume(&paths.data, &checkpoint.data)?,
            index_file: PendingFile::resume(&paths.index, &FilePrefix::default())?,
            index: IndexWriter::resume(&paths, dtype, checkpoint)?,
            single: ShardBlock::new(vocab_size),
        })
    }

    /// Adds the documents of `block`, all of which were ended.
    ///
    /// # Errors
    ///
    /// Where a token lies outside the vocabulary, a sequence is empty or longer than 2³¹ - 1
    /// tokens, or the data cannot be written. Nothing of a block with an unfitting token or an
    /// empty sequence is added.
    ///
    /// # Panics
    ///
    /// Where the block was made for another vocabulary, or its last document was not ended.
    pub fn push_block(&mut self, block: &ShardBlock) -> Result<(), CorpusError> {
        assert_eq!(block.vocab_size(), self.single.vocab_size(), "the vocabulary of a block");
        assert!(block.is_complete(), "the last document of the block was not ended");
        self.check(block)?;
        for lengths in block.documents() {
            lengths.iter().try_for_each(|&length| self.index.push_sequence(length))?;
            self.index.end_document()?;
        }
        self.data_file.write(|file| file.write_all(block.bytes()))
    }

    /// Adds the documents of another shard with their sequences, empty ones among them, as they
    /// are.
    pub(crate) fn append(
        &mut self,
        shard: &ShardReader,
        observer: &dyn Observer,
    ) -> Result<(), CorpusError> {
        const BLOCK_DOCUMENTS: u64 = 1 << 16;
        shard.for_each_block(observer, |tokens| {
            self.single.clear();
            self.single.push_tokens(tokens);
            self.check(&self.single)?;
            self.data_file.write(|file| file.write_all(self.single.bytes()))
        })?;
        let index = shard.index();
        for document in 0..index.num_documents() {
            if document % BLOCK_DOCUMENTS == 0 {
                stop_if_asked(observer)?;
            }
            let fault = |fault| CorpusError::shard(self.index_file.path())(fault);
            for sequence in index.document_sequences(document).map_err(fault)? {
                let tokens = index.sequence_tokens(sequence).map_err(fault)?;
                self.index.push_sequence((tokens.end - tokens.start) as usize)?;
            }
            self.index.end_document()?;
        }
        Ok(())
    }

    /// Adds a document of one sequence.
    ///
    /// # Errors
    ///
    /// As [`push_sequence`](Self::push_sequence).
    pub fn push_document(&mut self, tokens: &[u32]) -> Result<(), CorpusError> {
        self.push_sequence(tokens)?;
        self.end_document()
    }

    /// Adds a sequence, such as a sentence, to the document at hand.
    ///
    /// # Errors
    ///
    /// Where a token lies outside the vocabulary, the sequence is empty or longer than 2³¹ - 1
    /// tokens, or the data cannot be written.
    pub fn push_sequence(&mut self, tokens: &[u32]) -> Result<(), CorpusError> {
        self.single.clear();
        self.single.push_tokens(tokens);
        self.single.end_sequence();
        self.check(&self.single)?;
        self.index.push_sequence(tokens.len())?;
        self.data_file.write(|file| file.write_all(self.single.bytes()))
    }

    /// Ends the document at hand.
    ///
    /// # Errors
    ///
    /// Where its end cannot be written.
    pub fn end_document(&mut self) -> Result<(), CorpusError> {
        self.index.end_document()
    }

    /// Number of documents so far.
    pub fn num_documents(&self) -> u64 {
        self.index.num_documents()
    }

    /// Number of tokens so far.
    pub fn num_tokens(&self) -> u64 {
        self.index.num_tokens()
    }

    /// Waits until all that was pushed is on disk, and returns what [`resume`](Self::resume) needs
    /// to go on from here.
    ///
    /// # Errors
    ///
    /// Where something cannot be written.
    ///
    /// # Panics
    ///
    /// Where the last document was not ended.
    pub fn checkpoint(&mut self) -> Result<ShardCheckpoint, CorpusError> {
        assert!(self.index.is_complete(), "the last document was not ended");
        let data = self.data_file.checkpoint()?;
        let mut checkpoint = ShardCheckpoint { data, ..ShardCheckpoint::default() };
        self.index.checkpoint(&mut checkpoint)?;
        Ok(checkpoint)
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
        self.index.write(&mut self.index_file)?;
        let summary = ShardSummary {
            documents: self.index.num_documents(),
            sequences: self.index.num_sequences(),
            tokens: self.index.num_tokens(),
            dtype: self.dtype,
            files: [self.data_file.sync()?, self.index_file.sync()?],
        };
        self.data_file.commit()?;
        self.index_file.commit()?;
        self.index.discard_parts();
        Ok(summary)
    }

    /// Refuses a block with something that the shard cannot hold, with its place in the shard.
    fn check(&self, block: &ShardBlock) -> Result<(), CorpusError> {
        assert_eq!(block.dtype(), self.dtype, "the number format of a block");
        match block.misfit() {
            None => Ok(()),
            Some(Misfit::Token { token, document }) => Err(CorpusError::TokenOutsideVocabulary {
                token,
                document: self.num_documents() + document,
                vocab_size: block.vocab_size(),
            }),
            Some(Misfit::EmptySequence { sequence }) => {
                let sequence = self.index.num_sequences() + sequence;
                let fault = ShardFault::EmptySequence { sequence };
                Err(CorpusError::shard(self.data_file.path())(fault))
            }
        }
    }
}

#[cfg(test)]
mod tests;
