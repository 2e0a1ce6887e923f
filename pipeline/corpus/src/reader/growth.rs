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

/// Grows `buffer`, which holds the beginning of a document of the file `path`, to `length` bytes or
/// to the most that a document may have.
///
/// # Errors
///
/// [`CorpusError::TooLarge`] where it has that many already, or memory has not.
pub(super) fn grow(buffer: &mut Vec<u8>, length: usize, path: &Path) -> Result<(), CorpusError> {
    let too_large =
        |buffer: &Vec<u8>| CorpusError::TooLarge { path: path.to_owned(), bytes: buffer.len() };
    if buffer.len() >= MAX_DOCUMENT_BYTES {
        return Err(too_large(buffer));
    }
    let length = length.min(MAX_DOCUMENT_BYTES);
    if length > buffer.capacity() {
        let fits = machine::memory_bytes().is_none_or(|memory| length as u64 <= memory);
        if !fits || buffer.try_reserve(length - buffer.len()).is_err() {
            return Err(too_large(buffer));
        }
    }
    buffer.resize(length, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_at_the_most_that_a_document_may_have() {
        let mut buffer = vec![1; 10];
        grow(&mut buffer, 20, Path::new("a.gz")).unwrap();
        assert_eq!(buffer, [[1; 10], [0; 10]].concat());
        grow(&mut buffer, usize::MAX, Path::new("a.gz")).unwrap();
        assert_eq!(buffer.len(), MAX_DOCUMENT_BYTES);
        let error = grow(&mut buffer, usize::MAX, Path::new("a.gz")).unwrap_err().to_string();
        let start = format!("a.gz: a document of more than {MAX_DOCUMENT_BYTES} bytes");
        assert!(error.starts_with(&start), "{error}");
    }
}
