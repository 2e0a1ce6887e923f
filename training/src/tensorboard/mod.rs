//! Event files that TensorBoard reads: `tensorboard/events.out.tfevents.*` in the run folder.
//!
//! A file is a sequence of records ([`record`]), each of which holds one event ([`event`]). Every
//! process that trains begins a file of its own; its second event says from which step on earlier
//! files are void, so that steps which are done again show once.

mod event;
mod record;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use self::event::Event;
use crate::TrainError;
use crate::metrics::{StepMetrics, ValidationMetrics};
use crate::patient_file::PatientFile;

/// Name of the folder in a run folder.
pub(crate) const TENSORBOARD: &str = "tensorboard";

/// What the name of every event file begins with.
const PREFIX: &str = "events.out.tfevents.";

/// Writer of one event file.
#[derive(Debug)]
pub(crate) struct EventFile {
    file: PatientFile,
}

impl EventFile {
    /// Begins a file in the run folder `run`, of a run that goes on after `done_steps` steps.
    ///
    /// # Errors
    ///
    /// When folder or file cannot be made.
    pub(crate) fn create(run: &Path, done_steps: u64) -> Result<Self, TrainError> {
        let folder = run.join(TENSORBOARD);
        fs::create_dir_all(&folder).map_err(|source| TrainError::io("create", &folder, source))?;
        let earlier = Earlier::find(&folder)?;
        // Files are read in the order of their names.
        let seconds = (now() as u64).max(earlier.latest_seconds);
        let path = folder.join(format!("{PREFIX}{seconds:010}.pipeline.{:05}", earlier.count));
        let file = File::options().create_new(true).append(true).open(&path);
        let file = file.map_err(|source| TrainError::io("create", &path, source))?;
        let mut events = Self { file: PatientFile::new(&path, file) };
        events.write(&Event::Version)?;
        if earlier.count > 0 {
            events.write(&Event::Restart { step: done_steps + 1 })?;
        }
        Ok(events)
    }

    /// Writes what is drawn of a step.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn step(&mut self, metrics: &StepMetrics) -> Result<(), TrainError> {
        let scalars = [
            ("loss", Some(metrics.loss)),
            ("grad_norm", Some(metrics.grad_norm)),
            ("learning_rate", Some(metrics.learning_rate)),
            ("loss_scale", metrics.loss_scale),
            ("tokens_per_second", Some(metrics.tokens_per_second)),
        ];
        let scalars = scalars.into_iter().filter_map(|(tag, value)| Some((tag, value?)));
        let scalars = scalars.chain(metrics.losses.iter().map(|(&tag, &value)| (tag, value)));
        self.write(&Event::Scalars { step: metrics.step, scalars: scalars.collect() })
    }

    /// Writes what is drawn of a validation.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn validation(&mut self, metrics: &ValidationMetrics) -> Result<(), TrainError> {
        let others = metrics.others.iter().map(|(&tag, &value)| (tag, value));
        let scalars = [("validation_loss", metrics.validation_loss)].into_iter().chain(others);
        let scalars = scalars.collect();
        self.write(&Event::Scalars { step: metrics.step, scalars })
    }

    fn write(&mut self, event: &Event) -> Result<(), TrainError> {
        self.file.push(&record::framed(&event.encode(now())))
    }
}

/// The files of earlier processes.
#[derive(Debug, Default)]
struct Earlier {
    count: u64,
    latest_seconds: u64,
}

impl Earlier {
    fn find(folder: &Path) -> Result<Self, TrainError> {
        let list_error = |source| TrainError::io("list", folder, source);
        let mut earlier = Self::default();
        for entry in fs::read_dir(folder).map_err(list_error)? {
            let name = entry.map_err(list_error)?.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
                continue;
            };
            let seconds = rest.split('.').next().and_then(|seconds| seconds.parse().ok());
            earlier.count += 1;
            earlier.latest_seconds = earlier.latest_seconds.max(seconds.unwrap_or(0));
        }
        Ok(earlier)
    }
}

/// Deletes the event files of the runs in the run folder `run`, and their folder where nothing else
/// is in it.
///
/// # Errors
///
/// When the folder cannot be listed, or a file not be deleted.
pub(crate) fn delete(run: &Path) -> Result<(), TrainError> {
    let folder = run.join(TENSORBOARD);
    if !folder.is_dir() {
        return Ok(());
    }
    let list = |source| TrainError::io("list", &folder, source);
    for entry in fs::read_dir(&folder).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        let is_own = |name: &str| {
            let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once(".pipeline."));
            rest.is_some_and(|(seconds, count)| [seconds, count].map(is_number) == [true, true])
        };
        if name.to_str().is_some_and(is_own) {
            let path = folder.join(name);
            fs::remove_file(&path).map_err(|source| TrainError::io("delete", &path, source))?;
        }
    }
    match fs::remove_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(TrainError::io("delete", &folder, error))
        }
        _ => Ok(()),
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
