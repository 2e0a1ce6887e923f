//! Which checkpoints stay: the newest few, and those of round steps for good.
//!
//! What is newest is told by the number in the name, never by a time: copies and clocks change
//! times. Nothing but `step-N` is ever deleted, and only after a newer checkpoint is on the disk. A
//! folder loses its name before its files: one that is half deleted is no checkpoint.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use tracing::{debug, warn};

use super::{DELETED, PARTIAL, hidden, step_folders, step_of};
use crate::TrainError;
use crate::config::CheckpointConfig;

/// Which checkpoints of a run stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// So many of the newest; all where it is not given.
    pub keep_last: Option<usize>,
    /// Those whose step is a multiple of it.
    pub keep_every: Option<u64>,
}

impl Retention {
    /// What a configuration says.
    #[must_use]
    pub fn of(config: &CheckpointConfig) -> Self {
        Self {
            keep_last: config.keep_last.map(NonZero::get),
            keep_every: config.keep_every.map(NonZero::get),
        }
    }

    /// Of `steps`, newest first, those whose checkpoints go.
    fn superseded(self, steps: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let Some(keep_last) = self.keep_last else { return Vec::new() };
        let stays = |step: u64| self.keep_every.is_some_and(|every| step.is_multiple_of(every));
        steps.into_iter().skip(keep_last).filter(|&step| !stays(step)).collect()
    }
}

/// Deletes the checkpoints that `retention` does not keep, once the one of step `saved` is on the
/// disk. One that cannot be deleted is told and stays.
///
/// What a resumed run passed over has another name by then, and takes no good one's place; a folder
/// of a later step does not either.
pub(super) fn delete_superseded(checkpoints: &Path, saved: u64, retention: Retention) {
    let folders = match step_folders(checkpoints) {
        Ok(folders) => folders,
        Err(error) => return warn!("old checkpoints stay: {error}"),
    };
    let steps = folders.iter().map(|&(step, _)| step).filter(|&step| step <= saved);
    for step in retention.superseded(steps) {
        let hidden = checkpoints.join(hidden(step, DELETED));
        let folder = checkpoints.join(super::step_folder(step));
        match fs::rename(&folder, &hidden).and_then(|()| fs::remove_dir_all(&hidden)) {
            Ok(()) => debug!(step, "deleted {}", folder.display()),
            Err(error) => warn!(step, "cannot delete {}: {error}", folder.display()),
        }
    }
}

/// What saves and deletions that never came to their end have left in `checkpoints`.
pub(super) fn leftovers(checkpoints: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let list = |source| TrainError::io("list", checkpoints, source);
    let mut found = Vec::new();
    for entry in checkpoints.read_dir().map_err(list)? {
        let entry = entry.map_err(list)?;
        if entry.file_name().to_str().is_some_and(is_leftover) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// `.step-N.partial` and `.step-N.deleted`.
fn is_leftover(name: &str) -> bool {
    let Some(name) = name.strip_prefix('.') else { return false };
    [PARTIAL, DELETED].iter().any(|end| name.strip_suffix(end).and_then(step_of).is_some())
}

/// Deletes what a failed save has written: on a full disk it would be in the way.
pub(super) fn clear_away(partial: &Path) {
    match fs::remove_dir_all(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("cannot delete {}: {error}", partial.display());
        }
        _ => {}
    }
}
