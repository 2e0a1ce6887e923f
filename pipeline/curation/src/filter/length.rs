//! Drops short documents: the paper removes those of fewer than 128 tokens (section 4.1).
//!
//! Encoding a whole corpus to find its few short documents would be waste. The tokenizer tells from
//! a count of words that a text surely has 128 tokens, and the count ends at the 128th. Only what
//! has fewer words is encoded, and of that no more than it takes: the beginning tells of a long
//! text.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use corpus::Document;
use corpus::tokenizer::{EncodeScratch, Tokenizer};

use super::{DropReason, Filter, Verdict};

/// Drops a document of fewer than a number of tokens; the token that ends a document does not
/// count.
pub struct LengthFilter {
    min_tokens: NonZeroUsize,
    tokenizer: Arc<dyn Tokenizer>,
}

impl LengthFilter {
    /// Drops documents of fewer than `min_tokens` tokens.
    #[must_use]
    pub fn new(min_tokens: NonZeroUsize, tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { min_tokens, tokenizer }
    }

    fn has_enough_tokens(&self, text: &str) -> bool {
        let min_tokens = self.min_tokens.get();
        if self.tokenizer.surely_has(text, min_tokens) {
            return true;
        }
        let mut found = 0;
        self.tokenizer.encode_to(text, &mut EncodeScratch::default(), &mut |tokens| {
            found += tokens.len();
            if found < min_tokens { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found >= min_tokens
    }
}

impl Filter for LengthFilter {
    fn judge(&self, document: &Document) -> Verdict {
        if self.has_enough_tokens(&document.text) {
            Verdict::Keep
        } else {
            Verdict::Drop(DropReason::TooShort)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use corpus::Provenance;
    use corpus::tokenizer::{Encoded, Sink};

    use super::*;

    /// Every character that is no white space is a token.
    struct Characters;

    impl Tokenizer for Characters {
        fn name(&self) -> &str {
            "characters"
        }

        fn vocab_size(&self) -> usize {
            0x11_0000
        }

        fn eod(&self) -> u32 {
            0
        }

        fn fingerprint(&self) -> String {
            String::new()
        }

        fn encode_to(&self, text: &str, _: &mut EncodeScratch, sink: Sink<'_>) -> Encoded {
            assert!(text.split_whitespace().count() < 4, "this text has words enough: {text}");
            let tokens: Vec<u32> =
                text.chars().filter(|c| !c.is_whitespace()).map(u32::from).collect();
            let _ = sink(&tokens);
            Encoded { tokens: tokens.len(), ..Encoded::default() }
        }

        fn surely_has(&self, text: &str, tokens: usize) -> bool {
            text.split_whitespace().count() >= tokens
        }

        fn decode(&self, ids: &[u32]) -> String {
            ids.iter().filter_map(|&id| char::from_u32(id)).collect()
        }
    }

    fn verdict(text: &str) -> Verdict {
        let four = NonZeroUsize::new(4).unwrap();
        let provenance =
            Provenance { source: "s".into(), file: Path::new("f").into(), line: None, id: None };
        LengthFilter::new(four, Arc::new(Characters)).judge(&Document {
            provenance,
            title: None,
            text: text.to_owned(),
        })
    }

    #[test]
    fn the_limit_itself_is_long_enough() {
        assert_eq!(verdict("ab cd"), Verdict::Keep);
        assert_eq!(verdict("ab c"), Verdict::Drop(DropReason::TooShort));
        assert_eq!(verdict(""), Verdict::Drop(DropReason::TooShort));
    }

    #[test]
    fn a_text_with_words_enough_is_not_encoded() {
        assert_eq!(verdict("a b c d"), Verdict::Keep);
        assert_eq!(verdict(&"word ".repeat(1000)), Verdict::Keep);
    }
}
