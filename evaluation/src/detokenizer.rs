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

use std::ops::Range;

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
    detokenize_marked(text, &mut [])
}

/// [`detokenize`], with `marks` moved to where they are in the new text. A mark inside of what a
/// rule replaces comes to stand behind the replacement: the beginning of a line stays one.
///
/// `marks` are byte offsets in ascending order.
#[must_use]
pub fn detokenize_marked(text: &str, marks: &mut [usize]) -> String {
    RULES.iter().fold(text.to_owned(), |text, rule| rewritten(&text, &rule.edits(&text), marks))
}

/// Number of WikiText tokens: pieces between single spaces once the ends are stripped.
///
/// A line end between two spaces is a piece, as the `<eos>` of other counts is. This is the divisor
/// of the word perplexity, so counting runs of white space instead would give another benchmark.
#[must_use]
pub fn count_original_tokens(text: &str) -> usize {
    text.trim_matches(is_space).split(' ').count()
}

/// Bytes of a text that are to become others.
struct Edit {
    range: Range<usize>,
    with: &'static str,
}

impl Rule {
    /// What the rule changes in `text`, from the left and without overlaps.
    fn edits(&self, text: &str) -> Vec<Edit> {
        match *self {
            Replace(from, with) => text
                .match_indices(from)
                .map(|(start, _)| Edit { range: start..start + from.len(), with })
                .collect(),
            TrimInside(open, close) => trims_inside(text, open, close),
            SlashQuoteDigit => slashes_quotes_digits(text),
        }
    }
}

/// `text` after `edits`; `marks` move along.
fn rewritten(text: &str, edits: &[Edit], marks: &mut [usize]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = marks.iter_mut().peekable();
    // Bytes of the old text that are done with.
    let mut done = 0;
    for Edit { range, with } in edits {
        while let Some(mark) = marks.next_if(|mark| **mark <= range.start) {
            *mark = out.len() + *mark - done;
        }
        out.push_str(&text[done..range.start]);
        out.push_str(with);
        while let Some(mark) = marks.next_if(|mark| **mark < range.end) {
            *mark = out.len();
        }
        done = range.end;
    }
    for mark in marks {
        *mark = out.len() + *mark - done;
    }
    out + &text[done..]
}

/// Trims the inside of every `open … close`, looking for the next pair after the one just closed.
fn trims_inside(text: &str, open: char, close: char) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut next = 0;
    while let Some(opened) = text[next..].find(open)
        && let start = next + opened + open.len_utf8()
        && let Some(length) = text[start..].find(close)
    {
        let inside = &text[start..start + length];
        let trimmed = inside.trim_start_matches(is_space);
        let first = start + inside.len() - trimmed.len();
        let end = first + trimmed.trim_end_matches(is_space).len();
        let spaces = [start..first, end..start + length];
        edits.extend(
            spaces
                .into_iter()
                .filter(|range| !range.is_empty())
                .map(|range| Edit { range, with: "" }),
        );
        next = start + length + close.len_utf8();
    }
    edits
}

fn slashes_quotes_digits(text: &str) -> Vec<Edit> {
    const OPENING: &str = "/' ";
    let mut edits: Vec<Edit> = Vec::new();
    for (start, _) in text.match_indices(OPENING) {
        let digit = start + OPENING.len();
        // A match takes the slash at its end, with which the next one cannot begin.
        let is_free = edits.last().is_none_or(|last| last.range.end <= start);
        if is_free && matches!(text.as_bytes()[digit..], [b'0'..=b'9', b'/', ..]) {
            edits.push(Edit { range: start..digit + 2, with: "/'[0-9]/" });
        }
    }
    edits
}

/// What Python's `\s` and `str.strip` take for white space: Unicode's, and the four ASCII
/// separators.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}
