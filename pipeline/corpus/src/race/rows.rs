//! What a model reads of a question: `[CLS] question and option [SEP] article [SEP]`, once for each
//! option.

use crate::tokenizer::MaskedVocabulary;

/// Tokens of question and option that are read at most.
const MOST_QUESTION_TOKENS: usize = 128;

/// How rows are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaceRows {
    /// Begins a row.
    pub cls: u32,
    /// Ends each of its two segments.
    pub sep: u32,
    /// Tokens of a row at most; the paper's rows have 512.
    pub seq_length: usize,
    /// Tokens of question and option at most.
    pub max_question_tokens: usize,
}

/// A row, without the padding that fills it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceRow {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the first segment, `[CLS]` and `[SEP]` among them; the others are of the second.
    pub first_segment: usize,
    /// Tokens of question and option beyond those that are read: their end.
    pub question_tokens_cut: usize,
    /// Tokens of the article that found no room: its end.
    pub article_tokens_cut: usize,
}

impl RaceRows {
    /// Rows of at most `seq_length` tokens of `vocabulary`.
    ///
    /// A window that is too short for both keeps the question: of `seq_length` tokens all but the
    /// three special ones and one of the article may be the question's.
    #[must_use]
    pub fn new(vocabulary: &MaskedVocabulary, seq_length: usize) -> Self {
        let (cls, sep) = (vocabulary.cls, vocabulary.sep);
        let max_question_tokens = MOST_QUESTION_TOKENS.min(seq_length.saturating_sub(4));
        Self { cls, sep, seq_length, max_question_tokens }
    }

    /// The row of a question with one of its options, and of the article.
    ///
    /// The question is cut at [`max_question_tokens`](Self::max_question_tokens), then the row at
    /// one token less than [`seq_length`](Self::seq_length), for the last `[SEP]`: it is the end of
    /// the article that is lost.
    #[must_use]
    pub fn row(&self, question: &[u32], article: &[u32]) -> RaceRow {
        let question_tokens_cut = question.len().saturating_sub(self.max_question_tokens);
        let question = &question[..question.len() - question_tokens_cut];
        let first_segment = question.len() + 2;
        let room = self.seq_length.saturating_sub(first_segment + 1);
        let kept = &article[..article.len().min(room)];
        let mut tokens = Vec::with_capacity(first_segment + kept.len() + 1);
        tokens.push(self.cls);
        tokens.extend_from_slice(question);
        tokens.push(self.sep);
        tokens.extend_from_slice(kept);
        tokens.push(self.sep);
        let article_tokens_cut = article.len() - kept.len();
        RaceRow { tokens, first_segment, question_tokens_cut, article_tokens_cut }
    }
}

/// `text` as the original cleans it before it is encoded: every run of white space becomes one
/// space, and then ` . ` becomes `. `, three times over.
#[must_use]
pub fn clean_text(text: &str) -> String {
    // What Python's `\s` matches: Rust's white space, and four separators of ASCII.
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match is_space(c) {
            false => cleaned.push(c),
            true if cleaned.ends_with(' ') => {}
            true => cleaned.push(' '),
        }
    }
    for _ in 0..3 {
        cleaned = cleaned.replace(" . ", ". ");
    }
    cleaned
}
