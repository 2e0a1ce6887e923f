//! Passages whose last word is to be guessed, read from JSONL and turned into tokens.
//!
//! A passage gives two questions, which differ in what must be guessed and in how the tokens are
//! made:
//!
//! - *strict*: the last word, white space before it and all its tokens. The context before the word
//!   and the word with a leading space are encoded apart, so the word is what it would be after any
//!   context.
//! - *last token*: the last token of the passage, encoded in one go.
//!
//! Where a space precedes the word both encodings are the same tokens, so one pass answers both;
//! where a line end does, they differ. Contexts that are longer than the model sees lose their
//! beginning.

use std::ops::Range;
use std::path::Path;

use corpus::Document;
use corpus::reader::{Item, OnBadLine, ReadPolicy, Reject, RejectReason, SourceConfig, Sources};
use training::inference::Window;

use crate::error::EvalError;
use crate::model::ModelIdentity;

/// What every line of a cloze test should be; the remedy in the messages about lines that are not.
const FORM: &str =
    "each line must be an object {\"text\": \"...\"} whose text ends in the word to guess";

/// One passage as tokens, for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClozeExample {
    /// The last word after its context.
    pub strict: Question,
    /// The last token after all others; `None` where these are the tokens of `strict`, whose last
    /// label answers it.
    pub last_token: Option<Question>,
}

/// Tokens, of which the last are to be guessed one by one, each with the right ones before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// As much of the context as the model sees, then the labels.
    tokens: Vec<u32>,
    num_labels: usize,
    /// Tokens of the context that the model does not see.
    num_cut: usize,
}

/// Reads the passages of a JSONL file: the text of every line, without white space at its end.
///
/// # Errors
///
/// When the file cannot be read or has no line, or a line is no object with a text of at least two
/// words: the error has the line.
pub fn read(path: &Path) -> Result<Vec<Document>, EvalError> {
    let mut passages = Vec::new();
    let policy = ReadPolicy { on_bad_line: OnBadLine::Skip, ..ReadPolicy::default() };
    for item in Sources::open(&[SourceConfig::jsonl(path)], policy)? {
        match item? {
            Item::Document(document) | Item::Repaired(document, _) => {
                passages.push(checked(document)?);
            }
            Item::NullText(place) => {
                return Err(EvalError::bad_example(&place, format!("the text is null; {FORM}")));
            }
            Item::Rejected(reject) => {
                let problem = format!("{}; {FORM}", problem_of(&reject));
                return Err(EvalError::bad_example(&reject.provenance, problem));
            }
        }
    }
    if passages.is_empty() {
        return Err(EvalError::Empty { path: path.to_owned() });
    }
    Ok(passages)
}

fn problem_of(reject: &Reject) -> String {
    match &reject.reason {
        RejectReason::MissingKey { key, present, .. } => {
            format!("no key \"{key}\" (keys present: {present})")
        }
        reason => reason.to_string(),
    }
}

/// The passage, if it has a last word and something before it.
fn checked(mut passage: Document) -> Result<Document, EvalError> {
    let problem = match passage.text.split_whitespace().take(2).count() {
        0 => "the text is empty",
        1 => "the text is one word, with no context to guess it from",
        _ => {
            passage.text.truncate(passage.text.trim_end().len());
            return Ok(passage);
        }
    };
    Err(EvalError::bad_example(&passage.provenance, format!("{problem}; {FORM}")))
}

/// Cuts a text without white space at its end before its last word: (context, word).
///
/// # Panics
///
/// When the text has no white space.
#[must_use]
pub fn split_last_word(text: &str) -> (&str, &str) {
    let (context, word) = text.rsplit_once(char::is_whitespace).expect("checked: two words");
    (context.trim(), word)
}

impl ClozeExample {
    /// Encodes a passage that [`read`] gave.
    ///
    /// # Errors
    ///
    /// When the word has more tokens than the model sees, or the tokenizer gives a token that the
    /// model does not have.
    pub fn new(passage: &Document, model: &ModelIdentity) -> Result<Self, EvalError> {
        let (context, word) = split_last_word(&passage.text);
        let mut strict = model.encode(context)?;
        let labels = model.encode(&format!(" {word}"))?;
        strict.extend(&labels);
        let whole = model.encode(&passage.text)?;

        let seq_length = model.config.seq_length;
        let question = |tokens, num_labels| {
            Question::new(tokens, num_labels, seq_length).ok_or_else(|| {
                let problem = format!(
                    "the last word has {num_labels} tokens, too many for a model that sees \
                     {seq_length}; leave the line out"
                );
                EvalError::bad_example(&passage.provenance, problem)
            })
        };
        Ok(Self {
            last_token: if whole == strict { None } else { Some(question(whole, 1)?) },
            strict: question(strict, labels.len())?,
        })
    }
}

impl Question {
    /// `tokens` with their last `num_labels` to be guessed, cut at their beginning to what a model
    /// of `seq_length` positions can see; `None` where that leaves no context.
    fn new(mut tokens: Vec<u32>, num_labels: usize, seq_length: usize) -> Option<Self> {
        // The last label is no input, so one token more than positions.
        let num_cut = tokens.len().saturating_sub(seq_length + 1);
        tokens.drain(..num_cut);
        (0 < num_labels && num_labels < tokens.len()).then_some(Self {
            tokens,
            num_labels,
            num_cut,
        })
    }

    /// What the model sees and is asked.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        Window { tokens: &self.tokens, scored: self.scored() }
    }

    /// The part of the context that the model sees.
    #[must_use]
    pub fn context(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - self.num_labels]
    }

    /// The tokens to guess.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.tokens[self.tokens.len() - self.num_labels..]
    }

    /// Tokens of the context that the model does not see.
    #[must_use]
    pub fn num_cut(&self) -> usize {
        self.num_cut
    }

    /// Tokens of context and labels, before anything was cut.
    #[must_use]
    pub fn num_tokens(&self) -> usize {
        self.num_cut + self.tokens.len()
    }

    fn scored(&self) -> Range<usize> {
        let end = self.tokens.len() - 1;
        end - self.num_labels..end
    }
}
