//! Drops documents without text, whatever else is configured: a shard holds no document of zero
//! tokens.

use super::{DropReason, Filter, Verdict};

/// Drops a text that is empty or white space only, by Unicode's definition of white space.
#[derive(Debug, Clone, Copy)]
pub struct EmptyFilter;

impl Filter for EmptyFilter {
    fn judge(&self, text: &str) -> Verdict {
        if text.trim().is_empty() { Verdict::Drop(DropReason::Empty) } else { Verdict::Keep }
    }
}
