//! The model under evaluation: what is known of it without its weights, and with them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use corpus::tokenizer::Tokenizer;
use corpus::{Observer, TokenizerIdentity, Unit};
use serde::Serialize;
use tracing::warn;
use training::checkpoint::{Checkpoint, Weights};
use training::data::SplitWeights;
use training::inference::{Scorer, Window};
use training::model::Gpt2Config;
use training::parallel::TokenScore;

use crate::batches::{Batch, Batches};
use crate::config::{EvalPlan, PartialScores};
use crate::error::EvalError;
use crate::kept::Kept;
use crate::score_log::ScoreLog;
use crate::scores_of::ScoresOf;
use crate::weights;

/// A model without its weights: all that is needed to prepare a test set for it.
#[derive(Clone)]
pub struct ModelIdentity {
    /// Folder of its checkpoint.
    pub checkpoint: PathBuf,
    /// What that is.
    pub kind: CheckpointKind,
    /// Optimizer steps that the checkpoint has behind it; `None` where that is not known.
    pub step: Option<u64>,
    /// Its sizes.
    pub config: Gpt2Config,
    /// How its training divided the documents of a data folder; `None` where that is not known.
    pub split_weights: Option<SplitWeights>,
    /// The tokenizer it was trained with.
    pub tokenizer: Arc<dyn Tokenizer>,
}

/// What a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// Saved by a training of this program.
    Trained,
    /// Weights of another program, made a checkpoint by `pipeline checkpoint import`.
    Imported,
    /// A folder in Hugging Face's form.
    HuggingFace,
}

/// A model that scores tokens.
#[derive(Debug)]
pub struct EvaluatedModel {
    /// What it is.
    pub identity: ModelIdentity,
    /// Computes its losses and predictions.
    scorer: Scorer,
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

impl ModelIdentity {
    /// The model of `checkpoint`.
    ///
    /// # Errors
    ///
    /// When it is no GPT-2, or its tokenizer is not found or is not the one that the model was
    /// trained with.
    pub fn new(checkpoint: &Checkpoint) -> Result<Self, EvalError> {
        let is_trained = checkpoint.has_training_state();
        Ok(Self {
            checkpoint: checkpoint.folder().to_owned(),
            kind: if is_trained { CheckpointKind::Trained } else { CheckpointKind::Imported },
            step: Some(checkpoint.step()),
            config: checkpoint.model_config()?.clone(),
            split_weights: checkpoint.split_weights()?,
            tokenizer: open_tokenizer(&checkpoint.tokenizer()?)?,
        })
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    ///
    /// When the tokenizer has no tokens for the text, or one that the model does not have.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EvalError> {
        let mut tokens = Vec::new();
        self.tokenizer.encode(text, &mut tokens)?;
        self.check_tokens(&tokens)?;
        Ok(tokens)
    }

    /// Refuses tokens that the model does not have.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), EvalError> {
        let vocab_size = self.config.vocab_size;
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            None => Ok(()),
            Some(&token) => {
                let tokenizer = self.tokenizer.name().to_owned();
                Err(EvalError::UnknownToken { tokenizer, token, vocab_size })
            }
        }
    }

    /// The token that ends documents.
    ///
    /// # Errors
    ///
    /// When the model does not have it.
    pub fn end_of_document(&self) -> Result<u32, EvalError> {
        let token = self.tokenizer.eod();
        self.check_tokens(&[token])?;
        Ok(token)
    }
}

impl std::fmt::Debug for ModelIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ModelIdentity")
            .field("checkpoint", &self.checkpoint)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl EvaluatedModel {
    /// A model whose scores are kept nowhere.
    #[must_use]
    pub fn new(identity: ModelIdentity, scorer: Scorer) -> Self {
        Self { identity, scorer, log: None, task: 0 }
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
        plan.check_beforehand()?;
        let weights = weights::open(&plan.checkpoint, observer)?;
        let identity = weights::identity(&weights)?;
        plan.check_here(&identity.config)?;
        identity.config.check_tensor_parallel(plan.tensor_parallel_size.get())?;
        let log = open_log(plan, &weights, &identity, observer)?;
        let (ranks, copies) = (plan.tensor_parallel_size, plan.data_parallel_size);
        let scorer = Scorer::with_copies(&identity.config, weights, ranks, copies)?;
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
    pub(crate) fn score_part<K: Kept>(
        &mut self,
        stage: &Stage<'_>,
        first: usize,
        batch_size: NonZeroUsize,
        observer: &dyn Observer,
    ) -> Result<Vec<K>, EvalError> {
        let mut kept = self.recall::<K>(stage, first)?;
        let missing: Vec<usize> = (0..kept.len()).filter(|&at| kept[at].is_none()).collect();
        observer.skip((kept.len() - missing.len()) as u64);
        let batches = Batches::of_some(stage.windows, missing, batch_size);
        let batches: Vec<Batch<'_>> = batches.iter().collect();
        for round in batches.chunks(self.scorer.num_copies()) {
            if observer.stop_requested() {
                return Err(EvalError::Stopped);
            }
            let scores = self.scorer.score_side_by_side(round)?;
            for (batch, scores) in round.iter().zip(scores) {
                for (&at, scores) in batch.indices.iter().zip(scores) {
                    check_finite(&scores, stage, first, at)?;
                    kept[at] = Some(K::of(scores));
                }
                self.keep(stage, first, batch, &kept);
                observer.advance(batch.windows.len() as u64);
            }
        }
        Ok(kept.into_iter().map(|kept| kept.expect("every window is in a batch")).collect())
    }

    /// What is known of each window from an earlier process.
    fn recall<K: Kept>(
        &mut self,
        stage: &Stage<'_>,
        first: usize,
    ) -> Result<Vec<Option<K>>, EvalError> {
        let windows = stage.windows.iter().enumerate();
        match &mut self.log {
            None => Ok(windows.map(|_| None).collect()),
            Some(log) => {
                let place = (self.task, stage.name.to_owned());
                windows.map(|(at, window)| log.take(&place, first + at, window)).collect()
            }
        }
    }

    /// Writes down what is kept of a batch.
    fn keep<K: Kept>(
        &mut self,
        stage: &Stage<'_>,
        first: usize,
        batch: &Batch<'_>,
        kept: &[Option<K>],
    ) {
        let Some(log) = &mut self.log else { return };
        let windows = batch.indices.iter().zip(&batch.windows);
        let windows =
            windows.filter_map(|(&at, window)| Some((first + at, window, kept[at].as_ref()?)));
        log.push(&(self.task, stage.name.to_owned()), windows);
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

/// Refuses scores of the window at `at` that are no numbers.
fn check_finite(
    scores: &[TokenScore],
    stage: &Stage<'_>,
    first: usize,
    at: usize,
) -> Result<(), EvalError> {
    match scores.iter().position(|score| !score.loss.is_finite()) {
        None => Ok(()),
        Some(place) => Err(EvalError::NonFinite {
            loss: scores[place].loss,
            stage: stage.name.to_owned(),
            window: first + at,
            position: stage.windows[at].scored.start + place,
        }),
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
        config: identity.config.clone(),
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

/// The tokenizer of that name, if it still is the same.
fn open_tokenizer(expected: &TokenizerIdentity) -> Result<Arc<dyn Tokenizer>, EvalError> {
    let tokenizer = corpus::tokenizer::open(&expected.name)?;
    let found = tokenizer.fingerprint();
    if found != expected.fingerprint {
        return Err(EvalError::OtherTokenizer {
            name: expected.name.clone(),
            expected: expected.fingerprint.clone(),
            found,
        });
    }
    Ok(tokenizer)
}
