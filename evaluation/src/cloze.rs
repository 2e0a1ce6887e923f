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
//!
//! lm-evaluation-harness asks one question, in a third way: what stands behind the last *space*,
//! with the tokens that it has when the whole text is encoded in one go
//! ([`ClozeExample::lm_eval`]).

use std::fs;
use std::ops::Range;
use std::path::Path;

use corpus::reader::{Item, OnBadLine, ReadPolicy, Reject, RejectReason, SourceConfig, Sources};
use corpus::{CorpusError, Document};
use training::inference::Window;

use crate::detokenizer::is_space;
use crate::error::EvalError;
use crate::identity::ModelIdentity;

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

/// Reads the passages of a JSONL file: the text of every line.
///
/// # Errors
///
/// When the file cannot be read or has no line, or a line is no object with a text of at least two
/// words: the error has the line.
pub fn read(path: &Path) -> Result<Vec<Document>, EvalError> {
    // Whatever its name: an empty file has no form that could be wrong.
    if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Err(EvalError::Empty { path: path.to_owned() });
    }
    let mut passages = Vec::new();
    let policy = ReadPolicy { on_bad_line: OnBadLine::Skip, ..ReadPolicy::default() };
    for item in Sources::open(&[SourceConfig::jsonl(path)], policy)? {
        // A test set is whole or none: what stands before a break is no smaller one.
        let item = item.map_err(|error| match error {
            CorpusError::BrokenFile(broken) => {
                EvalError::BrokenTestFile { problem: broken.to_string() }
            }
            other => other.into(),
        })?;
        match item {
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
fn checked(passage: Document) -> Result<Document, EvalError> {
    let words = passage.text.split(is_space).filter(|word| !word.is_empty());
    let problem = match words.take(2).count() {
        0 => "the text is empty",
        1 => "the text is one word, with no context to guess it from",
        _ => return Ok(passage),
    };
    Err(EvalError::bad_example(&passage.provenance, format!("{problem}; {FORM}")))
}

/// Cuts a text before its last word: (context, word), without the white space between them and at
/// the text's ends.
///
/// # Panics
///
/// When the text has no white space between two words.
#[must_use]
pub fn split_last_word(text: &str) -> (&str, &str) {
    let (context, word) =
        text.trim_end_matches(is_space).rsplit_once(is_space).expect("checked: two words");
    (context.trim_matches(is_space), word)
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
        let whole = model.encode(passage.text.trim_end_matches(is_space))?;
        Ok(Self {
            last_token: if whole == strict {
                None
            } else {
                Some(Question::of(passage, whole, 1, model)?)
            },
            strict: Question::of(passage, strict, labels.len(), model)?,
        })
    }

    /// Encodes a passage that [`read`] gave as lm-evaluation-harness does: what stands behind the
    /// last space is guessed, as the tokens by which the whole text is longer than its context.
    /// Where no context is left, the token that ends documents is the context.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); also when nothing stands behind the last space, or nothing but white
    /// space before it: no word would be guessed, or one from nothing; or when the tokenizer does
    /// not tell the word from its context.
    pub fn lm_eval(passage: &Document, model: &ModelIdentity) -> Result<Self, EvalError> {
        let (context, word) = passage.text.rsplit_once(' ').unwrap_or(("", &passage.text));
        let (mut tokens, labels) = if context.is_empty() {
            (vec![model.end_of_document()?], model.encode(&format!(" {word}"))?)
        } else {
            // White space at its end belongs to the question.
            let tokens = model.encode(context.trim_end_matches(is_space))?;
            let mut whole = model.encode(&passage.text)?;
            // With a tokenizer that joins words the whole may be the shorter one.
            let labels = whole.split_off(tokens.len().min(whole.len()));
            (tokens, labels)
        };
        if tokens.is_empty() || word.is_empty() {
            let problem = "the lm-eval protocol cuts the text at its last space, which leaves \
                           nothing on one side; remove spaces from the text's ends";
            return Err(EvalError::bad_example(&passage.provenance, problem.to_owned()));
        }
        tokens.extend(&labels);
        Ok(Self { strict: Question::of(passage, tokens, labels.len(), model)?, last_token: None })
    }
}

impl Question {
    /// The question for `model`, or the error of its passage.
    fn of(
        passage: &Document,
        tokens: Vec<u32>,
        num_labels: usize,
        model: &ModelIdentity,
    ) -> Result<Self, EvalError> {
        let (seq_length, num_tokens) = (model.seq_length(), tokens.len());
        Self::new(tokens, num_labels, seq_length).ok_or_else(|| {
            let problem = if num_labels == 0 || num_labels == num_tokens {
                "the tokenizer does not tell the last word from what stands before it; leave the \
                 line out"
                    .to_owned()
            } else {
                format!(
                    "the last word has {num_labels} tokens, too many for a model that sees \
                     {seq_length}; leave the line out"
                )
            };
            EvalError::bad_example(&passage.provenance, problem)
        })
    }

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
