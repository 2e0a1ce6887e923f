//! When a run saves, and what becomes of a save that fails.
//!
//! Two cadences run side by side: one in steps, which every rank knows, and one in minutes, by the
//! main rank's clock. A save that fails costs no training: the run says so, keeps the checkpoint
//! that it has and goes on. Only the last one has to succeed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use corpus::TokenizerIdentity;
use tracing::error;

use crate::TrainError;
use crate::checkpoint::{Checkpoint, CheckpointError, InitRecord, Saved, room_where_it_matters};
use crate::parallel::Rank;
use crate::plan::TrainPlan;

/// What one rank knows of the run's saves.
#[derive(Debug)]
pub(crate) struct Saves<'a> {
    /// The weights that the run began with, where a seed did not draw them.
    pub(crate) init_from: Option<&'a InitRecord>,
    /// The tokenizer, whose file lies in the run folder where it has one.
    pub(crate) tokenizer: &'a TokenizerIdentity,
    /// Step and folder of the newest checkpoint.
    newest: Option<(u64, PathBuf)>,
    /// When one was last begun.
    last: Instant,
    /// How many have failed since one succeeded.
    failed: u64,
    /// Whether one was due after a step that was skipped.
    is_late: bool,
}

impl<'a> Saves<'a> {
    /// Those of a run that goes on from `resumed`.
    pub(crate) fn new(
        resumed: Option<&Checkpoint>,
        init_from: Option<&'a InitRecord>,
        tokenizer: &'a TokenizerIdentity,
    ) -> Self {
        let newest = resumed.map(|checkpoint| (checkpoint.step(), checkpoint.folder().to_owned()));
        Self { init_from, tokenizer, newest, last: Instant::now(), failed: 0, is_late: false }
    }

    /// Whether a checkpoint is due after step `step`, by steps or by the clock. That of the last
    /// step is not counted: it is saved at the end.
    ///
    /// One that is due after a step that was `skipped` waits for the next update: steps that are
    /// skipped in a row may end the run, and must not push out the checkpoints from before.
    pub(crate) fn are_due(
        &mut self,
        plan: &TrainPlan,
        step: u64,
        skipped: bool,
        rank: &Rank,
    ) -> Result<bool, TrainError> {
        if step == plan.train_steps {
            return Ok(false);
        }
        let is_due = self.is_late || self.is_due_now(plan, step, rank)?;
        self.is_late = is_due && skipped;
        Ok(is_due && !skipped)
    }

    fn is_due_now(&self, plan: &TrainPlan, step: u64, rank: &Rank) -> Result<bool, TrainError> {
        if plan.checkpoint_due(step) {
            return Ok(true);
        }
        let Some(minutes) = plan.checkpoint.interval_minutes else { return Ok(false) };
        let interval = Duration::try_from_secs_f64(60.0 * minutes).unwrap_or(Duration::MAX);
        let is_due = rank.is_main() && self.last.elapsed() >= interval;
        Ok(rank.any("checkpoint.due", is_due)?)
    }

    /// The checkpoint of step `step`, where there is one.
    pub(crate) fn folder_of(&self, step: u64) -> Option<PathBuf> {
        let newest = self.newest.as_ref().filter(|(newest, _)| *newest == step);
        newest.map(|(_, folder)| folder.clone())
    }

    /// Takes note of the save after step `step`, with which the run goes on in any case.
    pub(crate) fn note(&mut self, step: u64, saved: Saved) {
        self.last = Instant::now();
        let (cause, room) = match saved {
            Saved::Whole(folder) => {
                self.failed = 0;
                self.newest = Some((step, folder));
                return;
            }
            Saved::Failed { cause, room } => (cause, room),
        };
        self.failed += 1;
        let Some(cause) = cause else { return };
        let kept = match &self.newest {
            Some((kept, _)) => format!("the checkpoint of step {kept} is kept"),
            None => "there is no checkpoint yet".to_owned(),
        };
        let times = match self.failed {
            1 => String::new(),
            failed => format!("; {failed} saves in a row have failed"),
        };
        let room = room_where_it_matters(&cause, room);
        error!(
            "step {step} is not saved: {cause}{room}; {kept}, and training goes on until the next \
             save{times}"
        );
    }

    /// The checkpoint that the save after step `step` made, with which the run ends.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::NotSaved`] where it failed.
    pub(crate) fn finish(
        &self,
        step: u64,
        saved: Saved,
        rank: &Rank,
    ) -> Result<PathBuf, TrainError> {
        let (cause, room) = match saved {
            Saved::Whole(folder) => return Ok(folder),
            Saved::Failed { cause, room } => (cause, room),
        };
        if let Some(cause) = cause {
            let kept = self.newest.as_ref().map(|(step, _)| *step);
            return Err(
                CheckpointError::NotSaved { step, source: Box::new(cause), room, kept }.into()
            );
        }
        // Another rank knows why: its error ends this wait.
        rank.tensor_parallel.collective().barrier("checkpoint.failed")?;
        rank.data_parallel.collective().barrier("checkpoint.failed")?;
        unreachable!("the rank on which the save failed does not come here")
    }
}
