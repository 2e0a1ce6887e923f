//! A test set that is one text in a file.

use std::fs;
use std::path::Path;

use crate::error::EvalError;

/// What Windows' programs put before UTF-8; it is no part of any published test set.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads the text of a test file as it stands.
///
/// # Errors
///
/// When the file cannot be read, is not UTF-8, begins with a byte order mark, or holds nothing but
/// white space.
pub(crate) fn read(path: &Path) -> Result<String, EvalError> {
    let bytes =
        fs::read(path).map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let byte_offset = error.utf8_error().valid_up_to();
        let line = line_of(error.as_bytes(), byte_offset);
        EvalError::NotUtf8 { path: path.to_owned(), byte_offset, line }
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        let what = "begins with a byte order mark";
        return Err(EvalError::ForeignBytes { path: path.to_owned(), line: 1, what });
    }
    if text.trim().is_empty() {
        return Err(EvalError::Empty { path: path.to_owned() });
    }
    Ok(text)
}

/// [`read`] where lines must end as in the published file: their ends are tokens like any other.
///
/// # Errors
///
/// As [`read`], and when a line ends in a carriage return and a line feed.
pub(crate) fn read_with_line_feeds(path: &Path) -> Result<String, EvalError> {
    let text = read(path)?;
    match text.find("\r\n") {
        None => Ok(text),
        Some(offset) => Err(EvalError::ForeignBytes {
            path: path.to_owned(),
            line: line_of(text.as_bytes(), offset),
            what: "ends in a carriage return and a line feed",
        }),
    }
}

/// The line in which the byte at `offset` stands, from 1.
fn line_of(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}
