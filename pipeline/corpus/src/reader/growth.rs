//! Buffers that grow with what a file holds, and not beyond what a document may be.
//!
//! A few kilobytes can unpack to terabytes, of which a file without a line feed makes one line.
//! What is longer than [`MAX_DOCUMENT_BYTES`] is no document; that limit is the same on every
//! machine, so that the documents are. Where memory is smaller still it is asked for first, because
//! memory that is not there ends the process without a word.

use std::path::Path;

use crate::{CorpusError, machine};

/// The most bytes that a document may have in its file, unpacked: the text and what stands around
/// it.
pub(super) const MAX_DOCUMENT_BYTES: usize = 512 << 20;

/// Bytes for which the system is not asked whether it has them.
const SURELY_THERE_BYTES: usize = 4 << 20;

/// Reserves memory for `buffer`, which holds the beginning of a document of the file `path`, to
/// grow to `length` bytes; returns the length that it may have, which is less where a document may
/// not have as many.
///
/// # Errors
///
/// [`CorpusError::TooLarge`] where the buffer has the most bytes already, or memory has not so
/// many.
pub(super) fn make_room(
    buffer: &mut Vec<u8>,
    length: usize,
    path: &Path,
) -> Result<usize, CorpusError> {
    let too_large = || CorpusError::TooLarge { path: path.to_owned(), bytes: buffer.len() };
    if buffer.len() >= MAX_DOCUMENT_BYTES {
        return Err(too_large());
    }
    let length = length.min(MAX_DOCUMENT_BYTES);
    let fits = || machine::memory_bytes().is_none_or(|memory| length as u64 <= memory);
    if length > buffer.capacity().max(SURELY_THERE_BYTES) && !fits() {
        return Err(too_large());
    }
    let reserved = buffer.try_reserve(length.saturating_sub(buffer.len()));
    reserved
        .map(|()| length)
        .map_err(|_| CorpusError::TooLarge { path: path.to_owned(), bytes: buffer.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_at_the_most_that_a_document_may_have() {
        let path = Path::new("a.gz");
        let mut buffer = vec![1; 10];
        assert_eq!(make_room(&mut buffer, 20, path).unwrap(), 20);
        assert_eq!((buffer.len(), buffer.capacity() >= 20), (10, true));
        assert_eq!(make_room(&mut buffer, usize::MAX, path).unwrap(), MAX_DOCUMENT_BYTES);
        buffer.resize(MAX_DOCUMENT_BYTES, 0);
        let error = make_room(&mut buffer, usize::MAX, path).unwrap_err().to_string();
        let start = format!("a.gz: a document of more than {MAX_DOCUMENT_BYTES} bytes");
        assert!(error.starts_with(&start), "{error}");
    }
}
