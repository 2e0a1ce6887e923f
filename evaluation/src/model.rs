//! The model under evaluation, with its weights.

use std::num::NonZeroUsize;

use corpus::{Observer, Unit};
use tracing::warn;
use training::checkpoint::Weights;
use training::inference::Window;
use training::parallel::TokenScore;

use crate::config::{EvalPlan, PartialScores};
use crate::error::EvalError;
use crate::found_model::FoundModel;
use crate::identity::ModelIdentity;
use crate::kept::{Kept, KeptOfWindow};
use crate::samples::{Samples, WindowSamples};
use crate::score_log::ScoreLog;
use crate::scorer::ModelScorer;
use crate::scores_of::{ScoresOf, fields_of};

/// A model that scores what it is asked.
#[derive(Debug)]
pub struct EvaluatedModel {
    /// What it is.
    pub identity: ModelIdentity,
    /// Computes its losses and predictions.
    scorer: ModelScorer,
    /// Where its scores are kept until the evaluation has ended.
    log: Option<ScoreLog>,
    /// The place in the plan of the task that is run: two may have stages of one name.
    task: usize,
}

/// Windows that a task has scored in one go.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// What is scored: the task and, where it has several stages, which of them. Scores that are
    /// kept go by it.
    pub name: &'a str,
    /// What a window is to the task.
    pub unit: Unit,
    /// The windows.
    pub windows: &'a [Window<'a>],
}

impl EvaluatedModel {
    /// A model whose scores are kept nowhere.
    #[must_use]
    pub fn new(identity: ModelIdentity, scorer: impl Into<ModelScorer>) -> Self {
        Self { identity, scorer: scorer.into(), log: None, task: 0 }
    }

    /// Opens the plan's checkpoint on as many ranks as it says, and the file in which its scores are
    /// kept.
    ///
    /// # Errors
    ///
    /// When the checkpoint cannot be read or does not split over the ranks, or its tokenizer is not
    /// found or is not the one that the model was trained with; when the file of scores belongs to
    /// something else; when `observer`, which hears how far the reading is, asks to stop.
    pub fn open(plan: &EvalPlan, observer: &dyn Observer) -> Result<Self, EvalError> {
        Self::of(FoundModel::open(plan, observer)?, plan, observer)
    }

    /// The model that was found for `plan`, with the file in which its scores are kept.
    ///
    /// # Errors
    ///
    /// When the file of scores belongs to something else, or the model does not get on its ranks.
    pub(crate) fn of(
        model: FoundModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<Self, EvalError> {
        let FoundModel { identity, weights } = model;
        let log = open_log(plan, &weights, &identity, observer)?;
        let (ranks, copies) = (plan.tensor_parallel_size, plan.data_parallel_size);
        let scorer = ModelScorer::new(&identity.architecture, weights, ranks, copies)?;
        Ok(Self { identity, scorer, log, task: 0 })
    }

    /// Scores every window of `stage`, at most `batch_size` in a forward pass of one copy of the
    /// model: one list for each window, in the order of the stage, however they were batched. What
    /// an earlier process has scored is not scored again.
    ///
    /// # Errors
    ///
    /// When the model fails or gives a loss that is no number, `observer` asks to stop, or the
    /// scores that are kept are those of other windows.
    pub fn score(
        &mut self,
        stage: &Stage<'_>,
        batch_size: NonZeroUsize,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<TokenScore>>, EvalError> {
        observer.begin(stage.name, Some(stage.windows.len() as u64), stage.unit);
        let scores = self.score_part(stage, 0, batch_size, observer)?;
        observer.finish();
        Ok(scores)
    }

    /// Scores the windows of `stage`, of which the first is number `first` of all that go by its
    /// name, and returns what is kept of each. `observer` hears of them; begin and end of the stage
    /// are the caller's.
    ///
    /// # Errors
    ///
    /// As [`score`](Self::score).
    pub(crate) fn score_part<K: KeptOfWindow>(
        &mut self,
        stage: &Stage<'_>,
        first: usize,
        batch_size: NonZeroUsize,
        observer: &dyn Observer,
    ) -> Result<Vec<K>, EvalError> {
        let samples = WindowSamples::<K>::new(stage, first);
        self.score_samples(stage.name, first, &samples, batch_size, observer)
    }

    /// Scores `samples`, of which the first is number `first` of all that go by the stage's name,
    /// at most `batch_size` in a forward pass of one copy of the model, and returns what is kept of
    /// each. `observer` hears of them; begin and end of the stage are the caller's.
    ///
    /// # Errors
    ///
    /// As [`score`](Self::score).
    pub(crate) fn score_samples<S: Samples>(
        &mut self,
        stage: &str,
        first: usize,
        samples: &S,
        batch_size: NonZeroUsize,
        observer: &dyn Observer,
    ) -> Result<Vec<S::Score>, EvalError> {
        let place = (self.task, stage.to_owned());
        let mut kept = self.recall(&place, first, samples)?;
        let missing: Vec<usize> = (0..kept.len()).filter(|&at| kept[at].is_none()).collect();
        observer.skip((kept.len() - missing.len()) as u64);
        let batches = samples.batches(missing, batch_size);
        for round in batches.chunks(self.scorer.num_copies()) {
            if observer.stop_requested() {
                return Err(EvalError::Stopped);
            }
            let scores = samples.score(&mut self.scorer, round)?;
            for (batch, scores) in round.iter().zip(scores) {
                for (&at, score) in batch.iter().zip(scores) {
                    kept[at] = Some(score);
                }
                self.keep(&place, first, samples, batch, &kept);
                observer.advance(batch.len() as u64);
            }
        }
        Ok(kept.into_iter().map(|kept| kept.expect("every sample is in a batch")).collect())
    }

    /// What is known of each sample from an earlier process.
    fn recall<S: Samples>(
        &mut self,
        place: &(usize, String),
        first: usize,
        samples: &S,
    ) -> Result<Vec<Option<S::Score>>, EvalError> {
        let all = 0..samples.len();
        let Some(log) = &mut self.log else { return Ok(all.map(|_| None).collect()) };
        all.map(|at| log.take(place, first + at, || samples.hash(at), samples.scored(at))).collect()
    }

    /// Writes down what is kept of a batch.
    fn keep<S: Samples>(
        &mut self,
        place: &(usize, String),
        first: usize,
        samples: &S,
        batch: &[usize],
        kept: &[Option<S::Score>],
    ) {
        let Some(log) = &mut self.log else { return };
        let records = batch
            .iter()
            .filter_map(|&at| Some((first + at, samples.hash(at), kept[at].as_ref()?.record())));
        log.push(place, records.collect());
    }

    /// Says which task of the plan is run next.
    pub(crate) fn begin_task(&mut self, place: usize) {
        self.task = place;
        if let Some(log) = &mut self.log {
            log.begin_task();
        }
    }

    /// The wall time that earlier processes spent on what the task had not to score again, in
    /// seconds.
    pub(crate) fn earlier_seconds(&self) -> f64 {
        self.log.as_ref().map_or(0.0, |log| log.taken_seconds(self.task))
    }

    /// The error of an evaluation that was stopped: whether another call can go on from what is
    /// kept.
    pub(crate) fn stopped(self) -> EvalError {
        let Some(mut log) = self.log else { return EvalError::Stopped };
        match log.num_windows() {
            0 => EvalError::Stopped,
            windows => EvalError::StoppedWithScores { path: log.path().to_owned(), windows },
        }
    }

    /// What holds the scores that are kept.
    pub(crate) fn into_log(self) -> Option<ScoreLog> {
        let (copies, made) = (self.scorer.num_copies(), self.scorer.num_copies_made());
        if made < copies {
            warn!(
                "--dp {copies}: there were never more than {made} batches to score side by side, so \
                 that no more copies of the model were made"
            );
        }
        self.log
    }
}

/// The file for the scores of the plan's evaluation of the model; none where the plan says so.
fn open_log(
    plan: &EvalPlan,
    weights: &Weights,
    identity: &ModelIdentity,
    observer: &dyn Observer,
) -> Result<Option<ScoreLog>, EvalError> {
    if plan.partial_scores == PartialScores::Nowhere {
        return Ok(None);
    }
    let tasks = plan.tasks.iter().map(|task| task.scores_depend_on(identity, plan));
    let scores_of = ScoresOf {
        tasks: tasks.collect::<Result<_, _>>()?,
        tokenizer: identity.tokenizer.fingerprint(),
        model: weights.fingerprint(observer)?,
        config: fields_of(&identity.architecture),
        checkpoint: identity.checkpoint.clone(),
    };
    match &plan.partial_scores {
        PartialScores::Nowhere => Ok(None),
        PartialScores::File { path, replace } => {
            ScoreLog::open(path, &scores_of, *replace).map(Some)
        }
        PartialScores::Folder(folder) => {
            let (task, hash) = (plan.tasks[0].name(), scores_of.short_hash());
            let path = folder.join(format!("eval-{task}-{hash}.partial"));
            ScoreLog::open(&path, &scores_of, false).map(Some)
        }
    }
}
