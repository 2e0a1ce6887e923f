//! `run.json`: what a run is, and what was changed of it while it went.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Look;
use crate::TrainError;
use crate::checkpoint::{Checkpoint, CheckpointError, InitRecord};
use crate::data::DataRecord;
use crate::plan::TrainPlan;

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

/// Sections whose values may change where that is asked for.
const SCHEDULE: [&str; 3] = ["schedule.", "optimizer.", "finetune.race."];

/// `run.json`
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// Version of this crate.
    version: String,
    /// The commit that the program was built from, where the build was told.
    #[serde(default)]
    commit: Option<String>,
    /// The command line that began the run.
    #[serde(default)]
    command: Vec<String>,
    /// The resolved configuration, as last changed.
    config: Value,
    /// What the samples depend on.
    pub(super) data: DataRecord,
    /// The weights that the run began with, where a seed did not draw them.
    #[serde(default)]
    pub(super) init_from: Option<InitRecord>,
    /// The other folder's checkpoint that the run goes on from.
    #[serde(default)]
    pub(super) resumed_from: Option<Origin>,
    /// The checkpoint of its own that the run last went back to.
    #[serde(default)]
    pub(super) rewound_to: Option<Origin>,
    /// What was changed, in order.
    #[serde(default)]
    history: Vec<Change>,
}

/// A checkpoint that a run went on from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Its folder.
    path: String,
    /// Optimizer steps done there.
    pub(super) step: u64,
    /// Names and hashes of its files.
    fingerprint: String,
}

/// Values that were changed between two parts of a run.
#[derive(Debug, Serialize, Deserialize)]
struct Change {
    /// Optimizer steps that were done before.
    step: u64,
    changes: Vec<Difference>,
    /// Version of this crate that went on.
    version: String,
}

/// `optimizer.lr was 0.001 and is 0.002`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Difference {
    key: String,
    was: Option<Value>,
    is: Option<Value>,
}

impl RunRecord {
    pub(super) fn of(plan: &TrainPlan) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("PIPELINE_COMMIT").map(str::to_owned),
            command: plan.options.command.clone(),
            config: plan.config.clone(),
            data: plan.data.clone(),
            init_from: plan.init_from.as_ref().map(|weights| weights.record().clone()),
            resumed_from: None,
            rewound_to: None,
            history: Vec::new(),
        }
    }

    /// The record as it reads from a file: serde_json may change the last bit of a number on the
    /// way.
    pub(super) fn as_read(&self) -> Self {
        let json = serde_json::to_vec(self).expect("a record is plain data");
        serde_json::from_slice(&json).expect("what was just written")
    }

    /// Everything in the configurations that makes two runs different.
    pub(super) fn differences(&self, other: &Self) -> Vec<Difference> {
        differences(&self.config, &other.config)
    }

    /// Notes that the run goes on from `checkpoint`, and what the plan changes of it.
    pub(super) fn begin_at(
        &mut self,
        checkpoint: &Checkpoint,
        plan: &TrainPlan,
    ) -> Result<(), TrainError> {
        self.init_from = checkpoint.manifest().init_from.clone();
        self.resumed_from = Some(Origin::of(checkpoint)?);
        let changes = differences(&checkpoint.train_config()?, &self.as_read().config);
        if !changes.is_empty() {
            self.change(plan, checkpoint.step(), changes);
        }
        Ok(())
    }

    /// Notes that from step `step` on the run is as `plan` says.
    pub(super) fn change(&mut self, plan: &TrainPlan, step: u64, changes: Vec<Difference>) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.config = plan.config.clone();
        self.history.push(Change { step, changes, version });
    }
}

impl Origin {
    pub(super) fn of(checkpoint: &Checkpoint) -> Result<Self, TrainError> {
        let folder = checkpoint.folder();
        let path = std::path::absolute(folder)
            .map_err(|source| TrainError::io("resolve", folder, source))?;
        Ok(Self {
            path: path.display().to_string(),
            step: checkpoint.step(),
            fingerprint: fingerprint(checkpoint),
        })
    }

    /// Whether it is this checkpoint, wherever that lies now.
    pub(super) fn is(&self, checkpoint: &Checkpoint) -> bool {
        self.fingerprint == fingerprint(checkpoint)
    }

    /// Opens the checkpoint where it was.
    pub(super) fn open(&self, look: Look<'_>) -> Result<Checkpoint, TrainError> {
        let path = Path::new(&self.path);
        let checkpoint = super::adoption::open(path, look)?;
        if self.is(&checkpoint) {
            return Ok(checkpoint);
        }
        Err(CheckpointError::CheckpointDiffers {
            path: path.to_owned(),
            difference: "it is not the checkpoint any more that the run began with".to_owned(),
            remedy: "name that one with --resume PATH",
        }
        .into())
    }
}

fn fingerprint(checkpoint: &Checkpoint) -> String {
    let files = checkpoint.manifest().files.iter();
    files.map(|file| format!("{} {}", file.name, file.xxh3_128)).collect::<Vec<_>>().join(", ")
}

impl Difference {
    /// Whether it is one of the values that `--override-schedule` may change.
    pub(super) fn is_schedule(&self) -> bool {
        SCHEDULE.iter().any(|section| self.key.starts_with(section))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), Value::to_string);
        write!(formatter, "{} was {} and is {}", self.key, show(&self.was), show(&self.is))
    }
}

/// What differs between two configurations and may change a result.
pub(super) fn differences(earlier: &Value, now: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", Some(earlier), Some(now), &mut found);
    found
}

fn collect(path: &str, earlier: Option<&Value>, now: Option<&Value>, found: &mut Vec<Difference>) {
    if earlier == now || FREE.contains(&path) {
        return;
    }
    if let (Some(Value::Object(earlier)), Some(Value::Object(now))) = (earlier, now) {
        let new = now.keys().filter(|key| !earlier.contains_key(*key));
        for key in earlier.keys().chain(new) {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect(&path, earlier.get(key), now.get(key), found);
        }
        return;
    }
    found.push(Difference { key: path.to_owned(), was: earlier.cloned(), is: now.cloned() });
}
