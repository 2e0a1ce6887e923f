//! A shard by itself, as other stacks write them: no manifest says which tokenizer made it, or what
//! its files were when it was written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::observer::{Observer, Unit};
use crate::shard::{ShardPaths, ShardReader};
use crate::{CorpusError, FileSummary};

/// An open shard that has no manifest.
#[derive(Debug, Clone)]
pub struct ForeignShard {
    paths: ShardPaths,
    reader: Arc<ShardReader>,
}

impl ForeignShard {
    /// Whether there is a shard of this stem, or one to which this file belongs: a file of it is
    /// there.
    pub fn is_at(path: &Path) -> bool {
        let ShardPaths { data, index } = ShardPaths::new(path);
        data.is_file() || index.is_file()
    }

    /// Opens the shard of this stem, or to which this file belongs.
    ///
    /// # Errors
    ///
    /// As [`ShardReader::open`].
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        Ok(Self { paths: ShardPaths::new(path), reader: Arc::new(ShardReader::open(path)?) })
    }

    /// The file of tokens.
    pub fn data_path(&self) -> &PathBuf {
        &self.paths.data
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<ShardReader> {
        &self.reader
    }

    /// Reads all of it once: every token lies in a vocabulary of `vocab_size`. Returns size and
    /// checksum of the data and of the index, by which the same shard is known again.
    ///
    /// # Errors
    ///
    /// With file, sequence and place of the first token that lies outside; or where a file cannot
    /// be read, or the observer asks to stop.
    pub fn verify(
        &self,
        vocab_size: usize,
        observer: &dyn Observer,
    ) -> Result<[FileSummary; 2], CorpusError> {
        observer.begin("verify", Some(self.reader.index().data_bytes()), Unit::Bytes);
        let scan = self.reader.scan(vocab_size, observer)?;
        let index = FileSummary::of(&self.paths.index)?;
        observer.finish();
        match scan.first_outside {
            Some(found) => Err(self.reader.outside(found, vocab_size)),
            None => Ok([scan.file, index]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::foreign::write_shard;
    use crate::{Observer, Silent};

    #[test]
    fn tokens_outside_the_vocabulary_are_named_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("other");
        // Two documents of several sequences; an empty one among them.
        let documents = [vec![vec![1, 2], vec![], vec![3]], vec![vec![4, 5, 99]]];
        for code in [1, 2, 3, 4, 5, 8] {
            write_shard(&stem, code, &documents);
            let shard = ForeignShard::open(&stem).unwrap();
            assert_eq!(shard.shard().document(0).unwrap(), [1, 2, 3], "sequences are joined");
            assert!(shard.verify(100, &Silent).is_ok());
            let error = shard.verify(99, &Silent).unwrap_err().to_string();
            let place = "other.bin: token 2 of sequence 3 is 99: expected 0 to 98, \
                         the vocabulary that the data is said to have";
            assert!(error.ends_with(place), "{error}");
        }
        write_shard(&stem, 5, &[vec![vec![1, -7]]]);
        let error = ForeignShard::open(&stem).unwrap().verify(99, &Silent).unwrap_err().to_string();
        assert!(error.contains("token 1 of sequence 0 is -7: expected 0 to 98"), "{error}");
    }

    #[test]
    fn checksums_are_those_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("other");
        write_shard(&stem, 4, &[vec![(0..200_000).collect()], vec![vec![1]]]);
        let [data, index] = ForeignShard::open(&stem).unwrap().verify(1 << 20, &Silent).unwrap();
        let paths = ShardPaths::new(&stem);
        assert_eq!(data, FileSummary::of(&paths.data).unwrap());
        assert_eq!(index, FileSummary::of(&paths.index).unwrap());
    }

    #[test]
    fn request_to_stop_ends_the_verification() {
        struct Stop;
        impl Observer for Stop {
            fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
            fn advance(&self, _: u64) {}
            fn finish(&self) {}
            fn stop_requested(&self) -> bool {
                true
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("other");
        write_shard(&stem, 8, &[vec![vec![1]]]);
        let stopped = ForeignShard::open(&stem).unwrap().verify(2, &Stop);
        assert!(matches!(stopped, Err(CorpusError::Stopped)));
    }
}
