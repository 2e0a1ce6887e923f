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
