//! Drops short documents: the paper removes those of fewer than 128 tokens (section 4.1).
//!
//! Encoding a whole corpus to find its few short documents would be waste. A word between white
//! space takes at least one token, so a document with 128 such words is long enough without a look
//! at the tokenizer, and the count ends at the 128th. Only what has fewer words is encoded, and of
//! that no more than it takes: the beginning tells of a long text.

use std::num::NonZeroUsize;
use std::sync::Arc;

use corpus::tokenizer::Tokenizer;

use super::{DropReason, Filter, Verdict};

/// Drops a document of fewer than a number of tokens; the token that ends a document does not
/// count.
///
/// Exact for every tokenizer whose tokens do not span white space followed by another word, as
/// those of GPT-2 and BERT.
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
        if text.split_whitespace().nth(min_tokens - 1).is_some() {
            return true;
        }
        let mut tokens = Vec::new();
        self.tokenizer.parts(text).any(|part| {
            self.tokenizer.encode(part, &mut tokens);
            tokens.len() >= min_tokens
        })
    }
}

impl Filter for LengthFilter {
    fn judge(&self, text: &str) -> Verdict {
        if self.has_enough_tokens(text) {
            Verdict::Keep
        } else {
            Verdict::Drop(DropReason::TooShort)
        }
    }
}

#[cfg(test)]
mod tests {
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

        fn encode(&self, text: &str, out: &mut Vec<u32>) {
            assert!(text.split_whitespace().count() < 4, "this text has words enough: {text}");
            out.extend(text.chars().filter(|c| !c.is_whitespace()).map(u32::from));
        }

        fn decode(&self, ids: &[u32]) -> String {
            ids.iter().filter_map(|&id| char::from_u32(id)).collect()
        }
    }

    fn verdict(text: &str) -> Verdict {
        let four = NonZeroUsize::new(4).unwrap();
        LengthFilter::new(four, Arc::new(Characters)).judge(text)
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
