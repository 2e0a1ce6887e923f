//! Samples side by side: what one forward pass sees.

use std::ops::Range;

use super::sampler::OrderedSamples;
use super::segments::Segments;
use crate::TrainError;

/// The samples of one micro-batch, on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Inputs, `[num_samples, seq_length]`, row by row.
    pub tokens: Vec<u32>,
    /// The token that follows each input, of the same shape.
    pub targets: Vec<u32>,
    /// Weight of each target in the loss, of the same shape: 0, or 1 over the scored targets of the
    /// *global* batch, so that the losses of the micro-batches add up to its mean.
    pub loss_weights: Vec<f32>,
    /// Rows.
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
        let seq_length = self.samples.samples().seq_length();
        let scored_targets = count as usize * seq_length;
        places.clone().step_by(self.micro_batch_size).map(move |first| {
            let end = places.end.min(first + self.micro_batch_size as u64);
            let mut tokens = Vec::with_capacity((end - first) as usize * (seq_length + 1));
            for id in self.samples.ids(position + first..position + end) {
                self.samples.samples().read(id, &mut tokens)?;
            }
            Ok(Batch::of_samples(&tokens, seq_length, first as usize, scored_targets))
        })
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
