//! Samples side by side: what one forward pass sees.

use std::ops::Range;

use super::questions::QuestionSample;
use super::sampler::OrderedSamples;
use super::samples::SourceSamples;
use super::segments::Segments;
use super::sentence_pairs::PairSample;
use crate::TrainError;

/// The samples of one micro-batch, on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Inputs, `[num_samples, seq_length]`, row by row.
    pub tokens: Vec<u32>,
    /// What is to be predicted at each place, of the same shape: of a window the token that follows,
    /// of a pair of sentences the token that stood there before it was masked.
    pub targets: Vec<u32>,
    /// Weight of each target in the loss, of the same shape: 0, or 1 over the scored targets of the
    /// *global* batch, so that the losses of the micro-batches add up to its mean.
    pub loss_weights: Vec<f32>,
    /// Rows: of questions one for each of their answers.
    pub num_samples: usize,
    /// Columns.
    pub seq_length: usize,
    /// Place of the first row in the global batch: dropout masks are drawn for places, so that
    /// micro-batches change nothing.
    pub first_sample: usize,
    /// What samples of two segments have beside these; `None` for windows of running text.
    pub segments: Option<Segments>,
}

impl Batch {
    /// A batch of pairs of sentences, of a global batch of `num_labels` samples in which
    /// `scored_targets` tokens are to be predicted.
    ///
    /// Paper: the original implementation divides by what is masked in a micro-batch, and averages
    /// the micro-batches; here every masked token of the global batch counts alike, so that no
    /// layout changes the loss. Where nothing is masked no target has a weight.
    ///
    /// # Panics
    ///
    /// When there is no pair.
    #[must_use]
    pub fn of_pairs(
        pairs: &[PairSample],
        first_sample: usize,
        scored_targets: u64,
        num_labels: u64,
    ) -> Self {
        let seq_length = pairs[0].tokens.len();
        let elements = pairs.len() * seq_length;
        let mut loss_weights = vec![0.0; elements];
        let mut token_types = vec![0; elements];
        for (row, pair) in pairs.iter().enumerate() {
            let row = row * seq_length;
            for place in &pair.predicted {
                loss_weights[row + place] = (1.0 / scored_targets as f64) as f32;
            }
            token_types[row + pair.second_segment..row + pair.length].fill(1);
        }
        let segments = Segments {
            token_types,
            lengths: pairs.iter().map(|pair| pair.length).collect(),
            labels: pairs.iter().map(|pair| u32::from(pair.is_swapped)).collect(),
            label_weights: vec![(1.0 / num_labels as f64) as f32; pairs.len()],
        };
        Self {
            tokens: pairs.iter().flat_map(|pair| &pair.tokens).copied().collect(),
            targets: pairs.iter().flat_map(|pair| &pair.targets).copied().collect(),
            loss_weights,
            num_samples: pairs.len(),
            seq_length,
            first_sample,
            segments: Some(segments),
        }
    }

    /// A batch of whole samples, each `seq_length + 1` tokens, with every target scored.
    ///
    /// `scored_targets` are those of the whole global batch.
    ///
    /// # Panics
    ///
    /// When `samples` is no whole number of samples.
    pub fn of_samples(
        samples: &[u32],
        seq_length: usize,
        first_sample: usize,
        scored_targets: usize,
    ) -> Self {
        assert!(samples.len().is_multiple_of(seq_length + 1), "whole samples");
        let rows = || samples.chunks_exact(seq_length + 1);
        Self {
            tokens: rows().flat_map(|row| &row[..seq_length]).copied().collect(),
            targets: rows().flat_map(|row| &row[1..]).copied().collect(),
            loss_weights: vec![(1.0 / scored_targets as f64) as f32; rows().len() * seq_length],
            num_samples: rows().len(),
            seq_length,
            first_sample,
            segments: None,
        }
    }
}

/// Cuts the sequence of samples into global batches, and those into micro-batches.
#[derive(Debug, Clone)]
pub struct BatchSampler {
    /// Samples in the order of training.
    pub samples: OrderedSamples,
    /// Samples per micro-batch.
    pub micro_batch_size: usize,
    /// Samples per global batch.
    pub global_batch_size: usize,
}

impl BatchSampler {
    /// The samples at `places` of the global batch that starts at place `position` of the training
    /// order, in micro-batches.
    pub fn global_batch(
        &self,
        position: u64,
        places: Range<u64>,
    ) -> impl Iterator<Item = Result<Batch, TrainError>> + '_ {
        self.batches(position, self.global_batch_size as u64, places)
    }

    /// The samples at `places` of the `count` that start at place `position` of the order, in
    /// micro-batches; the last one may be smaller.
    pub fn batches(
        &self,
        position: u64,
        count: u64,
        places: Range<u64>,
    ) -> impl Iterator<Item = Result<Batch, TrainError>> + '_ {
        places.clone().step_by(self.micro_batch_size).map(move |first| {
            // Looked up after the first batch.
            let scored_targets = self.samples.scored_targets(&(position..position + count))?;
            let end = places.end.min(first + self.micro_batch_size as u64);
            let places = first..end;
            match &self.samples.samples().sources()[0] {
                SourceSamples::Windows(_) => self.windows(position, places, scored_targets),
                SourceSamples::SentencePairs(_) => {
                    self.pairs(position, places, scored_targets, count)
                }
                SourceSamples::Questions(questions) => {
                    let shape = (questions.seq_length(), questions.pad());
                    Ok(self.questions(position, places, shape, count))
                }
            }
        })
    }

    fn windows(
        &self,
        position: u64,
        places: Range<u64>,
        scored_targets: u64,
    ) -> Result<Batch, TrainError> {
        let samples = self.samples.samples();
        let (first, count) = (places.start as usize, (places.end - places.start) as usize);
        let mut tokens = Vec::with_capacity(count * (samples.seq_length() + 1));
        for id in self.samples.ids(position + places.start..position + places.end) {
            samples.read(id, &mut tokens)?;
        }
        Ok(Batch::of_samples(&tokens, samples.seq_length(), first, scored_targets as usize))
    }

    fn pairs(
        &self,
        position: u64,
        places: Range<u64>,
        scored_targets: u64,
        num_labels: u64,
    ) -> Result<Batch, TrainError> {
        let first = places.start as usize;
        let places = position + places.start..position + places.end;
        let ids = self.samples.ids(places.clone()).zip(places);
        let pairs: Vec<PairSample> =
            ids.map(|(id, place)| self.samples.pair(id, place)).collect::<Result<_, _>>()?;
        Ok(Batch::of_pairs(&pairs, first, scored_targets, num_labels))
    }

    fn questions(
        &self,
        position: u64,
        places: Range<u64>,
        shape: (usize, u32),
        num_questions: u64,
    ) -> Batch {
        let first = places.start as usize;
        let ids = self.samples.ids(position + places.start..position + places.end);
        let questions: Vec<QuestionSample> =
            ids.map(|id| self.samples.samples().read_question(id)).collect();
        Batch::of_questions(&questions, shape, first, num_questions)
    }

    /// The numbers of the samples in the global batch that starts at place `position`, in order.
    ///
    /// A number names the same tokens in every epoch and every layout; [`Samples`] says which.
    ///
    /// [`Samples`]: super::Samples
    #[must_use]
    pub fn sample_ids(&self, position: u64) -> Vec<u64> {
        self.samples.ids(position..position + self.global_batch_size as u64).collect()
    }
}
