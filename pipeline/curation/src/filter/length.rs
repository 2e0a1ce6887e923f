//! Drops short documents: the paper removes those of fewer than 128 tokens (section 4.1).
//!
//! Encoding a whole corpus to find its few short documents would be waste. The tokenizer tells from
//! a count of words that a text surely has 128 tokens, and the count ends at the 128th. Only what
//! has fewer words is encoded; its tokens are handed on, so that nothing is encoded twice.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use corpus::tokenizer::{EncodeScratch, Tokenizer};

use super::{DropReason, Filter, Verdict};

/// Tokens that are handed on at most. A text of few words and more tokens than this is one endless
/// word: the encoder is stopped there, and starts on it again when the shard is written.
const MAX_HANDED_ON: usize = 1 << 16;

/// Drops a document of fewer than a number of tokens; the token that ends a document does not
/// count.
pub struct LengthFilter {
    min_tokens: NonZeroUsize,
    tokenizer: Arc<dyn Tokenizer>,
}

/// What is known of a text's length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Length {
    /// It has fewer tokens than are asked for.
    TooShort,
    /// It has as many, or more.
    Enough {
        /// All of them, where the text had to be encoded.
        tokens: Option<Vec<u32>>,
    },
}

impl LengthFilter {
    /// Drops documents of fewer than `min_tokens` tokens.
    #[must_use]
    pub fn new(min_tokens: NonZeroUsize, tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { min_tokens, tokenizer }
    }

    /// Whether a text is long enough, and its tokens where that took encoding it.
    #[must_use]
    pub fn measure(&self, text: &str) -> Length {
        let min_tokens = self.min_tokens.get();
        if self.tokenizer.surely_has(text, min_tokens) {
            return Length::Enough { tokens: None };
        }
        let mut found = Vec::new();
        let mut is_whole = true;
        let mut take = |tokens: &[u32]| {
            found.extend_from_slice(tokens);
            if found.len() < MAX_HANDED_ON.max(min_tokens) {
                return ControlFlow::Continue(());
            }
            is_whole = false;
            ControlFlow::Break(())
        };
        let encoded = self.tokenizer.encode_to(text, &mut EncodeScratch::default(), &mut take);
        // A text that cannot be encoded stays: the stage that needs its tokens tells of it.
        let Ok(encoded) = encoded else { return Length::Enough { tokens: None } };
        // Where a word was cut, the shard's stage is to meet the cut itself, and count it.
        is_whole &= encoded.cut_words == 0;
        if found.len() < min_tokens {
            Length::TooShort
        } else {
            Length::Enough { tokens: is_whole.then_some(found) }
        }
    }
}

impl Filter for LengthFilter {
    fn judge(&self, text: &str) -> Verdict {
        match self.measure(text) {
            Length::Enough { .. } => Verdict::Keep,
            Length::TooShort => Verdict::Drop(DropReason::TooShort),
        }
    }
}

#[cfg(test)]
mod tests {
    use corpus::CorpusError;
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

        fn encode_to(
            &self,
            text: &str,
            _: &mut EncodeScratch,
            sink: Sink<'_>,
        ) -> Result<Encoded, CorpusError> {
            assert!(text.split_whitespace().count() < 4, "this text has words enough: {text}");
            let tokens: Vec<u32> =
                text.chars().filter(|c| !c.is_whitespace()).map(u32::from).collect();
            let _ = sink(&tokens);
            Ok(Encoded { tokens: tokens.len(), ..Encoded::default() })
        }

        fn surely_has(&self, text: &str, tokens: usize) -> bool {
            text.split_whitespace().count() >= tokens
        }

        fn decode(&self, ids: &[u32]) -> String {
            ids.iter().filter_map(|&id| char::from_u32(id)).collect()
        }
    }

    fn filter() -> LengthFilter {
        LengthFilter::new(NonZeroUsize::new(4).unwrap(), Arc::new(Characters))
    }

    #[test]
    fn the_limit_itself_is_long_enough() {
        let tokens = "abcd".chars().map(u32::from).collect();
        assert_eq!(filter().measure("ab cd"), Length::Enough { tokens: Some(tokens) });
        assert_eq!(filter().measure("ab c"), Length::TooShort);
        assert_eq!(filter().judge(""), Verdict::Drop(DropReason::TooShort));
    }

    #[test]
    fn a_text_with_words_enough_is_not_encoded() {
        assert_eq!(filter().measure("a b c d"), Length::Enough { tokens: None });
        assert_eq!(filter().judge(&"word ".repeat(1000)), Verdict::Keep);
    }

    #[test]
    fn of_an_endless_word_no_tokens_are_handed_on() {
        let word = "x".repeat(MAX_HANDED_ON);
        assert_eq!(filter().measure(&word), Length::Enough { tokens: None });
    }
}
