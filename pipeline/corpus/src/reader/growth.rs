//! Buffers that grow with what a file unpacks to, and not beyond memory.
//!
//! A few kilobytes can unpack to terabytes, of which a file without a line feed makes one line.
//! Memory that is not there ends the process without a word, so it is asked for first.

use std::path::Path;

use crate::{CorpusError, machine};

/// Grows `buffer`, which holds the beginning of a document of the file `path`, to `length` bytes.
pub(super) fn grow(buffer: &mut Vec<u8>, length: usize, path: &Path) -> Result<(), CorpusError> {
    let too_large =
        |buffer: &Vec<u8>| CorpusError::TooLarge { path: path.to_owned(), bytes: buffer.len() };
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
    fn growth_beyond_memory_is_an_error_that_names_file_and_bytes() {
        let mut buffer = vec![1; 10];
        grow(&mut buffer, 20, Path::new("a.gz")).unwrap();
        assert_eq!(buffer, [[1; 10], [0; 10]].concat());
        let most = isize::MAX.cast_unsigned();
        for length in [most, usize::MAX] {
            let error = grow(&mut buffer, length, Path::new("a.gz")).unwrap_err().to_string();
            assert!(error.starts_with("a.gz: a document of more than 20 bytes"), "{error}");
        }
        assert_eq!(buffer.len(), 20);
    }
}
