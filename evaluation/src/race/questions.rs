//! The questions of a split as tokens, and how each was answered.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::path::Path;

use corpus::race::{
    OPTIONS, RaceArticle, RaceLevel, RaceRow, RaceRows, RaceSet, RaceSplit, clean_text,
};
use corpus::{CorpusError, Observer};

use super::{ChoiceLogits, LETTERS, Race, largest, softmax};
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::ChoiceScore;

/// The questions of a split, as many as the plan allows, encoded.
pub(super) struct QuestionSet {
    split: RaceSplit,
    rows: RaceRows,
    /// Tokens of the articles that the questions are on.
    articles: Vec<Vec<u32>>,
    questions: Vec<Question>,
    /// Questions of each level of the split, those beyond the limit included.
    in_split: [usize; 2],
}

/// A question on an article.
struct Question {
    id: String,
    level: RaceLevel,
    /// Line of its article in the file.
    line: u64,
    /// Place of its article.
    article: usize,
    /// Tokens of the question with each option, as many as a row takes.
    answered: [Vec<u32>; OPTIONS],
    /// Whether one of them was longer.
    is_cut: bool,
    /// Which of them is right, from 0.
    answer: usize,
}

/// Counts of one level.
#[derive(Debug, Default)]
pub(super) struct LevelCounts {
    pub(super) questions: usize,
    pub(super) articles: usize,
    /// Questions whose article was cut.
    pub(super) articles_cut: usize,
    /// Questions that were cut themselves.
    pub(super) questions_cut: usize,
}

impl QuestionSet {
    /// Reads the split of `task`. Each article is encoded once, and each question with each of its
    /// options.
    ///
    /// # Errors
    ///
    /// When the folder cannot be used, the tokenizer does not fit the model or has no special
    /// tokens, or `observer` asks to stop.
    pub(super) fn read(
        task: &Race,
        model: &ModelIdentity,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<Self, EvalError> {
        let vocabulary = model.tokenizer.masked_vocabulary()?;
        let set = RaceSet::read(&task.data, task.split, &RaceLevel::ALL, observer)?;
        let mut read = Self {
            split: task.split,
            rows: RaceRows::new(&vocabulary, model.seq_length()),
            articles: Vec::new(),
            questions: Vec::new(),
            in_split: [RaceLevel::Middle, RaceLevel::High].map(|level| set.num_questions_of(level)),
        };
        let limit = plan.limit.map_or(usize::MAX, NonZeroUsize::get);
        for article in &set.articles {
            if read.questions.len() == limit {
                break;
            }
            if observer.stop_requested() {
                return Err(CorpusError::Stopped.into());
            }
            read.push(article, limit, model)?;
        }
        Ok(read)
    }

    /// Adds an article with its questions, up to `limit` of them in all.
    fn push(
        &mut self,
        article: &RaceArticle,
        limit: usize,
        model: &ModelIdentity,
    ) -> Result<(), EvalError> {
        let most = self.rows.max_question_tokens;
        self.articles.push(model.encode(&clean_text(&article.text))?);
        for (number, question) in article.questions.iter().enumerate() {
            if self.questions.len() == limit {
                break;
            }
            let (mut answered, mut is_cut) = ([const { Vec::new() }; OPTIONS], false);
            for (tokens, text) in answered.iter_mut().zip(question.answered()) {
                *tokens = model.encode(&clean_text(&text))?;
                is_cut |= tokens.len() > most;
                tokens.truncate(most);
            }
            self.questions.push(Question {
                id: format!("{}/{}/{}", self.split, article.level, article.question_id(number)),
                level: article.level,
                line: article.line,
                article: self.articles.len() - 1,
                answered,
                is_cut,
                answer: question.answer,
            });
        }
        Ok(())
    }

    /// Questions that are asked.
    pub(super) fn len(&self) -> usize {
        self.questions.len()
    }

    /// Questions of the split, those beyond the limit included.
    pub(super) fn num_in_split(&self) -> usize {
        self.in_split.iter().sum()
    }

    /// Whether both levels have as many questions as the published split.
    pub(super) fn is_published(&self) -> bool {
        self.in_split
            == match self.split {
                RaceSplit::Train => [25_421, 62_445],
                RaceSplit::Dev => [1_436, 3_451],
                RaceSplit::Test => [1_436, 3_498],
            }
    }

    /// Tokens of a question with an option at most.
    pub(super) fn max_question_tokens(&self) -> usize {
        self.rows.max_question_tokens
    }

    /// Tokens of all rows, without padding.
    pub(super) fn num_tokens(&self) -> usize {
        (0..self.len()).flat_map(|at| self.rows_of(at)).map(|row| row.tokens.len()).sum()
    }

    /// What the model reads of the question at `at`, once for each option.
    pub(super) fn rows_of(&self, at: usize) -> [RaceRow; OPTIONS] {
        let question = &self.questions[at];
        let article = &self.articles[question.article];
        question.answered.each_ref().map(|answered| self.rows.row(answered, article))
    }

    /// Which answer to the question at `at` is right, from 0.
    pub(super) fn answer(&self, at: usize) -> usize {
        self.questions[at].answer
    }

    /// The name of the question at `at`.
    pub(super) fn id(&self, at: usize) -> &str {
        &self.questions[at].id
    }

    /// Tokens of the longest row of the question at `at`.
    pub(super) fn longest_row(&self, at: usize) -> usize {
        let question = &self.questions[at];
        let longest = question.answered.iter().map(Vec::len).max().unwrap_or(0);
        (longest + 3 + self.articles[question.article].len()).min(self.rows.seq_length)
    }

    /// The questions at the places `order` in batches of similar length, longest first: what fills
    /// up shorter rows is computed for nothing.
    pub(super) fn batches(
        &self,
        mut order: Vec<usize>,
        batch_size: NonZeroUsize,
    ) -> Vec<Vec<usize>> {
        order.sort_by_key(|&at| Reverse(self.longest_row(at)));
        order.chunks(batch_size.get()).map(<[usize]>::to_vec).collect()
    }

    /// Counts of a level.
    pub(super) fn of_level(&self, level: RaceLevel) -> LevelCounts {
        let mut counts = LevelCounts::default();
        let mut last = None;
        for (at, question) in self.questions.iter().enumerate() {
            if question.level != level {
                continue;
            }
            counts.questions += 1;
            counts.articles +=
                usize::from(last.replace(question.article) != Some(question.article));
            let is_article_cut = self.rows_of(at).iter().any(|row| row.article_tokens_cut > 0);
            counts.articles_cut += usize::from(is_article_cut);
            counts.questions_cut += usize::from(question.is_cut);
        }
        counts
    }

    /// How every question was answered by the model of `checkpoint`.
    pub(super) fn items(&self, logits: &[ChoiceLogits], checkpoint: &Path) -> Vec<ChoiceScore> {
        let item = |(index, (question, logits)): (usize, (&Question, &ChoiceLogits))| {
            let probabilities = softmax(logits.0);
            let predicted = largest(&probabilities);
            ChoiceScore {
                index,
                id: question.id.clone(),
                level: question.level,
                line: Some(question.line),
                model: checkpoint.display().to_string(),
                logits: Some(logits.0.map(f64::from)),
                probabilities,
                predicted: LETTERS[predicted],
                answer: LETTERS[question.answer],
                correct: predicted == question.answer,
                nll: -probabilities[question.answer].ln(),
            }
        };
        self.questions.iter().zip(logits).enumerate().map(item).collect()
    }
}
