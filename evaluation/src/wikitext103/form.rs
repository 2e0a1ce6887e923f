//! Whether a text looks like the file that a protocol takes: another form gives plausible numbers
//! that compare with nothing.

use std::path::Path;

use tracing::warn;

/// What WikiText's `tokens` files have in place of a rare word.
const UNKNOWN_WORD: &str = "<unk>";

/// What both forms of WikiText have in place of a hyphen.
const HYPHEN: &str = " @-@ ";

/// Targets per word of WikiText-103's published test split: `wiki.test.tokens` with GPT-2's
/// vocabulary.
const PUBLISHED_TOKEN_RATIO: f64 = 1.100_845;

/// How far from the published ratio a text in the same form may well be.
const USUAL_DIFFERENCE: f64 = 0.15;

/// Marks by which the form of a text is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Words that the text has only as `<unk>`.
    pub unknown_words: usize,
    /// Hyphens that stand as ` @-@ `.
    pub separated_hyphens: usize,
}

impl Form {
    /// The marks in `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self {
            unknown_words: text.matches(UNKNOWN_WORD).count(),
            separated_hyphens: text.matches(HYPHEN).count(),
        }
    }

    /// Warns of a text that does not look like a `tokens` file, given its targets per word.
    pub(super) fn warn_if_not_tokens(self, data: &Path, token_ratio: f64) {
        let form = match self {
            Self { separated_hyphens: 0, .. } => {
                "the text has no \" @-@ \", so it does not seem to be in WikiText's form at all"
            }
            Self { unknown_words: 0, .. } => {
                "the text has no <unk>, so it may be the raw split, which --protocol lm-eval takes"
            }
            _ if (token_ratio - PUBLISHED_TOKEN_RATIO).abs() > USUAL_DIFFERENCE => {
                "the text has other words than WikiText, or its words are not between spaces"
            }
            _ => return,
        };
        warn!(
            data = %data.display(),
            token_ratio,
            published_token_ratio = PUBLISHED_TOKEN_RATIO,
            "{form}; the megatron protocol is for wiki.test.tokens"
        );
    }

    /// Warns of a text that does not look like a `raw` file.
    pub(super) fn warn_if_not_raw(self, data: &Path) {
        let form = match self {
            Self { unknown_words: 1.., .. } => {
                "the text has <unk>, so it may be wiki.test.tokens, which --protocol megatron takes"
            }
            Self { separated_hyphens: 0, .. } => {
                "the text has no \" @-@ \", so it does not seem to be in WikiText's form at all"
            }
            _ => return,
        };
        warn!(
            data = %data.display(),
            unknown_words = self.unknown_words,
            "{form}; the lm-eval protocol is for wiki.test.raw"
        );
    }
}
