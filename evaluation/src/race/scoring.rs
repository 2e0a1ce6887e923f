//! Questions as samples of a model that chooses.

use std::num::NonZeroUsize;

use corpus::race::OPTIONS;
use xxhash_rust::xxh3::Xxh3;

use super::LETTERS;
use super::questions::QuestionSet;
use crate::error::EvalError;
use crate::kept::{Kept, Record};
use crate::samples::{Samples, hash_tokens};
use crate::scorer::ModelScorer;

/// How well each option answers a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChoiceLogits(pub(crate) [f32; OPTIONS]);

/// The questions of a set.
pub(super) struct Questions<'a> {
    pub(super) stage: &'a str,
    pub(super) set: &'a QuestionSet,
}

impl Kept for ChoiceLogits {
    fn record(&self) -> Record {
        Record::Choice { logits: self.0.map(f64::from).to_vec() }
    }

    fn read(record: Record, scored: usize) -> Option<Self> {
        let Record::Choice { logits } = record else { return None };
        let logits: [f64; OPTIONS] = logits.try_into().ok()?;
        (scored == OPTIONS).then(|| Self(logits.map(|logit| logit as f32)))
    }
}

impl Questions<'_> {
    /// The logits of the question at `at`, if they are numbers.
    fn checked(&self, at: usize, logits: &[f32]) -> Result<ChoiceLogits, EvalError> {
        let logits: [f32; OPTIONS] = logits.try_into().expect("a logit for each option");
        match logits.iter().position(|logit| !logit.is_finite()) {
            None => Ok(ChoiceLogits(logits)),
            Some(option) => Err(EvalError::NonFiniteSample {
                value: f64::from(logits[option]),
                what: format!("option {}", LETTERS[option]),
                sample: format!("question {}", self.set.id(at)),
                stage: self.stage.to_owned(),
            }),
        }
    }
}

impl Samples for Questions<'_> {
    type Score = ChoiceLogits;

    fn len(&self) -> usize {
        self.set.len()
    }

    fn hash(&self, at: usize) -> String {
        let mut hash = Xxh3::new();
        for row in self.set.sample(at).rows {
            hash_tokens(&mut hash, &row.tokens);
            hash.update(&(row.first_segment as u64).to_le_bytes());
        }
        format!("{:016x}", hash.digest())
    }

    fn scored(&self, _at: usize) -> usize {
        OPTIONS
    }

    fn batches(&self, missing: Vec<usize>, batch_size: NonZeroUsize) -> Vec<Vec<usize>> {
        self.set.batches(missing, batch_size)
    }

    fn score(
        &self,
        scorer: &mut ModelScorer,
        batches: &[Vec<usize>],
    ) -> Result<Vec<Vec<ChoiceLogits>>, EvalError> {
        let asked = batches.iter().map(|places| self.set.batch(places)).collect();
        let logits = scorer.bert_choice().logits_side_by_side(asked)?;
        let of_batch = |(places, logits): (&Vec<usize>, Vec<Vec<f32>>)| {
            places.iter().zip(logits).map(|(&at, logits)| self.checked(at, &logits)).collect()
        };
        batches.iter().zip(logits).map(of_batch).collect()
    }
}
