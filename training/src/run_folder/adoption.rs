//! Going on from a checkpoint that the user names: one of another run folder, which becomes the
//! first of this one, or an earlier one of this.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::record::differences;
use super::{of_this_run, other_weights};
use crate::TrainError;
use crate::checkpoint::{CHECKPOINTS, Checkpoint, RunCheckpoints};
use crate::plan::TrainPlan;

/// Whether `path` is a checkpoint in the run folder `out`.
pub(super) fn is_rewind(path: &Path, out: &Path) -> bool {
    path.parent().is_some_and(|parent| is_same(parent, &out.join(CHECKPOINTS)))
}

/// Whether `path` is the run folder `out`, or its folder of checkpoints.
pub(super) fn is_the_run(path: &Path, out: &Path) -> bool {
    is_same(path, out) || is_same(path, &out.join(CHECKPOINTS))
}

/// Whether two paths lead to one folder.
fn is_same(left: &Path, right: &Path) -> bool {
    let resolved = |path: &Path| fs::canonicalize(path).ok();
    resolved(left).is_some_and(|left| resolved(right) == Some(left))
}

/// Opens the checkpoint at `path`, or the newest complete one of the run there, and demands that the
/// plan's run may go on from it: the same model, data and configuration, but for what may differ.
pub(super) fn open(path: &Path, plan: &TrainPlan) -> Result<Checkpoint, TrainError> {
    let below = path.join(CHECKPOINTS);
    let checkpoint = if below.is_dir() {
        let newest = Checkpoint::newest_complete(&below, |it| of_this_run(it, plan))?;
        newest.ok_or_else(|| TrainError::NoCheckpoint {
            path: path.to_owned(),
            found: "a run without a checkpoint",
        })?
    } else {
        let checkpoint = Checkpoint::open(path)?;
        of_this_run(&checkpoint, plan)?;
        checkpoint
    };
    let differs = |difference: String, remedy| TrainError::CheckpointDiffers {
        path: checkpoint.folder().to_owned(),
        difference: format!("it is of another run: {difference}"),
        remedy,
    };
    let remedy = "begin a run with its weights by --init-from instead";
    let data = checkpoint.manifest().data.as_ref();
    if let Some(difference) = data.and_then(|data| data.difference(&plan.data)) {
        return Err(differs(difference, remedy));
    }
    if let Some(difference) = other_weights(checkpoint.manifest().init_from.as_ref(), plan) {
        return Err(differs(difference, remedy));
    }
    let asked_for = plan.options.override_schedule;
    let earlier = checkpoint.train_config()?;
    // As it reads from a file, like the other.
    let now =
        serde_json::from_str(&plan.config.to_string()).expect("a configuration is plain data");
    for difference in differences(&earlier, &now) {
        match (difference.is_schedule(), asked_for) {
            (true, true) => {
                warn!("--override-schedule: {difference}, from step {} on", checkpoint.step() + 1);
            }
            (true, false) => {
                return Err(differs(
                    difference.to_string(),
                    "pass --override-schedule to go on with the new value",
                ));
            }
            (false, _) => return Err(differs(difference.to_string(), remedy)),
        }
    }
    super::check_step(plan, Some(&checkpoint))?;
    Ok(checkpoint)
}

/// Makes `checkpoint` the first one of the plan's run folder, which then is a run like any other: it
/// does not need the folder that it came from.
pub(super) fn adopt(checkpoint: &Checkpoint, plan: &TrainPlan) -> Result<Checkpoint, TrainError> {
    let checkpoints = plan.options.out.join(CHECKPOINTS);
    let folder = RunCheckpoints { folder: &checkpoints }.adopt(checkpoint)?;
    Checkpoint::open(&folder)
}

/// Gives the checkpoints of later steps than `step` other names: nothing is deleted, and nothing
/// takes them for the newest.
pub(super) fn set_aside_later(checkpoints: &Path, step: u64) -> Result<(), TrainError> {
    let aside: Vec<PathBuf> = RunCheckpoints { folder: checkpoints }.set_aside_later(step)?;
    if let (Some(newest), count) = (aside.first(), aside.len()) {
        warn!(
            "going back to step {step}: {count} later checkpoint{} set aside, the newest as {}",
            if count == 1 { " is" } else { "s are" },
            newest.display()
        );
    }
    Ok(())
}
