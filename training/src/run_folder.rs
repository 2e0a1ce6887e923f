//! The run folder: who may write there, and from where an earlier run goes on.
//!
//! A folder belongs to one run: the same resolved configuration on the same data. Such a run is
//! resumed from its newest complete checkpoint; any other folder with something in it is refused,
//! never overwritten. What changes no result beyond rounding or no result at all may differ: how
//! many ranks there are, what one forward pass sees, and when to validate and to save. One process
//! at a time has the folder: it holds a lock, which ends with it however it ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{info, warn};

use crate::TrainError;
use crate::checkpoint::{CHECKPOINTS, Checkpoint, read_json, step_folders, write_json};
use crate::collective_dump;
use crate::collective_trace::TRACE_FILE;
use crate::data::DataRecord;
use crate::metrics::{METRICS_FILE, SAMPLES_FILE};
use crate::plan::{Resume, TrainPlan};
use crate::tensorboard::TENSORBOARD;

/// Name of the file by which a run folder is known.
const RUN_FILE: &str = "run.json";
const PARTIAL_RUN_FILE: &str = ".run.json.partial";
/// Name of the file that the process which trains holds a lock on. It stays when the run is over:
/// who deletes it could delete the next one's.
const LOCK_FILE: &str = ".lock";

/// Linux's number for "no locks available", which the standard library has no kind for.
const ENOLCK: i32 = 37;

/// Sections and keys that may differ between the parts of one run.
const FREE: [&str; 8] = [
    "parallel",
    "batch.micro_batch_size",
    "recompute",
    "data.epoch_tokens",
    "data.repeat",
    "validation",
    "checkpoint",
    "logging",
];

/// `run.json`
#[derive(Debug, Serialize, Deserialize)]
struct RunRecord {
    /// Version of this crate.
    version: String,
    /// The commit that the program was built from, where the build was told.
    #[serde(default)]
    commit: Option<String>,
    /// The command line that began the run.
    #[serde(default)]
    command: Vec<String>,
    /// The resolved configuration.
    config: Value,
    /// What the samples depend on.
    data: DataRecord,
}

/// A run folder that no other process trains into for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RunFolder {
    /// The checkpoint to go on from; `None` for a run that starts.
    pub(crate) resumed: Option<Checkpoint>,
    /// `None` where nothing can be written and nothing has to be.
    _lock: Option<File>,
}

/// Makes the run folder, or finds where the run in it stands.
///
/// # Errors
///
/// When the folder holds anything but this run, or this run and the plan says not to resume, or
/// another process has it.
pub(crate) fn prepare(plan: &TrainPlan) -> Result<RunFolder, TrainError> {
    let out = &plan.options.out;
    if is_used(out)? && !out.join(RUN_FILE).is_file() {
        return Err(TrainError::RunFolderUsed {
            path: out.clone(),
            reason: "it holds no run that could be resumed".to_owned(),
            remedy: "choose another folder",
        });
    }
    match lock(out) {
        Ok(lock) => {
            let has_run = out.join(RUN_FILE).is_file();
            let resumed = if has_run { take_over(plan)? } else { begin(plan)? };
            Ok(RunFolder { resumed, _lock: Some(lock) })
        }
        Err(error) if is_not_writable(&error) => match finished(plan)? {
            Some(checkpoint) => Ok(RunFolder { resumed: Some(checkpoint), _lock: None }),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The last checkpoint of the plan's run, where there is nothing left to do; only read.
fn finished(plan: &TrainPlan) -> Result<Option<Checkpoint>, TrainError> {
    if plan.options.resume != Resume::Auto || !plan.options.out.join(RUN_FILE).is_file() {
        return Ok(None);
    }
    Ok(take_over(plan)?.filter(|checkpoint| checkpoint.step() == plan.train_steps))
}

fn is_not_writable(error: &TrainError) -> bool {
    let TrainError::Io { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Makes the folder, and this process the only one that writes there.
fn lock(out: &Path) -> Result<File, TrainError> {
    fs::create_dir_all(out).map_err(|source| TrainError::io("create", out, source))?;
    let path = out.join(LOCK_FILE);
    let file = open_lock(&path).map_err(|source| TrainError::io("create", &path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(TrainError::RunFolderUsed {
                path: out.to_owned(),
                reason: "another process is training into it".to_owned(),
                remedy: "wait until that one ends, or choose another folder",
            });
        }
        Err(TryLockError::Error(error)) if is_no_locks(&error) => warn!(
            "{}: this file system has no locks ({error}); let no other process train into it",
            out.display()
        ),
        Err(TryLockError::Error(source)) => return Err(TrainError::io("lock", &path, source)),
    }
    Ok(file)
}

/// Opens the lock's file, and makes it where there is none. One that is there may belong to a
/// folder that cannot be written: a lock needs no more than reading.
fn open_lock(path: &Path) -> io::Result<File> {
    match File::options().create(true).append(true).open(path) {
        Err(error) if path.exists() => File::open(path).map_err(|_| error),
        opened => opened,
    }
}

/// Whether `error` says that there are no locks, and not that this one failed.
fn is_no_locks(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}

/// Goes on with the run that the folder holds, or deletes it, as the plan says.
fn take_over(plan: &TrainPlan) -> Result<Option<Checkpoint>, TrainError> {
    let out = &plan.options.out;
    let refuse = |reason| TrainError::RunFolderUsed {
        path: out.clone(),
        reason,
        remedy: "choose another folder, or pass --overwrite to delete that run and begin this one",
    };
    match plan.options.resume {
        Resume::Never => Err(refuse("it holds a run, and resuming is off".to_owned())),
        Resume::Overwrite => {
            delete(out)?;
            begin(plan)
        }
        Resume::Auto => {
            let earlier: RunRecord = read_json(&out.join(RUN_FILE))?;
            if let Some(difference) = earlier.difference(&RunRecord::of(plan).as_read()) {
                return Err(refuse(format!("it holds another run: {difference}")));
            }
            let newest = newest_complete(&out.join(CHECKPOINTS), plan)?;
            if newest.is_none() && fs::metadata(out.join(METRICS_FILE)).is_ok_and(|it| it.len() > 0)
            {
                warn!(
                    "{} logged steps but has no checkpoint: beginning again at step 1, and its logs \
                     with it",
                    out.display()
                );
            }
            Ok(newest)
        }
    }
}

/// Makes the folder a run's, which starts from no checkpoint.
fn begin(plan: &TrainPlan) -> Result<Option<Checkpoint>, TrainError> {
    write_json(&plan.options.out.join(RUN_FILE), &RunRecord::of(plan))?;
    Ok(None)
}

/// Deletes what a run writes, and nothing else; what makes the folder a run's goes last.
fn delete(out: &Path) -> Result<(), TrainError> {
    let checkpoints = out.join(CHECKPOINTS);
    if checkpoints.exists() {
        fs::remove_dir_all(&checkpoints)
            .map_err(|source| TrainError::io("delete", &checkpoints, source))?;
    }
    collective_dump::delete(out).map_err(|source| TrainError::io("delete", out, source))?;
    let events = out.join(TENSORBOARD);
    if events.exists() {
        fs::remove_dir_all(&events).map_err(|source| TrainError::io("delete", &events, source))?;
    }
    for file in [METRICS_FILE, SAMPLES_FILE, TRACE_FILE, RUN_FILE].map(|name| out.join(name)) {
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
            commit: option_env!("PIPELINE_COMMIT").map(str::to_owned),
            command: plan.options.command.clone(),
            config: plan.config.clone(),
            data: plan.data.clone(),
        }
    }

    /// The record as it reads from a file: serde_json may change the last bit of a number on the
    /// way.
    fn as_read(&self) -> Self {
        let json = serde_json::to_vec(self).expect("a record is plain data");
        serde_json::from_slice(&json).expect("what was just written")
    }

    /// The first thing that makes two runs different, in the user's words.
    fn difference(&self, other: &Self) -> Option<String> {
        if let Some(difference) = self.data.difference(&other.data) {
            return Some(difference);
        }
        first_difference("", Some(&self.config), Some(&other.config))
    }
}

/// `optimizer.lr was 0.001 and is 0.002`
fn first_difference(path: &str, earlier: Option<&Value>, now: Option<&Value>) -> Option<String> {
    if earlier == now || FREE.contains(&path) {
        return None;
    }
    if let (Some(Value::Object(earlier)), Some(Value::Object(now))) = (earlier, now) {
        return earlier.keys().chain(now.keys()).find_map(|key| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            first_difference(&path, earlier.get(key), now.get(key))
        });
    }
    let show = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    Some(format!("{path} was {} and is {}", show(earlier), show(now)))
}

/// The newest checkpoint of this run that verifies; broken ones are passed over by name. Where
/// there are some and none verifies, that is an error: to begin again would throw away what the run
/// has logged.
fn newest_complete(checkpoints: &Path, plan: &TrainPlan) -> Result<Option<Checkpoint>, TrainError> {
    if !checkpoints.is_dir() {
        return Ok(None);
    }
    let mut newest_fault = None;
    for (step, folder) in step_folders(checkpoints)? {
        match Checkpoint::open(&folder).and_then(|checkpoint| of_this_run(checkpoint, plan)) {
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

/// The checkpoint, where it stands at a place that this run comes by.
fn of_this_run(checkpoint: Checkpoint, plan: &TrainPlan) -> Result<Checkpoint, TrainError> {
    let found = checkpoint.state();
    for (what, expected, found) in [
        ("seed", plan.seed, found.seed),
        ("samples consumed", plan.samples_consumed(found.step), found.samples_consumed),
    ] {
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            let path = checkpoint.folder().to_owned();
            return Err(TrainError::CheckpointFile { path, what, expected, found });
        }
    }
    Ok(checkpoint)
}

/// Whether `path` is a folder with something in it; what a run leaves that was killed before it
/// began does not count.
fn is_used(path: &Path) -> Result<bool, TrainError> {
    if !path.exists() {
        return Ok(false);
    }
    for entry in path.read_dir().map_err(|source| TrainError::io("list", path, source))? {
        let entry = entry.map_err(|source| TrainError::io("list", path, source))?;
        if entry.file_name() != PARTIAL_RUN_FILE && entry.file_name() != LOCK_FILE {
            return Ok(true);
        }
    }
    Ok(false)
}
