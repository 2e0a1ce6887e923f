//! One question, and several side by side.

use corpus::race::{OPTIONS, RaceRow};

use crate::data::batch::Batch;
use crate::data::segments::Segments;

/// A question as a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionSample {
    /// Its row with each option, without padding.
    pub rows: [RaceRow; OPTIONS],
    /// The option that is right, from 0.
    pub answer: u32,
}

impl Batch {
    /// A batch of questions, of a global batch of `num_questions`: the rows of a question one behind
    /// the other, each filled up with `pad` to `seq_length` tokens, and one label for each question.
    /// `first_question` is the place of the first in the global batch. No token is to be predicted.
    ///
    /// # Panics
    ///
    /// When a row is longer than `seq_length`.
    #[must_use]
    pub fn of_questions(
        questions: &[QuestionSample],
        (seq_length, pad): (usize, u32),
        first_question: usize,
        num_questions: u64,
    ) -> Self {
        let num_samples = questions.len() * OPTIONS;
        let elements = num_samples * seq_length;
        let mut tokens = vec![pad; elements];
        let mut token_types = vec![0; elements];
        let rows = || questions.iter().flat_map(|question| &question.rows);
        for (index, row) in rows().enumerate() {
            let (begin, length) = (index * seq_length, row.tokens.len());
            assert!(length <= seq_length, "a row of {length} tokens in {seq_length}");
            tokens[begin..begin + length].copy_from_slice(&row.tokens);
            token_types[begin + row.first_segment..begin + length].fill(1);
        }
        let segments = Segments {
            token_types,
            lengths: rows().map(|row| row.tokens.len()).collect(),
            labels: questions.iter().map(|question| question.answer).collect(),
            label_weights: vec![(1.0 / num_questions as f64) as f32; questions.len()],
        };
        Self {
            targets: tokens.clone(),
            loss_weights: vec![0.0; elements],
            tokens,
            num_samples,
            seq_length,
            first_sample: first_question * OPTIONS,
            segments: Some(segments),
        }
    }
}
