//! The run folder: who may write there, and from where an earlier run goes on.
//!
//! A folder belongs to one run: the same resolved configuration on the same data. Such a run is
//! resumed from its newest complete checkpoint; any other folder with something in it is refused,
//! never overwritten. What changes no result beyond rounding or no result at all may differ: how
//! many ranks share the model, and when to validate and to save.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{info, warn};

use crate::TrainError;
use crate::checkpoint::{
    CHECKPOINTS, Checkpoint, read_json, step_folders, sync_folder, write_json,
};
use crate::metrics::{METRICS_FILE, SAMPLES_FILE};
use crate::plan::{Resume, TrainPlan};

/// Name of the file by which a run folder is known.
const RUN_FILE: &str = "run.json";
const PARTIAL_RUN_FILE: &str = ".run.json.partial";

/// Sections that may differ between the parts of one run.
const FREE_SECTIONS: [&str; 3] = ["parallel", "validation", "checkpoint"];

/// `run.json`
#[derive(Debug, Serialize, Deserialize)]
struct RunRecord {
    /// Version of this crate.
    version: String,
    /// The resolved configuration.
    config: Value,
    /// What the samples depend on.
    data: DataRecord,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct DataRecord {
    fingerprint: String,
}

/// Makes the run folder, or finds where the run in it stands.
///
/// Returns the checkpoint to go on from; `None` for a run that starts.
///
/// # Errors
///
/// When the folder holds anything but this run, or this run and the plan says not to resume.
pub(crate) fn prepare(plan: &TrainPlan) -> Result<Option<Checkpoint>, TrainError> {
    let out = &plan.paths.out;
    let refuse = |reason: String| TrainError::RunFolderUsed { path: out.clone(), reason };
    if !is_used(out)? {
        begin(plan)?;
        return Ok(None);
    }
    if !out.join(RUN_FILE).is_file() {
        return Err(refuse("it holds no run that could be resumed".to_owned()));
    }
    match plan.paths.resume {
        Resume::Never => Err(refuse("it holds a run, and resuming is off".to_owned())),
        Resume::Overwrite => {
            delete(out)?;
            begin(plan)?;
            Ok(None)
        }
        Resume::Auto => {
            let earlier: RunRecord = read_json(&out.join(RUN_FILE))?;
            if let Some(difference) = earlier.difference(&RunRecord::of(plan).as_read()) {
                return Err(refuse(format!("it holds another run: {difference}")));
            }
            newest_complete(&out.join(CHECKPOINTS))
        }
    }
}

/// Makes the folder a run's.
fn begin(plan: &TrainPlan) -> Result<(), TrainError> {
    let out = &plan.paths.out;
    fs::create_dir_all(out).map_err(|source| TrainError::io("create", out, source))?;
    let partial = out.join(PARTIAL_RUN_FILE);
    write_json(&partial, &RunRecord::of(plan))?;
    fs::rename(&partial, out.join(RUN_FILE))
        .map_err(|source| TrainError::io("rename", &partial, source))?;
    sync_folder(out)
}

/// Deletes what a run writes, and nothing else; what makes the folder a run's goes last.
fn delete(out: &Path) -> Result<(), TrainError> {
    let checkpoints = out.join(CHECKPOINTS);
    if checkpoints.exists() {
        fs::remove_dir_all(&checkpoints)
            .map_err(|source| TrainError::io("delete", &checkpoints, source))?;
    }
    for file in [METRICS_FILE, SAMPLES_FILE, RUN_FILE].map(|name| out.join(name)) {
        if file.exists() {
            fs::remove_file(&file).map_err(|source| TrainError::io("delete", &file, source))?;
        }
    }
    Ok(())
}

impl RunRecord {
    fn of(plan: &TrainPlan) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: plan.config.clone(),
            data: DataRecord { fingerprint: plan.data_fingerprint.clone() },
        }
    }

    /// The record as it reads from a file: serde_json may change the last bit of a number on the way.
    fn as_read(&self) -> Self {
        let json = serde_json::to_vec(self).expect("a record is plain data");
        serde_json::from_slice(&json).expect("what was just written")
    }

    /// The first thing that makes two runs different, in the user's words.
    fn difference(&self, other: &Self) -> Option<String> {
        if self.data != other.data {
            return Some("the data folder's content differs".to_owned());
        }
        let sections = self
            .config
            .as_object()
            .into_iter()
            .chain(other.config.as_object())
            .flat_map(|map| map.keys());
        sections.filter(|section| !FREE_SECTIONS.contains(&section.as_str())).find_map(|section| {
            first_difference(section, self.config.get(section), other.config.get(section))
        })
    }
}

/// `optimizer.lr was 0.001 and is 0.002`
fn first_difference(path: &str, earlier: Option<&Value>, now: Option<&Value>) -> Option<String> {
    if earlier == now {
        return None;
    }
    if let (Some(Value::Object(earlier)), Some(Value::Object(now))) = (earlier, now) {
        return earlier.keys().chain(now.keys()).find_map(|key| {
            first_difference(&format!("{path}.{key}"), earlier.get(key), now.get(key))
        });
    }
    let show = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    Some(format!("{path} was {} and is {}", show(earlier), show(now)))
}

/// The newest checkpoint that verifies; broken ones are passed over by name. Where there are some and none verifies, that is an
/// error: to begin again would throw away what the run has logged.
fn newest_complete(checkpoints: &Path) -> Result<Option<Checkpoint>, TrainError> {
    if !checkpoints.is_dir() {
        return Ok(None);
    }
    let mut newest_fault = None;
    for (step, folder) in step_folders(checkpoints)? {
        match Checkpoint::open(&folder) {
            Ok(checkpoint) => {
                info!(step, "resuming from {}", folder.display());
                return Ok(Some(checkpoint));
            }
            Err(error) => {
                warn!(step, "passing over a broken checkpoint: {error}");
                newest_fault.get_or_insert(error);
            }
        }
    }
    match newest_fault {
        None => Ok(None),
        Some(fault) => Err(TrainError::NoUsableCheckpoint {
            path: checkpoints.to_owned(),
            source: Box::new(fault),
        }),
    }
}

/// Whether `path` is a folder with something in it; the first file of a run that was killed before
/// it began does not count.
fn is_used(path: &Path) -> Result<bool, TrainError> {
    if !path.exists() {
        return Ok(false);
    }
    for entry in path.read_dir().map_err(|source| TrainError::io("list", path, source))? {
        let entry = entry.map_err(|source| TrainError::io("list", path, source))?;
        if entry.file_name() != PARTIAL_RUN_FILE {
            return Ok(true);
        }
    }
    Ok(false)
}
