//! The articles of a text in WikiText's form, and which tokens are whose.

use std::ops::Range;

use corpus::test_set;
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

/// Cuts a text into its articles, as [`corpus::test_set`] has them. They lie side by side from the
/// text's start to its end: blank lines before the first heading belong to its article.
#[must_use]
pub fn cut(text: &str) -> Vec<Article> {
    let articles = test_set::articles(text);
    // What is no article stands before all of them.
    let mut end = text.len() - articles.iter().map(|article| article.text.len()).sum::<usize>();
    let side_by_side = |(index, article): (usize, &test_set::Article<'_>)| {
        let start = if index == 0 { 0 } else { end };
        end += article.text.len();
        Article {
            title: article.title.map(str::to_owned),
            line: article.line as usize,
            bytes: start..end,
        }
    };
    articles.iter().enumerate().map(side_by_side).collect()
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
