//! Going on from a checkpoint that the user names: one of another run folder, which becomes the
//! first of this one, or an earlier one of this.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::record::differences;
use super::{Look, of_this_run, other_weights};
use crate::TrainError;
use crate::checkpoint::{
    CHECKPOINTS, Checkpoint, CheckpointError, Newest, RunCheckpoints, folder_of_checkpoints,
};

/// The checkpoint in the run folder `out` that `path` is, or was before newer ones took its place.
pub(super) fn own_checkpoint(path: &Path, out: &Path) -> Option<PathBuf> {
    let checkpoints = out.join(CHECKPOINTS);
    // A name alone lies in the working folder, and `.` has none.
    let path = match fs::canonicalize(path) {
        Ok(resolved) if resolved.parent().is_some_and(|it| is_same(it, &checkpoints)) => resolved,
        _ => std::path::absolute(path).ok()?,
    };
    let is_own = path.parent().is_some_and(|parent| is_same(parent, &checkpoints));
    is_own.then(|| checkpoints.join(path.file_name().unwrap_or_default()))
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
pub(super) fn open(path: &Path, look: Look<'_>) -> Result<Checkpoint, TrainError> {
    let Look { plan, observer, .. } = look;
    let checkpoint = if let Some(several) = folder_of_checkpoints(path) {
        let newest = Checkpoint::newest_complete(&several, observer, |it| of_this_run(it, plan))?;
        let Some(Newest { checkpoint, .. }) = newest else {
            let found = "a run without a checkpoint";
            return Err(CheckpointError::NoCheckpoint { path: path.to_owned(), found }.into());
        };
        checkpoint
    } else {
        let checkpoint = Checkpoint::open_observed(path, observer)?;
        of_this_run(&checkpoint, plan)?;
        checkpoint
    };
    let differs = |difference: String, remedy| {
        TrainError::from(CheckpointError::CheckpointDiffers {
            path: checkpoint.folder().to_owned(),
            difference: format!("it is of another run: {difference}"),
            remedy,
        })
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
pub(super) fn adopt(checkpoint: &Checkpoint, look: Look<'_>) -> Result<Checkpoint, TrainError> {
    let folder = &look.plan.options.out.join(CHECKPOINTS);
    RunCheckpoints { folder }.adopt(checkpoint, look.observer)
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
