//! Samples that are questions: of RACE, four rows each, one for each answer that may be given.
//!
//! Articles and answered questions are encoded once, when the run begins, and the rows are made of
//! them as they are asked for. Of the real RACE, with 87,866 questions on 25,137 articles of some 320
//! words, that is about 70 MB, where the tokens of all rows would take 720.

mod input;
mod sample;

use std::sync::Arc;

use corpus::race::{OPTIONS, RaceArticle, RaceRows, RaceSet, clean_text};
use corpus::tokenizer::Tokenizer;
use corpus::{Observer, Unit};
pub(crate) use input::RaceInput;
use rayon::prelude::*;
pub use sample::QuestionSample;
use tracing::info;

use crate::TrainError;

/// Articles that are encoded between two looks at an observer.
const BLOCK: usize = 256;

/// The questions of one split, in the order of its articles.
#[derive(Debug, Clone)]
pub struct Questions {
    encoded: Arc<Encoded>,
    rows: RaceRows,
    /// Fills rows up.
    pad: u32,
}

/// All texts of a split as tokens, one behind the other.
#[derive(Debug, Default)]
struct Encoded {
    tokens: Vec<u32>,
    questions: Vec<Question>,
}

/// Places of a question's texts among the tokens, each from its first to behind its last.
#[derive(Debug)]
struct Question {
    article: [usize; 2],
    /// Where each answered question ends; the first begins at `begin`, each other where the one
    /// before it ends.
    answered_ends: [usize; OPTIONS],
    begin: usize,
    /// The option that is right, from 0.
    answer: u32,
}

/// The texts of an article as tokens.
struct EncodedArticle {
    article: Vec<u32>,
    /// The question as each option answers it, and the option that is right.
    questions: Vec<([Vec<u32>; OPTIONS], usize)>,
}

impl Questions {
    /// The questions of `set` in tokens of `tokenizer`, each row of at most `seq_length`.
    ///
    /// # Errors
    ///
    /// When the vocabulary is not a masked language model's, or a text has no tokens in it;
    /// [`TrainError::Stopped`] when the observer asks to stop.
    pub fn encode(
        set: &RaceSet,
        tokenizer: &dyn Tokenizer,
        seq_length: usize,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let vocabulary = tokenizer.masked_vocabulary()?;
        let rows = RaceRows::new(&vocabulary, seq_length);
        let articles = set.articles.len() as u64;
        observer.begin(&format!("encode RACE {}", set.split), Some(articles), Unit::Documents);
        let mut encoded = Encoded::default();
        for block in set.articles.chunks(BLOCK) {
            if observer.stop_requested() {
                return Err(TrainError::Stopped);
            }
            let articles = block.par_iter().map(|article| EncodedArticle::of(article, tokenizer));
            for article in articles.collect::<Result<Vec<_>, TrainError>>()? {
                encoded.push(article);
            }
            observer.advance(block.len() as u64);
        }
        observer.finish();
        encoded.tokens.shrink_to_fit();
        let questions = Self { encoded: Arc::new(encoded), rows, pad: vocabulary.pad };
        questions.tell_of_cut_articles(set);
        Ok(questions)
    }

    /// Says how many articles do not fit into a row.
    fn tell_of_cut_articles(&self, set: &RaceSet) {
        let is_cut = |&question: &u64| {
            let QuestionSample { rows, .. } = self.read(question);
            rows.iter().any(|row| row.article_tokens_cut > 0)
        };
        let cut = (0..self.len()).into_par_iter().filter(is_cut).count();
        if cut > 0 {
            info!(
                "RACE {}: of {cut} of the {} questions the end of the article finds no room in {} \
                 tokens",
                set.split,
                self.len(),
                self.seq_length()
            );
        }
    }

    /// How many questions.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.encoded.questions.len() as u64
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of a row, padding among them.
    #[must_use]
    pub fn seq_length(&self) -> usize {
        self.rows.seq_length
    }

    /// Tokens of all articles and answered questions, each counted once.
    #[must_use]
    pub fn num_tokens(&self) -> u64 {
        self.encoded.tokens.len() as u64
    }

    /// Tokens of a question with an option that are read at most.
    #[must_use]
    pub fn max_question_tokens(&self) -> usize {
        self.rows.max_question_tokens
    }

    /// The token that fills rows up.
    #[must_use]
    pub fn pad(&self) -> u32 {
        self.pad
    }

    /// Question number `question`, from 0.
    ///
    /// # Panics
    ///
    /// When there is no such question.
    #[must_use]
    pub fn read(&self, question: u64) -> QuestionSample {
        let Encoded { tokens, questions } = &*self.encoded;
        let question = &questions[question as usize];
        let article = &tokens[question.article[0]..question.article[1]];
        let rows = std::array::from_fn(|option| {
            let begin = match option {
                0 => question.begin,
                option => question.answered_ends[option - 1],
            };
            self.rows.row(&tokens[begin..question.answered_ends[option]], article)
        });
        QuestionSample { rows, answer: question.answer }
    }
}

impl Encoded {
    fn push(&mut self, EncodedArticle { article, questions }: EncodedArticle) {
        let begin = self.tokens.len();
        self.tokens.extend(article);
        let article = [begin, self.tokens.len()];
        for (answered, answer) in questions {
            let begin = self.tokens.len();
            let answered_ends = answered.map(|text| {
                self.tokens.extend(text);
                self.tokens.len()
            });
            let answer = answer as u32;
            self.questions.push(Question { article, answered_ends, begin, answer });
        }
    }
}

impl EncodedArticle {
    fn of(article: &RaceArticle, tokenizer: &dyn Tokenizer) -> Result<Self, TrainError> {
        let encode = |text: &str| {
            let mut tokens = Vec::new();
            tokenizer.encode(&clean_text(text), &mut tokens)?;
            Ok::<_, TrainError>(tokens)
        };
        let questions = article.questions.iter().map(|question| {
            let mut answered: [Vec<u32>; OPTIONS] = Default::default();
            for (tokens, text) in answered.iter_mut().zip(question.answered()) {
                *tokens = encode(&text)?;
            }
            Ok::<_, TrainError>((answered, question.answer))
        });
        let questions = questions.collect::<Result<_, _>>()?;
        Ok(Self { article: encode(&article.text)?, questions })
    }
}
