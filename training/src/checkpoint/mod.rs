//! Checkpoints: folders that hold a whole model and whatever is needed to go on training it.
//!
//! ```text
//! RUN/checkpoints/latest      name of the newest complete checkpoint
//! RUN/checkpoints/step-400/
//!     model.safetensors       logical tensors by Hugging Face's names, true vocabulary, f32
//!     optimizer.safetensors   exp_avg.NAME and exp_avg_sq.NAME
//!     config.json             Hugging Face's GPT2Config: `transformers` loads the folder as it is
//!     train_config.json       the resolved configuration of the run
//!     state.json              step, updates, samples consumed, seed, loss scale
//!     tokenizer.json          the tokenizer, where it is none that the program has built in
//!     manifest.json           model, tokenizer, size and xxh3-128 of every file; written last
//! RUN/checkpoints/superseded-step-N   a whole one that was set aside: the run went back, or it is another's
//! RUN/checkpoints/broken-step-N       one that the run passed over; goes when step N is saved again
//! ```
//!
//! Nothing in it depends on how many ranks wrote it: each writes its slices at their places in the
//! logical tensors, and a rank of any other layout reads its own slices from there. A folder gets
//! its name only once everything in it is on the disk; `latest` follows, and old checkpoints go
//! after that. A death at any moment leaves the previous checkpoint, and `latest` names a complete
//! one. A save that fails leaves nothing behind and ends no run.
//!
//! Weights of other programs become checkpoints that hold a model alone ([`import`]), and models go
//! out as Hugging Face's folders ([`export`]) and Megatron-LM's files ([`reshard`]).

mod error;
mod fine_tune_source;
mod hugging_face;
mod initial_weights;
mod linear_weight;
mod load;
mod manifest;
mod megatron;
mod number_type;
mod output_folder;
mod retention;
mod room;
mod run_checkpoints;
mod save;
mod save_progress;
mod tensor_file;
mod tensor_map;
mod weights;
mod weights_only;

pub(crate) use error::room_where_it_matters;
pub use error::{CheckpointError, TensorFault};
pub(crate) use fine_tune_source::FineTuneSource;
pub use hugging_face::{ExportReport, HuggingFaceModel, export, import};
pub use initial_weights::{InitRecord, InitialWeights};
pub use load::Checkpoint;
pub(crate) use load::{Newest, folder_of_checkpoints};
pub use manifest::{Manifest, TrainingState};
pub(crate) use manifest::{read_json, write_json};
pub use megatron::{MegatronDescription, QkvOrder, merge, reshard};
pub use output_folder::Existing;
pub use retention::Retention;
pub use room::Room;
pub(crate) use run_checkpoints::{RunCheckpoints, delete_all};
pub use save::{Saved, Snapshot, save};
pub use weights::Weights;

use std::path::{Path, PathBuf};

use crate::TrainError;
use crate::parameters::ParameterSpec;

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
/// Ending of the hidden name of a folder that is not finished.
const PARTIAL: &str = ".partial";
/// Ending of the hidden name of a folder that is being deleted.
const DELETED: &str = ".deleted";

fn step_folder(step: u64) -> String {
    format!("step-{step}")
}

/// `.step-N` with an ending: a folder that is no checkpoint yet, or no longer.
fn hidden(step: u64, ending: &str) -> String {
    format!(".{}{ending}", step_folder(step))
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

/// The tensors of a file: the parameters `specs`, whose names get `prefix`.
fn named<'a>(
    specs: &'a [ParameterSpec],
    prefix: &'a str,
) -> impl Iterator<Item = (String, &'a [usize])> {
    specs.iter().map(move |spec| (format!("{prefix}{}", spec.name), &*spec.shape))
}
