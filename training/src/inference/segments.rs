//! What a BERT makes of samples of two segments: losses of pre-training, and choices among answers.
//!
//! As with a [`Scorer`](super::Scorer), one thread for each tensor-parallel rank stays alive with its
//! part of the model, and there may be several copies of it.

use std::num::NonZeroUsize;

use burn::tensor::Device;

use super::copies::Copies;
use crate::backend::Cpu;
use crate::data::Batch;
use crate::error::TrainError;
use crate::model::{Bert, BertConfig, BertMultipleChoice};
use crate::objective::{PairScore, choice_logits, pair_scores};
use crate::parallel::Rank;
use crate::parameters::ParameterSource;
use crate::rank_threads::Serve;

/// Scores batches of masked pairs. Dropping it ends the threads.
#[derive(Debug)]
pub struct MaskedLmScorer {
    copies: Copies<MaskedLmRank>,
}

impl MaskedLmScorer {
    /// Builds one copy of the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// As [`with_copies`](Self::with_copies).
    pub fn new<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        Self::with_copies(config, source, tensor_parallel_size, NonZeroUsize::MIN)
    }

    /// Builds up to `copies` copies of the model from `source`, each on `tensor_parallel_size` rank
    /// threads of its own: the first here, the others with the first batch that goes to them.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn with_copies<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
        copies: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let config = config.clone();
        let copies = Copies::start(tensor_parallel_size, copies, move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(MaskedLmRank { model: Bert::init(&config, &source, group, &device)? })
        })?;
        Ok(Self { copies })
    }

    /// Copies that there may be, which is how many batches are scored side by side.
    #[must_use]
    pub fn num_copies(&self) -> usize {
        self.copies.most()
    }

    /// Copies that there were batches for.
    #[must_use]
    pub fn num_copies_made(&self) -> usize {
        self.copies.num_made()
    }

    /// The losses of each sample of `batch`: of its tokens that have a weight, and of its label.
    ///
    /// # Errors
    ///
    /// When a rank fails.
    ///
    /// # Panics
    ///
    /// When the batch's samples are no pairs of segments.
    pub fn score(&mut self, batch: Batch) -> Result<Vec<PairScore>, TrainError> {
        let mut scores = self.score_side_by_side(vec![batch])?;
        Ok(scores.pop().expect("as many results as batches"))
    }

    /// [`score`](Self::score) of several batches, each on a copy of the model: their results, in
    /// the order of the batches. Copies that are lacking are made.
    ///
    /// # Errors
    ///
    /// As [`score`](Self::score), and when a copy cannot be made.
    ///
    /// # Panics
    ///
    /// As [`score`](Self::score), and when there are more batches than copies.
    pub fn score_side_by_side(
        &mut self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Vec<PairScore>>, TrainError> {
        assert!(batches.iter().all(|batch| batch.segments.is_some()), "samples of two segments");
        self.copies.ask_all(batches)
    }
}

/// A rank's part of the model.
#[derive(Debug)]
struct MaskedLmRank {
    model: Bert<Cpu>,
}

impl Serve for MaskedLmRank {
    type Request = Batch;
    type Answer = Vec<PairScore>;

    fn answer(&mut self, batch: &Batch) -> Vec<PairScore> {
        pair_scores(&self.model, batch)
    }
}

/// Scores the answers of questions. Dropping it ends the threads.
#[derive(Debug)]
pub struct ChoiceScorer {
    copies: Copies<ChoiceRank>,
}

impl ChoiceScorer {
    /// Builds one copy of the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// As [`MaskedLmScorer::with_copies`].
    pub fn new<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        Self::with_copies(config, source, tensor_parallel_size, NonZeroUsize::MIN)
    }

    /// Builds up to `copies` copies of the model from `source`, each on `tensor_parallel_size` rank
    /// threads of its own: the first here, the others with the first batch that goes to them.
    ///
    /// # Errors
    ///
    /// As [`MaskedLmScorer::with_copies`].
    pub fn with_copies<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
        copies: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let config = config.clone();
        let copies = Copies::start(tensor_parallel_size, copies, move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(ChoiceRank { model: BertMultipleChoice::init(&config, &source, group, &device)? })
        })?;
        Ok(Self { copies })
    }

    /// Copies that there may be, which is how many batches are scored side by side.
    #[must_use]
    pub fn num_copies(&self) -> usize {
        self.copies.most()
    }

    /// Copies that there were batches for.
    #[must_use]
    pub fn num_copies_made(&self) -> usize {
        self.copies.num_made()
    }

    /// How well each sample of `batch` answers its question: a row of logits for each of the
    /// questions, of which the batch has one label each.
    ///
    /// # Errors
    ///
    /// When a rank fails.
    ///
    /// # Panics
    ///
    /// When the batch's samples are no pairs of segments, or no whole number of questions.
    pub fn logits(&mut self, batch: Batch) -> Result<Vec<Vec<f32>>, TrainError> {
        let mut logits = self.logits_side_by_side(vec![batch])?;
        Ok(logits.pop().expect("as many results as batches"))
    }

    /// [`logits`](Self::logits) of several batches, each on a copy of the model: their results, in
    /// the order of the batches. Copies that are lacking are made.
    ///
    /// # Errors
    ///
    /// As [`logits`](Self::logits), and when a copy cannot be made.
    ///
    /// # Panics
    ///
    /// As [`logits`](Self::logits), and when there are more batches than copies.
    pub fn logits_side_by_side(
        &mut self,
        batches: Vec<Batch>,
    ) -> Result<Vec<Vec<Vec<f32>>>, TrainError> {
        for batch in &batches {
            let questions = batch.segments.as_ref().map_or(0, |segments| segments.labels.len());
            assert!(
                questions > 0 && batch.num_samples.is_multiple_of(questions),
                "{} samples of {questions} questions",
                batch.num_samples
            );
        }
        self.copies.ask_all(batches)
    }
}

/// A rank's part of the model.
#[derive(Debug)]
struct ChoiceRank {
    model: BertMultipleChoice<Cpu>,
}

impl Serve for ChoiceRank {
    type Request = Batch;
    type Answer = Vec<Vec<f32>>;

    fn answer(&mut self, batch: &Batch) -> Vec<Vec<f32>> {
        let logits = choice_logits(&self.model, batch);
        let [_, choices] = logits.dims();
        let logits = logits.into_data();
        let logits = logits.as_slice::<f32>().expect("logits of choices are f32");
        logits.chunks_exact(choices).map(<[f32]>::to_vec).collect()
    }
}
