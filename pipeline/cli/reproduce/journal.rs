//! `reproduce.json`: which parts of a reproduction are done, of what, and what they came to.
//!
//! A part's fingerprint is a hash of everything that its result depends on: its settings, its input
//! files, the program's version, and the fingerprints of the parts before it. A part is done again
//! when that changes or its output is gone, and what it left is removed first: the journal names the
//! files and folders that are the reproduction's own, and nothing else is ever deleted.

use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, anyhow, bail};
use corpus::PendingFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Experiment;
use crate::exit::Usage;

/// Name of the journal, by which the folder of a reproduction is known.
pub(super) const JOURNAL: &str = "reproduce.json";

/// The form of the file.
const FORMAT: u32 = 1;

/// What was done in a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    format: u32,
    /// Which experiment the folder is for; another one is refused.
    pub(super) experiment: Experiment,
    /// Name of its configuration.
    pub(super) name: String,
    /// The parts that were begun, in the order in which they were.
    parts: Vec<Entry>,
}

/// A part that was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Its key: `train.small`.
    pub(super) part: String,
    /// Hash of what its result depends on.
    pub(super) fingerprint: String,
    /// How far it is.
    pub(super) state: State,
    /// Files and folders of its own, relative to the reproduction's.
    pub(super) outputs: Vec<String>,
    /// Wall time spent on it, all interruptions left out, in seconds.
    pub(super) seconds: f64,
    /// The most memory that the process held while it worked on the part, in bytes; `None` where
    /// the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// What it came to; `null` while it is not done.
    pub(super) result: Value,
}

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Begun, and perhaps broken off.
    Begun,
    /// Done.
    Done,
}

impl Journal {
    pub(super) fn new(experiment: Experiment, name: &str) -> Self {
        Self { format: FORMAT, experiment, name: name.to_owned(), parts: Vec::new() }
    }

    /// The journal in the folder `out`, if there is one.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub(super) fn read(out: &Path) -> anyhow::Result<Option<Self>> {
        let path = out.join(JOURNAL);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let refuse = |fault: &dyn std::fmt::Display| {
            Usage(anyhow!(
                "{}: {fault}: it is no journal of this version of the program; choose another \
                 folder",
                path.display()
            ))
        };
        let journal: Self = serde_json::from_slice(&bytes).map_err(|error| refuse(&error))?;
        if journal.format != FORMAT {
            return Err(refuse(&format!("format {}", journal.format)).into());
        }
        for output in journal.parts.iter().flat_map(|entry| &entry.outputs) {
            if !is_within(output) {
                bail!(Usage(anyhow!(
                    "{}: {output:?} is no path within the folder; choose another folder",
                    path.display()
                )));
            }
        }
        Ok(Some(journal))
    }

    /// Writes the journal into the folder `out`, whole or not at all.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub(super) fn write(&self, out: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("cannot write the journal")?;
        let mut file = PendingFile::replace(&out.join(JOURNAL))?;
        file.write(|file| writeln!(file, "{text}"))?;
        file.sync()?;
        Ok(file.commit()?)
    }

    /// What is known of a part.
    pub(super) fn entry(&self, part: &str) -> Option<&Entry> {
        self.parts.iter().find(|entry| entry.part == part)
    }

    /// All parts that were begun.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.parts
    }

    /// The result of a part that is done.
    pub(super) fn result(&self, part: &str) -> Option<&Value> {
        self.entry(part).filter(|entry| entry.state == State::Done).map(|entry| &entry.result)
    }

    /// Notes that a part begins, or goes on where its fingerprint is the same.
    pub(super) fn begin(&mut self, part: &str, fingerprint: &str, outputs: Vec<String>) {
        let goes_on =
            |entry: &&Entry| entry.state == State::Begun && entry.fingerprint == fingerprint;
        let (seconds, peak_rss_bytes) = self
            .entry(part)
            .filter(goes_on)
            .map_or((0.0, None), |entry| (entry.seconds, entry.peak_rss_bytes));
        self.forget(part);
        self.parts.push(Entry {
            part: part.to_owned(),
            fingerprint: fingerprint.to_owned(),
            state: State::Begun,
            outputs,
            seconds,
            peak_rss_bytes,
            result: Value::Null,
        });
    }

    /// Adds what a part took, and its result where it is done.
    pub(super) fn note(
        &mut self,
        part: &str,
        seconds: f64,
        peak_rss_bytes: Option<u64>,
        result: Option<Value>,
    ) {
        let Some(entry) = self.parts.iter_mut().find(|entry| entry.part == part) else { return };
        entry.seconds += seconds;
        entry.peak_rss_bytes = entry.peak_rss_bytes.max(peak_rss_bytes);
        if let Some(result) = result {
            entry.state = State::Done;
            entry.result = result;
        }
    }

    /// Forgets a part; its outputs have to be gone.
    pub(super) fn forget(&mut self, part: &str) {
        self.parts.retain(|entry| entry.part != part);
    }
}

impl Entry {
    /// Deletes what the part has left in the folder `out`.
    ///
    /// # Errors
    ///
    /// Where something cannot be deleted.
    pub(super) fn remove_outputs(&self, out: &Path) -> anyhow::Result<()> {
        for path in self.outputs.iter().map(|output| out.join(output)) {
            remove(&path)?;
        }
        Ok(())
    }
}

/// Whether a path stays below the folder it is relative to.
fn is_within(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some() && components.all(|it| matches!(it, Component::Normal(_)))
}

/// Deletes a file or a folder; a link is deleted, and not what it leads to.
fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}
