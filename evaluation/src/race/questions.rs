//! The questions of a split as tokens, and how each was answered.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::path::Path;

use corpus::Observer;
use corpus::race::{RaceLevel, RaceRow, RaceSet, RaceSplit};
use training::data::{Batch, QuestionSample, Questions};

use super::{ChoiceLogits, LETTERS, Race, largest, nll, softmax};
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::ChoiceScore;

/// The questions of a split, as many as the plan allows, encoded.
pub(super) struct QuestionSet {
    split: RaceSplit,
    encoded: Questions,
    questions: Vec<Question>,
    /// Questions of middle and of high school in the split, those beyond the limit included.
    in_split: [usize; 2],
}

/// What is known of a question beside its tokens.
struct Question {
    id: String,
    level: RaceLevel,
    /// Place of its article, and the line of that in its file.
    article: usize,
    line: u64,
    /// Which option is right, from 0.
    answer: usize,
    /// Tokens of its longest row.
    longest_row: usize,
    /// Whether a row of it has no room for the end of the article, or of the question.
    is_article_cut: bool,
    is_cut: bool,
}

/// Counts of one level.
#[derive(Debug, Default)]
pub(super) struct LevelCounts {
    pub(super) questions: usize,
    pub(super) articles: usize,
    /// Questions whose article was cut.
    pub(super) questions_article_cut: usize,
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
        let mut set = RaceSet::read(&task.data, task.split, &RaceLevel::ALL, observer)?;
        let in_split = RaceLevel::ALL.map(|level| set.num_questions_of(level));
        limit(&mut set, plan.limit.map_or(usize::MAX, NonZeroUsize::get));
        let (tokenizer, seq_length) = (&*model.tokenizer, model.seq_length());
        let encoded = Questions::encode(&set, tokenizer, seq_length, observer)?;
        let mut questions = Vec::with_capacity(set.num_questions());
        for (place, article) in set.articles.iter().enumerate() {
            for (number, question) in article.questions.iter().enumerate() {
                let rows = encoded.read(questions.len() as u64).rows;
                rows.iter().try_for_each(|row| model.check_tokens(&row.tokens))?;
                let any = |is_cut: fn(&RaceRow) -> bool| rows.iter().any(is_cut);
                questions.push(Question {
                    id: format!("{}/{}/{}", task.split, article.level, article.question_id(number)),
                    level: article.level,
                    article: place,
                    line: article.line,
                    answer: question.answer,
                    longest_row: rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0),
                    is_article_cut: any(|row| row.article_tokens_cut > 0),
                    is_cut: any(|row| row.question_tokens_cut > 0),
                });
            }
        }
        Ok(Self { split: task.split, encoded, questions, in_split })
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
        self.encoded.max_question_tokens()
    }

    /// Tokens of all articles and answered questions, each once.
    pub(super) fn num_tokens(&self) -> usize {
        self.encoded.num_tokens() as usize
    }

    /// What the model reads of the question at `at`.
    pub(super) fn sample(&self, at: usize) -> QuestionSample {
        self.encoded.read(at as u64)
    }

    /// The name of the question at `at`.
    pub(super) fn id(&self, at: usize) -> &str {
        &self.questions[at].id
    }

    /// Tokens of the longest row of the question at `at`.
    pub(super) fn longest_row(&self, at: usize) -> usize {
        self.questions[at].longest_row
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

    /// The rows of the questions at `places` side by side, as long as the longest of them.
    pub(super) fn batch(&self, places: &[usize]) -> Batch {
        let samples: Vec<_> = places.iter().map(|&at| self.sample(at)).collect();
        let longest = places.iter().map(|&at| self.longest_row(at)).max().unwrap_or(0);
        Batch::of_questions(&samples, (longest, self.encoded.pad()), 0, 1)
    }

    /// Counts of a level.
    pub(super) fn of_level(&self, level: RaceLevel) -> LevelCounts {
        let (mut counts, mut last) = (LevelCounts::default(), None);
        for question in self.questions.iter().filter(|question| question.level == level) {
            counts.questions += 1;
            counts.articles +=
                usize::from(last.replace(question.article) != Some(question.article));
            counts.questions_article_cut += usize::from(question.is_article_cut);
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
                nll: nll(logits.0, question.answer),
            }
        };
        self.questions.iter().zip(logits).enumerate().map(item).collect()
    }
}

/// Leaves the first `limit` questions in the set.
fn limit(set: &mut RaceSet, limit: usize) {
    let mut left = limit;
    for article in &mut set.articles {
        article.questions.truncate(left);
        left -= article.questions.len();
    }
    set.articles.retain(|article| !article.questions.is_empty());
}
