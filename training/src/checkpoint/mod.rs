//! Checkpoints: folders that hold a whole model and whatever is needed to go on training it.
//!
//! ```text
//! RUN/checkpoints/latest      name of the newest complete checkpoint
//! RUN/checkpoints/step-400/
//!     model.safetensors       logical tensors by Hugging Face's names, true vocabulary, f32
//!     optimizer.safetensors   exp_avg.NAME and exp_avg_sq.NAME
//!     config.json             Hugging Face's GPT2Config: `transformers` loads the folder as it is
//!     train_config.json       the resolved configuration of the run
//!     state.json              step, samples consumed, seed
//!     tokenizer.json          the tokenizer, where it is none that the program has built in
//!     manifest.json           model, tokenizer, size and xxh3-128 of every file; written last
//! ```
//!
//! Nothing in it depends on how many ranks wrote it: each writes its slices at their places in the
//! logical tensors, and a rank of any other layout reads its own slices from there. A folder gets
//! its name only once everything in it is on the disk; `latest` follows, and old checkpoints go
//! after that. A death at any moment leaves the previous checkpoint, and `latest` names a complete
//! one.

mod hugging_face;
mod load;
mod manifest;
mod save;
mod tensor_file;
mod tensor_map;

pub use load::Checkpoint;
pub use manifest::{Manifest, TrainingState};
pub(crate) use manifest::{read_json, write_json};
pub use save::{Snapshot, save};

use std::path::{Path, PathBuf};

use crate::TrainError;

/// Folder of a run that holds its checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";
const LATEST: &str = "latest";
const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const TRAIN_CONFIG: &str = "train_config.json";
const HUGGING_FACE_CONFIG: &str = "config.json";
const EXP_AVG: &str = "exp_avg.";
const EXP_AVG_SQ: &str = "exp_avg_sq.";
/// Ending of a folder that is not finished.
const PARTIAL: &str = ".partial";

fn step_folder(step: u64) -> String {
    format!("step-{step}")
}

/// The step in a checkpoint folder's name; `None` for anything else, also for `step-007`, which is
/// no name of ours.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (step_folder(step) == name).then_some(step)
}

/// Checkpoint folders in `checkpoints`, newest first by number. Unfinished ones have other names
/// and are not among them.
pub(crate) fn step_folders(checkpoints: &Path) -> Result<Vec<(u64, PathBuf)>, TrainError> {
    let entries =
        checkpoints.read_dir().map_err(|source| TrainError::io("list", checkpoints, source))?;
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| TrainError::io("list", checkpoints, source))?;
        if let Some(step) = entry.file_name().to_str().and_then(step_of) {
            folders.push((step, entry.path()));
        }
    }
    folders.sort_by_key(|&(step, _)| std::cmp::Reverse(step));
    Ok(folders)
}
