//! Numbers on the command line, refused in plain words.

use std::num::NonZeroUsize;

/// A whole number of at least 1.
pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a whole number of at least 1 is needed".to_owned())
}

/// A number above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a number above 0 is needed".to_owned()),
    }
}

/// A number of at least 0.
pub(crate) fn at_least_0(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("a number of at least 0 is needed".to_owned()),
    }
}

/// A share of something: above 0, and 1 for all of it.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1.0 => Ok(number),
        _ => Err("a number above 0 and of at most 1 is needed".to_owned()),
    }
}

/// An amount of memory of at least [`LEAST_MEMORY`](curation::LEAST_MEMORY): bytes, or with `K`,
/// `M`, `G` or `T` behind the number so many times 1024 of them.
pub(crate) fn memory_limit(text: &str) -> Result<u64, String> {
    let least = curation::LEAST_MEMORY;
    let (digits, shift) = match text.as_bytes() {
        [.., b'K' | b'k'] => (&text[..text.len() - 1], 10),
        [.., b'M' | b'm'] => (&text[..text.len() - 1], 20),
        [.., b'G' | b'g'] => (&text[..text.len() - 1], 30),
        [.., b'T' | b't'] => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= least => Ok(bytes),
        Some(_) => Err(format!("at least {}M are needed", least >> 20)),
        None => Err("a number of bytes is needed, such as 512M or 8G".to_owned()),
    }
}
