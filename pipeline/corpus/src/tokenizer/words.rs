//! How many pre-tokens a text has at least, without encoding it.
//!
//! GPT-2's pattern cuts a text into words, numbers, punctuation and white space, and each piece has
//! one token or more. Counting where the kind of character changes is therefore enough to show that
//! a text is long, in some nanoseconds a token.

/// What the pattern takes an ASCII byte for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Punctuation,
    WhiteSpace,
    /// A character outside ASCII that is no white space.
    Other,
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            _ if character.is_whitespace() => Self::WhiteSpace,
            _ if character.is_ascii() => Self::Punctuation,
            _ => Self::Other,
        }
    }
}

/// Whether a count of those pre-tokens of GPT-2 that are told by ASCII alone comes to `number`.
///
/// Counted is every beginning of a word, a number or punctuation: after white space, and where one
/// of the three follows another. Not counted is what follows an apostrophe, for `'s` and its like
/// are one pre-token, what meets a character outside ASCII, whose kind is not looked up, and white
/// space itself, which mostly goes with the word after it.
pub(super) fn has_pre_tokens(text: &str, number: usize) -> bool {
    let mut found = 0;
    let (mut last, mut last_kind) = (' ', Kind::WhiteSpace);
    for next in text.chars() {
        if found >= number {
            break;
        }
        let kind = Kind::of(next);
        let begins = match (last_kind, kind) {
            (_, Kind::WhiteSpace) => false,
            (Kind::WhiteSpace, _) => true,
            (Kind::Other, _) | (_, Kind::Other) => false,
            _ => last_kind != kind && last != '\'',
        };
        found += usize::from(begins);
        (last, last_kind) = (next, kind);
    }
    found >= number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_words_numbers_and_punctuation_count() {
        for (text, number) in [
            ("", 0),
            ("  \n ", 0),
            ("word", 1),
            (" two words", 2),
            ("a1,b", 4),
            ("it's", 2),
            ("año nuevo", 2),
            ("a\u{3000}b", 2),
        ] {
            assert!(has_pre_tokens(text, number), "{text:?}");
            assert!(!has_pre_tokens(text, number + 1), "{text:?}");
        }
    }
}
