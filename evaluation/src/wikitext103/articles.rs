//! The articles of a text in WikiText's form, and which tokens are whose.
//!
//! An article begins at its level-1 heading, ` = Title = ` between blank lines: an article may hold
//! an equation that its line breaks make look like one (` = 1 rad / s and a nominal impedance = `).

use std::ops::Range;

use corpus::tokenizer::Tokenizer;

use crate::detokenizer::is_space;

/// Tokens that are decoded together at most to find the text they stand for. A character has at
/// most four bytes, so a tokenizer that gives back its text needs no more.
const MAX_TOKENS_OF_A_CHARACTER: usize = 16;

/// Where an article stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Article {
    /// Its heading; `None` for text before the first one.
    pub title: Option<String>,
    /// Line of the heading, from 1.
    pub line: usize,
    /// Its bytes, heading included.
    pub bytes: Range<usize>,
}

/// Cuts a text at its level-1 headings. The articles lie side by side from the text's start to its
/// end: blank lines before the first heading belong to its article.
#[must_use]
pub fn cut(text: &str) -> Vec<Article> {
    let mut starts = vec![(0, 1, None)];
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    let (mut offset, mut follows_blank) = (0, true);
    while let Some((index, line)) = lines.next() {
        let precedes_blank = lines.peek().is_none_or(|(_, next)| next.trim().is_empty());
        if follows_blank
            && precedes_blank
            && let Some(title) = level_1_title(line)
        {
            let is_first = text[..offset].trim().is_empty();
            if is_first {
                starts.clear();
            }
            let start = if is_first { 0 } else { offset };
            starts.push((start, index + 1, Some(title.to_owned())));
        }
        follows_blank = line.trim().is_empty();
        offset += line.len();
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|it| it.0).chain([text.len()]).collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|((start, line, title), end)| Article { title, line, bytes: start..end })
        .collect()
}

/// The title in a line ` = Title = `; deeper headings are written ` = = Title = = `.
fn level_1_title(line: &str) -> Option<&str> {
    let title = line.trim().strip_prefix("= ")?.strip_suffix(" =")?.trim();
    let is_deeper = title.starts_with("= ") || title.ends_with(" =");
    (!title.is_empty() && title != "=" && !is_deeper).then_some(title)
}

/// Original tokens of each article, but for the first of the text, which is predicted from nothing:
/// pieces between single spaces once the text's ends are stripped. A piece belongs to the article in
/// which it begins.
pub(super) fn words(text: &str, articles: &[Article]) -> Vec<usize> {
    let mut words = vec![0; articles.len()];
    let stripped = text.trim_start_matches(is_space);
    let mut start = text.len() - stripped.len();
    let mut article = 0;
    for (index, piece) in stripped.trim_end_matches(is_space).split(' ').enumerate() {
        while articles[article].bytes.end <= start && article + 1 < articles.len() {
            article += 1;
        }
        words[article] += usize::from(index > 0);
        start += piece.len() + 1;
    }
    words
}

/// Index of the first token of each article, which begin at the bytes `starts` of `text`, the text
/// of `tokens`. A token belongs to the article in which its first byte stands.
///
/// `None` where the tokenizer does not give back the text that it has encoded.
pub(super) fn first_tokens(
    text: &str,
    starts: &[usize],
    tokens: &[u32],
    tokenizer: &dyn Tokenizer,
) -> Option<Vec<usize>> {
    let mut firsts = Vec::with_capacity(starts.len());
    // The bytes and the tokens that are done with.
    let (mut bytes, mut done) = (0, 0);
    for end in 1..=tokens.len() {
        let decoded = tokenizer.decode(&tokens[done..end]);
        // What ends so may be a part of a character, and is told by the tokens that follow.
        let is_whole = end == tokens.len() || !decoded.ends_with(char::REPLACEMENT_CHARACTER);
        if is_whole && text[bytes..].starts_with(&decoded) {
            while firsts.len() < starts.len() && starts[firsts.len()] <= bytes {
                firsts.push(done);
            }
            bytes += decoded.len();
            done = end;
        } else if end - done >= MAX_TOKENS_OF_A_CHARACTER {
            return None;
        }
    }
    firsts.resize(starts.len(), tokens.len());
    (bytes == text.len()).then_some(firsts)
}
