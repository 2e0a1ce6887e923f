//! What a BERT makes of samples of two segments: losses of pre-training, and choices among answers.
//!
//! As with a [`Scorer`](super::Scorer), one thread for each tensor-parallel rank stays alive with its
//! part of the model.

use std::num::NonZeroUsize;

use burn::tensor::Device;

use crate::backend::Cpu;
use crate::data::Batch;
use crate::error::TrainError;
use crate::model::{Bert, BertConfig, BertMultipleChoice};
use crate::objective::{LossSum, Scored, choice_logits};
use crate::parallel::Rank;
use crate::parameters::ParameterSource;
use crate::rank_threads::{RankThreads, Serve};

/// The losses of a batch of pre-training.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MaskedLmScores {
    /// Those of the masked tokens.
    pub masked_lm: LossSum,
    /// Those of the order of the segments.
    pub order: LossSum,
}

/// Scores batches of masked pairs. Dropping it ends the threads.
#[derive(Debug)]
pub struct MaskedLmScorer {
    threads: RankThreads<MaskedLmRank>,
}

impl MaskedLmScorer {
    /// Builds the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn new<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let config = config.clone();
        let threads = RankThreads::start(tensor_parallel_size, move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(MaskedLmRank { model: Bert::init(&config, &source, group, &device)? })
        })?;
        Ok(Self { threads })
    }

    /// The losses of the tokens of `batch` that have a weight, and those of its labels.
    ///
    /// # Errors
    ///
    /// When a rank fails.
    ///
    /// # Panics
    ///
    /// When the batch's samples are no pairs of segments.
    pub fn score(&mut self, batch: Batch) -> Result<MaskedLmScores, TrainError> {
        assert!(batch.segments.is_some(), "samples of two segments");
        self.threads.ask(batch)
    }
}

/// A rank's part of the model.
#[derive(Debug)]
struct MaskedLmRank {
    model: Bert<Cpu>,
}

impl Serve for MaskedLmRank {
    type Request = Batch;
    type Answer = MaskedLmScores;

    fn answer(&mut self, batch: &Batch) -> MaskedLmScores {
        let sums = self.model.score(batch);
        MaskedLmScores { masked_lm: sums[0], order: sums[1] }
    }
}

/// Scores the answers of questions. Dropping it ends the threads.
#[derive(Debug)]
pub struct ChoiceScorer {
    threads: RankThreads<ChoiceRank>,
}

impl ChoiceScorer {
    /// Builds the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// As [`MaskedLmScorer::new`].
    pub fn new<S>(
        config: &BertConfig,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let config = config.clone();
        let threads = RankThreads::start(tensor_parallel_size, move |rank: &Rank| {
            let (group, device) = (&rank.tensor_parallel, Device::<Cpu>::default());
            Ok(ChoiceRank { model: BertMultipleChoice::init(&config, &source, group, &device)? })
        })?;
        Ok(Self { threads })
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
        let questions = batch.segments.as_ref().map_or(0, |segments| segments.labels.len());
        assert!(
            questions > 0 && batch.num_samples.is_multiple_of(questions),
            "{} samples of {questions} questions",
            batch.num_samples
        );
        self.threads.ask(batch)
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
