//! The run folder: who may write there, and from where an earlier run goes on.
//!
//! A folder belongs to one run: the same resolved configuration on the same data. Such a run is
//! resumed from its newest complete checkpoint, or from the one that is asked for; any other folder
//! with something in it is refused, never overwritten. What changes no result beyond rounding or no
//! result at all may differ: how many ranks there are, what one forward pass sees, and when to
//! validate and to save. Schedule and optimizer may change where that is asked for; the folder
//! remembers it. One process at a time has the folder: it holds a lock, which ends with it however
//! it ends.

mod adoption;
mod record;

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;
use std::time::Duration;

use corpus::Observer;
use tracing::{info, warn};

use self::record::{Difference, Origin, RunRecord};
use crate::TrainError;
use crate::checkpoint::{
    CHECKPOINTS, Checkpoint, CheckpointError, InitRecord, Newest, RunCheckpoints, delete_all,
    read_json, step_folders, write_json,
};
use crate::collective_dump;
use crate::collective_trace::TRACE_FILE;
use crate::metrics::{METRICS_FILE, SAMPLES_FILE};
use crate::plan::{Resume, TrainPlan};
use crate::tensorboard;

/// Name of the file by which a run folder is known.
const RUN_FILE: &str = "run.json";
const PARTIAL_RUN_FILE: &str = ".run.json.partial";
/// Name of the file that the process which trains holds a lock on. It stays when the run is over:
/// who deletes it could delete the next one's.
const LOCK_FILE: &str = ".lock";

/// Name of the run's copy of the data's tokenizer, where that has a file.
const TOKENIZER_FILE: &str = "tokenizer.json";

/// Linux's number for "no locks available", which the standard library has no kind for.
const ENOLCK: i32 = 37;

/// A run folder that no other process trains into for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RunFolder {
    /// The checkpoint to go on from; `None` for a run that starts.
    pub(crate) resumed: Option<Checkpoint>,
    /// The weights that the run began with, where a seed did not draw them.
    pub(crate) init_from: Option<InitRecord>,
    /// `None` where nothing can be written and nothing has to be.
    _lock: Option<File>,
}

/// Makes the run folder, or finds where the run in it stands.
///
/// # Errors
///
/// When the folder holds anything but this run, or this run and the plan says not to resume, or
/// another process has it; [`TrainError::Stopped`] when the observer asks to stop while a checkpoint
/// is read.
pub(crate) fn prepare(plan: &TrainPlan, observer: &dyn Observer) -> Result<RunFolder, TrainError> {
    let out = &plan.options.out;
    if is_used(out)? && !out.join(RUN_FILE).is_file() {
        let has_checkpoints =
            step_folders(&out.join(CHECKPOINTS)).is_ok_and(|folders| !folders.is_empty());
        let (reason, remedy) = match has_checkpoints {
            true => (
                "it has checkpoints and no run.json",
                "choose another folder, and go on from them with --resume and this one",
            ),
            false => ("it holds no run that could be resumed", "choose another folder"),
        };
        let reason = reason.to_owned();
        return Err(TrainError::RunFolderUsed { path: out.clone(), reason, remedy });
    }
    match lock(out) {
        Ok(lock) => {
            let has_run = out.join(RUN_FILE).is_file();
            let look = Look { plan, observer, may_write: true };
            let resumed = if has_run { take_over(look)? } else { begin(look)? };
            let record: RunRecord = read_json(&out.join(RUN_FILE))?;
            Ok(RunFolder { resumed, init_from: record.init_from, _lock: Some(lock) })
        }
        Err(error) if is_not_writable(&error) => match finished(plan, observer)? {
            Some(checkpoint) => {
                Ok(RunFolder { resumed: Some(checkpoint), init_from: None, _lock: None })
            }
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// What is looked for in the run folder, and how.
#[derive(Clone, Copy)]
struct Look<'a> {
    plan: &'a TrainPlan,
    /// Hears how far the reading of checkpoints is, and may stop it.
    observer: &'a dyn Observer,
    /// Whether the folder is this process's to write in.
    may_write: bool,
}

/// The last checkpoint of the plan's run, where there is nothing left to do; only read.
fn finished(plan: &TrainPlan, observer: &dyn Observer) -> Result<Option<Checkpoint>, TrainError> {
    if plan.options.resume != Resume::Auto || !plan.options.out.join(RUN_FILE).is_file() {
        return Ok(None);
    }
    let look = Look { plan, observer, may_write: false };
    Ok(take_over(look)?.filter(|checkpoint| checkpoint.step() == plan.train_steps))
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
    match try_lock_patiently(&file) {
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

/// Locks a file, and tries again for a moment where it is locked: a process that this one is just
/// starting holds its locks too, until it runs its own program.
fn try_lock_patiently(file: &File) -> Result<(), TryLockError> {
    const ATTEMPTS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(50);
    for _ in 1..ATTEMPTS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    file.try_lock()
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
fn take_over(look: Look<'_>) -> Result<Option<Checkpoint>, TrainError> {
    let plan = look.plan;
    let out = &plan.options.out;
    if plan.options.resume == Resume::Overwrite {
        delete(out)?;
        return begin(look);
    }
    if plan.options.resume == Resume::Never {
        return Err(refusal(plan, "it holds a run, and resuming is off".to_owned()));
    }
    let mut earlier: RunRecord = read_json(&out.join(RUN_FILE))?;
    let changes = accepted_changes(plan, &earlier)?;
    let resumed = match &plan.options.resume {
        Resume::From(path) => match adoption::own_checkpoint(path, out) {
            Some(folder) => rewind(look, &folder, &mut earlier)?,
            None if adoption::is_the_run(path, out) => newest(look, &earlier)?,
            None => {
                let origin = adoption::open(path, look)?;
                if earlier.resumed_from.as_ref().is_none_or(|earlier| !earlier.is(&origin)) {
                    let path = path.display();
                    let reason = format!("it holds a run that did not begin at {path}");
                    return Err(refusal(plan, reason));
                }
                newest(look, &earlier)?
            }
        },
        _ => newest(look, &earlier)?,
    };
    let step = resumed.as_ref().map_or(0, Checkpoint::step);
    check_step(plan, resumed.as_ref())?;
    if !changes.is_empty() {
        for change in &changes {
            warn!("--override-schedule: {change}, from step {} on", step + 1);
        }
        earlier.change(plan, step, changes);
        write_json(&out.join(RUN_FILE), &earlier)?;
    }
    if let Some(checkpoint) = &resumed {
        info!(step, "resuming from {}", checkpoint.folder().display());
    }
    Ok(resumed)
}

fn refusal(plan: &TrainPlan, reason: String) -> TrainError {
    TrainError::RunFolderUsed {
        path: plan.options.out.clone(),
        reason,
        remedy: "choose another folder, or pass --overwrite to delete that run and begin this one",
    }
}

/// What the plan changes of the run that `earlier` describes: nothing, or schedule and optimizer
/// where that is asked for.
fn accepted_changes(plan: &TrainPlan, earlier: &RunRecord) -> Result<Vec<Difference>, TrainError> {
    let now = RunRecord::of(plan).as_read();
    if let Some(difference) = earlier.data.difference(&now.data) {
        return Err(refusal(plan, format!("it holds another run: {difference}")));
    }
    if let Some(difference) = other_weights(earlier.init_from.as_ref(), plan) {
        return Err(refusal(plan, format!("it holds another run: {difference}")));
    }
    let differences = earlier.differences(&now);
    let asked_for = plan.options.override_schedule;
    match differences.iter().find(|it| !(asked_for && it.is_schedule())) {
        None => Ok(differences),
        Some(difference) if difference.is_schedule() => Err(TrainError::RunFolderUsed {
            path: plan.options.out.clone(),
            reason: format!("it holds another run: {difference}"),
            remedy: "choose another folder, pass --override-schedule to go on with the new value, \
                     or pass --overwrite to delete that run and begin this one",
        }),
        Some(difference) => Err(refusal(plan, format!("it holds another run: {difference}"))),
    }
}

/// Why a run that began with `earlier` is not the plan's: it names others. One that names none goes
/// on with what there is.
fn other_weights(earlier: Option<&InitRecord>, plan: &TrainPlan) -> Option<String> {
    let now = plan.init_from.as_ref()?.record();
    if earlier.is_some_and(|earlier| earlier.fingerprint == now.fingerprint) {
        return None;
    }
    let earlier = earlier.map_or("a seed", |earlier| &earlier.path);
    Some(format!("it began with the weights of {earlier}, not with those of {}", now.path))
}

/// The newest complete checkpoint of the run; where it began with another run's and has none of its
/// own yet, that one. What it passes over is set aside.
fn newest(look: Look<'_>, record: &RunRecord) -> Result<Option<Checkpoint>, TrainError> {
    let Look { plan, observer, may_write } = look;
    let out = &plan.options.out;
    let folder = &out.join(CHECKPOINTS);
    let found = Checkpoint::newest_complete(folder, observer, |it| of_this_run(it, plan))?;
    if let Some(Newest { checkpoint, passed_over }) = found {
        if may_write {
            RunCheckpoints { folder }.set_aside(&passed_over)?;
        }
        return Ok(Some(checkpoint));
    }
    if let Some(origin) = &record.resumed_from {
        return adoption::adopt(&origin.open(look)?, look).map(Some);
    }
    if record.init_from.is_some() && plan.init_from.is_none() {
        return Err(refusal(
            plan,
            "it holds a run that has no checkpoint yet and began with --init-from".to_owned(),
        ));
    }
    if fs::metadata(out.join(METRICS_FILE)).is_ok_and(|it| it.len() > 0) {
        warn!(
            "{} logged steps but has no checkpoint: beginning again at step 1, and its logs with it",
            out.display()
        );
    }
    Ok(None)
}

/// Goes back to the checkpoint `folder` of the run itself. Later ones are set aside, for the steps
/// after this one are done again. The run remembers it: asked for once more, as by a command that is
/// repeated after it was stopped, it goes on from where it has come since.
fn rewind(
    look: Look<'_>,
    folder: &Path,
    record: &mut RunRecord,
) -> Result<Option<Checkpoint>, TrainError> {
    let Look { plan, observer, .. } = look;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let earlier = record.rewound_to.as_ref();
    if !folder.exists() && earlier.is_some_and(|earlier| name == format!("step-{}", earlier.step)) {
        // Newer ones have taken its place.
        return newest(look, record);
    }
    let checkpoint = Checkpoint::open_observed(folder, observer)?;
    if earlier.is_some_and(|earlier| earlier.is(&checkpoint)) {
        let found = newest(look, record)?;
        if let Some(newest) = found.as_ref().filter(|newest| newest.step() > checkpoint.step()) {
            info!(
                "the run has gone back to step {} before and goes on from step {}; to go back once \
                 more, move the later checkpoints away",
                checkpoint.step(),
                newest.step()
            );
        }
        return Ok(found);
    }
    if name != format!("step-{}", checkpoint.step()) {
        return Err(CheckpointError::CheckpointDiffers {
            path: folder.to_owned(),
            difference: "it is set aside".to_owned(),
            remedy: "give it the name step-N of its step, once the one of that name is moved away",
        }
        .into());
    }
    of_this_run(&checkpoint, plan)?;
    check_step(plan, Some(&checkpoint))?;
    adoption::set_aside_later(&plan.options.out.join(CHECKPOINTS), checkpoint.step())?;
    // After that: a death in between has it done again.
    record.rewound_to = Some(Origin::of(&checkpoint)?);
    write_json(&plan.options.out.join(RUN_FILE), record)?;
    Ok(Some(checkpoint))
}

/// Makes the folder a run's, which starts from no checkpoint or from one of another folder.
fn begin(look: Look<'_>) -> Result<Option<Checkpoint>, TrainError> {
    let plan = look.plan;
    let path = plan.options.out.join(RUN_FILE);
    let mut record = RunRecord::of(plan);
    let Resume::From(from) = &plan.options.resume else {
        write_json(&path, &record)?;
        return Ok(None);
    };
    let origin = adoption::open(from, look)?;
    record.begin_at(&origin, plan)?;
    write_json(&path, &record)?;
    adoption::adopt(&origin, look).map(Some)
}

/// Steps that the run in the folder `out` had behind it when it began there: more than none where it
/// goes on from another folder's checkpoint. Its logs begin after them.
pub(crate) fn steps_before(out: &Path) -> u64 {
    let record = read_json::<RunRecord>(&out.join(RUN_FILE));
    record.ok().and_then(|it| it.resumed_from).map_or(0, |origin| origin.step)
}

/// Deletes what a run writes, and nothing else; what makes the folder a run's goes last.
fn delete(out: &Path) -> Result<(), TrainError> {
    delete_all(&out.join(CHECKPOINTS))?;
    collective_dump::delete(out).map_err(|source| TrainError::io("delete", out, source))?;
    tensorboard::delete(out)?;
    delete_diagnoses(out).map_err(|source| TrainError::io("delete", out, source))?;
    let files = [METRICS_FILE, SAMPLES_FILE, TRACE_FILE, TOKENIZER_FILE, RUN_FILE];
    for file in files.map(|name| out.join(name)) {
        if file.exists() {
            fs::remove_file(&file).map_err(|source| TrainError::io("delete", &file, source))?;
        }
    }
    Ok(())
}

/// Deletes the files `non-finite-step-N.json` of a run folder.
fn delete_diagnoses(out: &Path) -> io::Result<()> {
    for entry in fs::read_dir(out)? {
        let name = entry?.file_name();
        let step = name.to_str().and_then(|name| {
            name.strip_prefix("non-finite-step-")?.strip_suffix(".json")?.parse::<u64>().ok()
        });
        if step.is_some() {
            fs::remove_file(out.join(&name))?;
        }
    }
    Ok(())
}

/// Demands that the run has not passed its last step.
fn check_step(plan: &TrainPlan, resumed: Option<&Checkpoint>) -> Result<(), TrainError> {
    match resumed {
        Some(checkpoint) if checkpoint.step() > plan.train_steps => {
            Err(CheckpointError::BehindLastStep {
                path: checkpoint.folder().to_owned(),
                step: checkpoint.step(),
                train_steps: plan.train_steps,
            }
            .into())
        }
        _ => Ok(()),
    }
}

/// Demands that the checkpoint is of the plan's model and vocabulary, and stands at a place that
/// this run comes by.
fn of_this_run(checkpoint: &Checkpoint, plan: &TrainPlan) -> Result<(), TrainError> {
    let differs = |difference| {
        TrainError::from(CheckpointError::CheckpointDiffers {
            path: checkpoint.folder().to_owned(),
            difference,
            remedy: "move it away, or go on with the configuration and data that it was trained with",
        })
    };
    let differences = plan.architecture.differences(checkpoint.architecture());
    if !differences.is_empty() {
        return Err(differs(format!("another model: {}", differences.join(", "))));
    }
    let tokenizer = checkpoint.tokenizer()?;
    if tokenizer.fingerprint != plan.tokenizer.fingerprint {
        let (theirs, ours) = (&tokenizer.name, &plan.tokenizer.name);
        return Err(differs(format!("its tokenizer is {theirs}, and the data's is {ours}")));
    }
    let found = checkpoint.state()?;
    for (what, expected, found) in [
        ("seed", plan.seed, found.seed),
        ("samples consumed", plan.samples_consumed(found.step), found.samples_consumed),
    ] {
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            let path = checkpoint.folder().to_owned();
            return Err(CheckpointError::CheckpointFile { path, what, expected, found }.into());
        }
    }
    Ok(())
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
