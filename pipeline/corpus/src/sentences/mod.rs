//! Text to sentences, for models that are trained on pairs of them.
//!
//! The original implementation asks NLTK's Punkt, whose list of abbreviations was learned from
//! newspapers. Here are rules in its manner, with lists in the source (`abbreviations.rs`): the
//! same text gives the same sentences on any machine, and a wrong cut can be looked up. In this
//! order:
//!
//! 1. A blank line ends a sentence; a single line break is white space like any other, for text may
//!    be wrapped.
//! 2. `。`, `！` and `？` end one wherever they stand.
//! 3. `.`, `!`, `?` and `…`, and a run of them, can end one where white space follows, closing quotes
//!    and brackets in between. `3.14`, `example.com` and `Node.js` are not cut.
//! 4. Before a small letter nothing ends: `"Why?" he asked`, `approx. five`. In a text without any
//!    capital, as corpora that were lower-cased are, small letters say nothing, and this rule rests.
//! 5. `!`, `?` and runs of marks end a sentence then, and a full stop unless the word before it is an
//!    abbreviation that is followed by what it belongs to (`Dr. Smith`, `e.g. Rust`), an initial (`J.
//!    Smith`), one that numbers follow (`No. 7`, `Fig. 2`) before a number, or the number that a
//!    sentence begins with (`1. Introduction`, `2.3. Methods`).
//! 6. After abbreviations that end sentences as well as not (`Inc.`, `etc.`, `U.S.`) one ends where
//!    the next word is one that sentences begin with (`The`, `However`).
//!
//! Limits: the lists are English; a sentence that ends in a single capital ("vitamin C. The ...") is
//! joined with the next; marks without white space behind them ("end.Next") end nothing; lists and
//! tables without punctuation are one sentence up to the next blank line.

mod abbreviations;

use abbreviations::{Abbreviation, begins_sentences};

/// The sentences of `text`, in order, without the white space around them; none is empty, and
/// between two there is nothing but white space.
///
/// ```
/// let sentences: Vec<_> = corpus::sentences("Dr. Wu agreed. \"So soon?\" he asked.").collect();
/// assert_eq!(sentences, ["Dr. Wu agreed.", "\"So soon?\" he asked."]);
/// ```
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let has_capitals = text.chars().any(char::is_uppercase);
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let (sentence, after) = rest.split_at(end_of_first(rest, has_capitals));
        rest = after;
        Some(sentence)
    })
}

/// Where the first sentence of `text` ends, which begins with no white space.
fn end_of_first(text: &str, has_capitals: bool) -> usize {
    let mut from = 0;
    while let Some(found) = text[from..].find(is_interesting) {
        let at = from + found;
        let mark = text[at..].chars().next().expect("a character was found");
        if mark.is_whitespace() {
            let gap = Gap::at(text, at);
            if gap.is_break {
                return at;
            }
            from = gap.end;
            continue;
        }
        let marks_end = at + run(&text[at..], is_mark);
        let end = marks_end + run(&text[marks_end..], is_closing);
        if is_ideographic(mark) {
            return end;
        }
        let gap = Gap::at(text, end);
        if gap.end == end && end < text.len() {
            from = end; // the word goes on
            continue;
        }
        let candidate = Candidate {
            before: &text[..at],
            marks: &text[at..marks_end],
            after: &text[gap.end..],
            has_capitals,
        };
        if gap.is_break || candidate.ends_a_sentence() {
            return end;
        }
        from = gap.end;
    }
    text.trim_end().len()
}

/// White space between two words.
struct Gap {
    end: usize,
    /// Whether it parts paragraphs.
    is_break: bool,
}

impl Gap {
    fn at(text: &str, start: usize) -> Self {
        let length = run(&text[start..], char::is_whitespace);
        let white = &text[start..start + length];
        let end = start + length;
        let is_break = white.matches('\n').count() > 1 || white.contains('\u{2029}');
        Self { end, is_break: is_break || end == text.len() }
    }
}

/// A place at which a sentence may end.
struct Candidate<'t> {
    /// The sentence up to the mark.
    before: &'t str,
    /// The mark, or several.
    marks: &'t str,
    /// The text from the next word on.
    after: &'t str,
    has_capitals: bool,
}

impl Candidate<'_> {
    fn ends_a_sentence(&self) -> bool {
        let next = self.after.trim_start_matches(is_opening);
        let first = next.chars().next();
        if self.has_capitals && first.is_some_and(char::is_lowercase) {
            return false;
        }
        if self.marks != "." {
            return true;
        }
        let start = self
            .before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + self.before[at..].chars().next().map_or(0, char::len_utf8));
        let word = self.before[start..].trim_start_matches(is_opening);
        if start == 0 && !word.is_empty() && word.chars().all(is_of_number) {
            return false;
        }
        match Abbreviation::of(word) {
            None => true,
            Some(Abbreviation::Leading) => false,
            Some(Abbreviation::Numbered) => !first.is_some_and(|first| first.is_ascii_digit()),
            Some(Abbreviation::Closing) => {
                begins_sentences(&next[..run(next, |c: char| c.is_alphabetic())])
            }
        }
    }
}

/// Bytes at the beginning of `text` whose characters are all `kind`.
fn run(text: &str, kind: impl Fn(char) -> bool) -> usize {
    text.find(|c: char| !kind(c)).unwrap_or(text.len())
}

fn is_interesting(c: char) -> bool {
    is_mark(c) || c.is_whitespace()
}

fn is_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…') || is_ideographic(c)
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn is_ideographic(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡')
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）' | '】' | '*' | '_'
    )
}

fn is_opening(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | '('
            | '['
            | '{'
            | '“'
            | '‘'
            | '«'
            | '„'
            | '¿'
            | '¡'
            | '—'
            | '–'
            | '*'
            | '_'
    )
}

#[cfg(test)]
mod tests;
