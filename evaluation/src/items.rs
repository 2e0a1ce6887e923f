//! What a task found of each of its items: articles, pages, passages or questions, one by one.
//!
//! A report holds sums; these are their parts, for a look at where a model fails and for scores of a
//! subset. Written out they are JSONL, an item a line.

use std::io::{self, Write};
use std::ops::Range;

use corpus::race::{OPTIONS, RaceLevel};
use serde::{Serialize, Serializer};

/// The items of a task that were scored, in the order of the test set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Items {
    /// Articles of a text in WikiText's form, as one stream.
    Articles(Vec<ArticleScore>),
    /// Pages of a text in WikiText's form, each on its own.
    Pages(Vec<PageScore>),
    /// Passages whose last word was guessed.
    Examples(Vec<ExampleScore>),
    /// Questions with several answers.
    Choices(Vec<ChoiceScore>),
}

/// Part of the score of a stream of articles.
///
/// `exp(sum of nll / sum of words)` over some articles is their word perplexity, and over all of
/// them the text's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArticleScore {
    /// Which article, from 0.
    pub index: usize,
    /// Its heading; `None` for text before the first heading.
    pub title: Option<String>,
    /// Line of the heading, from 1.
    pub line: usize,
    /// Where it stands in the test file: the articles lie side by side from its start to its end.
    pub bytes: Range<usize>,
    /// Original tokens, but for the first of the file: they add up to the divisor of the word
    /// perplexity.
    pub words: usize,
    /// Tokens whose first byte stands in the article, but for the first of the file.
    pub targets: usize,
    /// How many of these were scored: all of them, unless a limit ended the scoring within the
    /// article.
    pub scored: usize,
    /// Sum over the scored targets of the negative natural logarithm of their probability.
    pub nll: f64,
    /// `exp(nll / words)`, words counting in proportion to the scored targets; `None` without any.
    pub word_perplexity: Option<f64>,
}

/// The score of a page by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageScore {
    /// Which page, from 0.
    pub index: usize,
    /// Its first line that is not blank.
    pub title: String,
    /// Line of the file in which it begins, from 1.
    pub line: usize,
    /// Its pieces between runs of white space, the empty ones at its ends included.
    pub words: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Its tokens after detokenizing: all of them are targets.
    pub targets: usize,
    /// Sum over the targets of the negative natural logarithm of their probability.
    pub nll: f64,
    /// `exp(nll / words)`.
    pub word_perplexity: f64,
}

/// How one passage went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExampleScore {
    /// Which passage of the file, from 0.
    pub index: usize,
    /// Its line, from 1.
    pub line: u64,
    /// The end of what the model sees before the word.
    pub context_tail: String,
    /// The word to guess, as its tokens spell it.
    pub target: String,
    /// Its tokens.
    pub target_tokens: Vec<u32>,
    /// The text of the predicted tokens.
    pub predicted: String,
    /// The most probable token at the place of each target token, after the right ones.
    pub predicted_tokens: Vec<u32>,
    /// Whether all of them are right.
    pub strict: bool,
    /// Whether the last token of the passage is right; where the passage has other tokens when it
    /// is encoded in one go, this is no token of `predicted_tokens`.
    pub last_token: bool,
    /// Sum over the target tokens of the negative natural logarithm of their probability.
    pub nll: f64,
}

/// How one question was answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoiceScore {
    /// Which question of the split, from 0.
    pub index: usize,
    /// Its name, which no other question has: `SPLIT/LEVEL/ARTICLE#QUESTION`.
    pub id: String,
    /// The examinations it is from.
    #[serde(serialize_with = "name_of_level")]
    pub level: RaceLevel,
    /// Line of its article in the file, from 1; `None` of a vote.
    pub line: Option<u64>,
    /// Which model: its checkpoint, or `ensemble`.
    pub model: String,
    /// How well each option answers it; `None` of a vote.
    pub logits: Option<[f64; OPTIONS]>,
    /// Their softmax, or of a vote the mean of the models'.
    pub probabilities: [f64; OPTIONS],
    /// The letter of the most probable option.
    pub predicted: char,
    /// The letter of the right one.
    pub answer: char,
    /// Whether the two are one.
    pub correct: bool,
    /// The negative natural logarithm of the right option's probability.
    pub nll: f64,
}

fn name_of_level<S: Serializer>(level: &RaceLevel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.name())
}

impl Items {
    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Articles(items) => items.len(),
            Self::Pages(items) => items.len(),
            Self::Examples(items) => items.len(),
            Self::Choices(items) => items.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the items as JSONL.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_jsonl(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Articles(items) => write_lines(items, out),
            Self::Pages(items) => write_lines(items, out),
            Self::Examples(items) => write_lines(items, out),
            Self::Choices(items) => write_lines(items, out),
        }
    }
}

fn write_lines(items: &[impl Serialize], out: &mut dyn Write) -> io::Result<()> {
    for item in items {
        serde_json::to_writer(&mut *out, item)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
