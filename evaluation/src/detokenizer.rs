//! Undoes WikiText's tokenization, so that a model sees English as it was trained on.
//!
//! WikiText separates every token by spaces and writes `5 @-@ 6` for `5-6`. Scores are only
//! comparable between programs that undo this in the same way, so the rules are those of the
//! original implementation, in its order and with its flaws: each rule runs over the whole text,
//! from the left and without overlaps, before the next one starts. `<unk>` stays as it is.
//!
//! The original uses regular expressions for brackets and quotes. Every one of them ends at the
//! first closing mark, so a scan from mark to mark does the same in linear time.
//!
//! # Source
//!
//! `wikitext_detokenizer` of Megatron-LM v1.0 (`tasks/zeroshot_gpt2/detokenizer.py`).

use Rule::{Replace, SlashQuoteDigit, TrimInside};

/// Name under which reports list these rules.
pub const NAME: &str = "megatron-wikitext";

/// One rewriting of the whole text.
enum Rule {
    /// Every occurrence of the first string becomes the second.
    Replace(&'static str, &'static str),
    /// White space right inside a pair of marks goes; the pair closes at the first closing mark.
    TrimInside(char, char),
    /// `/' 5/` becomes `/'[0-9]/`. The original means to join `' 5`, but writes the slashes of
    /// another language's regular expressions into the pattern and the replacement: no text of the
    /// benchmark has them.
    SlashQuoteDigit,
}

/// The rules, in order.
const RULES: [Rule; 24] = [
    // Contractions.
    Replace("s '", "s'"),
    SlashQuoteDigit,
    // Number separators.
    Replace(" @-@ ", "-"),
    Replace(" @,@ ", ","),
    Replace(" @.@ ", "."),
    // Punctuation.
    Replace(" : ", ": "),
    Replace(" ; ", "; "),
    Replace(" . ", ". "),
    Replace(" ! ", "! "),
    Replace(" ? ", "? "),
    Replace(" , ", ", "),
    // Brackets and quotes; `\s` includes line ends, so a pair may span lines.
    TrimInside('(', ')'),
    TrimInside('[', ']'),
    TrimInside('{', '}'),
    TrimInside('"', '"'),
    TrimInside('\'', '\''),
    // Headings, from the longest mark to the shortest; a level-1 heading keeps its single marks.
    Replace("= = = =", "===="),
    Replace("= = =", "==="),
    Replace("= =", "=="),
    // The rest.
    Replace(" \u{b0} ", "\u{b0}"),
    Replace(" \n", "\n"),
    Replace("\n ", "\n"),
    Replace(" N ", " 1 "),
    Replace(" 's", "'s"),
];

/// The text with WikiText's tokenization undone.
#[must_use]
pub fn detokenize(text: &str) -> String {
    RULES.iter().fold(text.to_owned(), |text, rule| rule.apply(&text))
}

/// Number of WikiText tokens: pieces between single spaces once the ends are stripped.
///
/// A line end between two spaces is a piece, as the `<eos>` of other counts is. This is the divisor
/// of the word perplexity, so counting runs of white space instead would give another benchmark.
#[must_use]
pub fn count_original_tokens(text: &str) -> usize {
    text.trim_matches(is_space).split(' ').count()
}

impl Rule {
    fn apply(&self, text: &str) -> String {
        match *self {
            Replace(from, to) => text.replace(from, to),
            TrimInside(open, close) => trim_inside(text, open, close),
            SlashQuoteDigit => replace_slash_quote_digit(text),
        }
    }
}

/// Trims the inside of every `open … close`, looking for the next pair after the one just closed.
fn trim_inside(text: &str, open: char, close: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after_open)) = rest.split_once(open)
        && let Some((inside, after_close)) = after_open.split_once(close)
    {
        out.push_str(before);
        out.push(open);
        out.push_str(inside.trim_matches(is_space));
        out.push(close);
        rest = after_close;
    }
    out + rest
}

fn replace_slash_quote_digit(text: &str) -> String {
    const START: &str = "/' ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        out.push_str(before);
        match after.as_bytes() {
            [b'0'..=b'9', b'/', ..] => {
                out.push_str("/'[0-9]/");
                rest = &after[2..];
            }
            _ => {
                // No match starts inside `START` after its first byte, so the search goes on behind
                // it.
                out.push_str(START);
                rest = after;
            }
        }
    }
    out + rest
}

/// What Python's `\s` and `str.strip` take for white space: Unicode's, and the four ASCII
/// separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}
