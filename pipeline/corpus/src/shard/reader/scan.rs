//! One pass over all of a shard's data: its checksum, its highest token, and the first number in it
//! that is no token of its vocabulary.

use xxhash_rust::xxh3::Xxh3;

use super::ShardReader;
use crate::observer::{Observer, stop_if_asked};
use crate::shard::ShardFault;
use crate::{CorpusError, FileSummary};

/// Tokens between two looks at an observer.
const BLOCK_TOKENS: u64 = 1 << 16;

/// What a pass over all of a shard's data found.
#[derive(Debug)]
pub(crate) struct DataScan {
    /// Size and checksum of the data.
    pub(crate) file: FileSummary,
    /// The highest token; `None` where there is none.
    pub(crate) max_token: Option<u32>,
    /// Place and value of the first number that is no token of the vocabulary.
    pub(crate) first_outside: Option<(u64, i64)>,
}

impl ShardReader {
    /// Reads all of the data once, and tells `observer` of its bytes.
    ///
    /// # Errors
    ///
    /// Where the observer asks to stop.
    pub(crate) fn scan(
        &self,
        vocab_size: usize,
        observer: &dyn Observer,
    ) -> Result<DataScan, CorpusError> {
        let mut hash = Box::new(Xxh3::new()); // half a kilobyte
        let (mut max_token, mut first_outside) = (None, None);
        let width = self.dtype().width();
        let mut tokens = vec![0; BLOCK_TOKENS.min(self.num_tokens()) as usize];
        for start in (0..self.num_tokens()).step_by(BLOCK_TOKENS as usize) {
            stop_if_asked(observer)?;
            let tokens = &mut tokens[..BLOCK_TOKENS.min(self.num_tokens() - start) as usize];
            let from = start as usize * width;
            let bytes = &self.data[from..from + tokens.len() * width];
            hash.update(bytes);
            let outside = match self.dtype().decode(bytes, tokens) {
                Err((place, found)) => Some((start + place as u64, found)),
                Ok(()) => {
                    let highest = tokens.iter().copied().max();
                    max_token = max_token.max(highest);
                    let is_outside = |token: u32| token as usize >= vocab_size;
                    highest.filter(|&token| is_outside(token)).and_then(|_| {
                        let place = tokens.iter().position(|&token| is_outside(token))?;
                        Some((start + place as u64, i64::from(tokens[place])))
                    })
                }
            };
            first_outside = first_outside.or(outside);
            observer.advance(bytes.len() as u64);
        }
        let name = self.data_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (bytes, xxh3_128) = (self.index.data_bytes(), format!("{:032x}", hash.digest128()));
        Ok(DataScan { file: FileSummary { name, bytes, xxh3_128 }, max_token, first_outside })
    }

    /// The error that tells of a number outside a vocabulary of `vocab_size`, by its sequence.
    pub(crate) fn outside(&self, (place, found): (u64, i64), vocab_size: usize) -> CorpusError {
        let sequence = self.index.sequence_at(place);
        let place = place - self.index.sequence_tokens(sequence).map_or(0, |tokens| tokens.start);
        let fault = ShardFault::OutsideVocabulary { sequence, place, found, vocab_size };
        CorpusError::Shard { path: self.data_path.clone(), fault }
    }
}
