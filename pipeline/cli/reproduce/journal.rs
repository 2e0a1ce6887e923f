//! `reproduce.json`: which parts of a reproduction are done, of what, and what they came to.
//!
//! A part's fingerprint is a hash of everything that its result depends on: its settings, its input
//! files, the program's version, and what the parts before it hand on. That is the content of the
//! text, of the corpus and of the weights, wherever they come from: a text that was touched and is
//! the same leads to nothing. A part is done again when its fingerprint changes or its output is no
//! longer what it wrote, and what it left is removed first: the journal names the files and folders
//! that are the reproduction's own, and nothing else is ever deleted.
//!
//! A text and a corpus on which trainings rest are set aside instead, until it is known whether
//! what comes in their place is the same: only then can be said whether the trainings still hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, anyhow, bail};
use corpus::{CorpusError, Observer, PendingFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::Experiment;
use super::depends::Depends;
use super::outputs::{Fault, OutputFile, fault_of, faults_of};
use crate::exit::Usage;

/// Name of the journal, by which the folder of a reproduction is known.
pub(super) const JOURNAL: &str = "reproduce.json";

/// The form of the file.
const FORMAT: u32 = 2;

/// What the name of an output begins with that is set aside.
const ASIDE: &str = ".aside-";

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
    /// Parts that were done and whose output is set aside, since they have changed.
    #[serde(default)]
    aside: Vec<Entry>,
    /// What [`look`](Self::look) has found wrong with the output of parts, by their keys.
    #[serde(skip)]
    faults: BTreeMap<String, Fault>,
}

/// A part that was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Its key: `train.small`.
    pub(super) part: String,
    /// Hash of what its result depends on, ...
    pub(super) fingerprint: String,
    /// ... which is this.
    pub(super) depends: Depends,
    /// How far it is.
    pub(super) state: State,
    /// Files and folders of its own, relative to the reproduction's.
    pub(super) outputs: Vec<String>,
    /// The files of them without which it is not done, as it left them.
    pub(super) files: Vec<OutputFile>,
    /// Hash of what it hands on to those that need it; `None` where nothing but its fingerprint
    /// tells.
    pub(super) content: Option<String>,
    /// What the libraries have warned of while it was done.
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    /// Wall time spent on it, all interruptions left out, in seconds.
    pub(super) seconds: f64,
    /// The most memory that the process held while it worked on the part, in bytes; `None` where
    /// the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// What it came to; `null` while it is not done.
    pub(super) result: Value,
}

/// What a part came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Made {
    /// For the page, and for people.
    pub(super) result: Value,
    /// The files without which it is not done.
    pub(super) files: Vec<OutputFile>,
    /// Hash of what it hands on, where its fingerprint is not all that tells.
    pub(super) content: Option<String>,
}

/// What a part took until it was done or broken off.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Spent {
    /// Wall time, in seconds.
    pub(super) seconds: f64,
    /// The most memory that the process held, in bytes; `None` where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// What the libraries have warned of.
    pub(super) warnings: Vec<String>,
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
        Self {
            format: FORMAT,
            experiment,
            name: name.to_owned(),
            parts: Vec::new(),
            aside: Vec::new(),
            faults: BTreeMap::new(),
        }
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
                "{}: {fault}: the journal is damaged, or of another version of the program, and \
                 without it nothing in the folder can be told to be whole; so nothing is taken over \
                 or removed, by --overwrite neither.\n  Put {JOURNAL} back from a copy; or move or \
                 remove the folder, or pass --out with another one, to begin again. Its runs can \
                 still be scored: pipeline eval --checkpoint {}",
                path.display(),
                out.join("runs").join("SIZE").display()
            ))
        };
        #[derive(Deserialize)]
        struct Form {
            format: u32,
        }
        let form: Form = serde_json::from_slice(&bytes).map_err(|error| refuse(&error))?;
        if form.format != FORMAT {
            return Err(refuse(&format!("format {}", form.format)).into());
        }
        let journal: Self = serde_json::from_slice(&bytes).map_err(|error| refuse(&error))?;
        for output in journal.entries().flat_map(|entry| &entry.outputs) {
            if !is_within(output) {
                bail!(Usage(anyhow!(
                    "{}: {output:?} is no path within the folder; choose another folder",
                    path.display()
                )));
            }
        }
        Ok(Some(journal))
    }

    /// Holds the output of all parts that are done against what the journal has of it.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read though it is there, or `observer` asks to stop.
    pub(super) fn look(&mut self, out: &Path, observer: &dyn Observer) -> Result<(), CorpusError> {
        let done = self.parts.iter().filter(|entry| entry.state == State::Done);
        let files = done.map(|entry| (entry.part.as_str(), entry.files.as_slice()));
        self.faults = faults_of(files, out, observer)?.into_iter().collect();
        Ok(())
    }

    /// The journal that `now` is, with what was found wrong where it is still the same one.
    pub(super) fn looked_at(&self, now: &Self) -> Option<Self> {
        let is_same = *now == Self { faults: now.faults.clone(), ..self.clone() };
        is_same.then(|| self.clone())
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

    /// What is known of a part whose output is set aside.
    pub(super) fn aside(&self, part: &str) -> Option<&Entry> {
        self.aside.iter().find(|entry| entry.part == part)
    }

    /// All parts that were begun, and those that were set aside.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts.iter().chain(&self.aside)
    }

    /// The part that is done of just this, at its place or set aside.
    pub(super) fn done(&self, part: &str, fingerprint: &str) -> Option<&Entry> {
        let is_it = |entry: &&Entry| entry.state == State::Done && entry.fingerprint == fingerprint;
        let at_its_place = self.entry(part).filter(|_| !self.faults.contains_key(part));
        at_its_place.filter(is_it).or_else(|| self.aside(part).filter(is_it))
    }

    /// What is wrong with the output of a part that is done.
    pub(super) fn fault(&self, part: &str) -> Option<&Fault> {
        self.faults.get(part)
    }

    /// The result of a part that is done.
    pub(super) fn result(&self, part: &str) -> Option<&Value> {
        self.entry(part).filter(|entry| entry.state == State::Done).map(|entry| &entry.result)
    }

    /// Notes that a part begins, or goes on where its fingerprint is the same.
    pub(super) fn begin(&mut self, part: &str, depends: Depends, outputs: Vec<String>) {
        let fingerprint = depends.fingerprint(part);
        let goes_on =
            |entry: &&Entry| entry.state == State::Begun && entry.fingerprint == fingerprint;
        let Spent { seconds, peak_rss_bytes, warnings } = self
            .entry(part)
            .filter(goes_on)
            .map(|entry| Spent {
                seconds: entry.seconds,
                peak_rss_bytes: entry.peak_rss_bytes,
                warnings: entry.warnings.clone(),
            })
            .unwrap_or_default();
        self.forget(part);
        self.parts.push(Entry {
            part: part.to_owned(),
            fingerprint,
            depends,
            state: State::Begun,
            outputs,
            files: Vec::new(),
            content: None,
            warnings,
            seconds,
            peak_rss_bytes,
            result: Value::Null,
        });
    }

    /// Adds what a part took, and what it came to where it is done.
    pub(super) fn note(&mut self, part: &str, spent: Spent, made: Option<Made>) {
        let Some(entry) = self.parts.iter_mut().find(|entry| entry.part == part) else { return };
        entry.seconds += spent.seconds;
        entry.peak_rss_bytes = entry.peak_rss_bytes.max(spent.peak_rss_bytes);
        for warning in spent.warnings {
            if !entry.warnings.contains(&warning) {
                entry.warnings.push(warning);
            }
        }
        if let Some(Made { result, files, content }) = made {
            entry.state = State::Done;
            (entry.result, entry.files, entry.content) = (result, files, content);
        }
    }

    /// Forgets a part; its outputs have to be gone.
    pub(super) fn forget(&mut self, part: &str) {
        self.parts.retain(|entry| entry.part != part);
        self.faults.remove(part);
    }

    /// Renames the output of a part that is done to [`aside_of`] its name. The journal is written
    /// first, so that whatever comes between, [`settle`](Self::settle) finds what to do.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be written to.
    pub(super) fn set_aside(&mut self, part: &str, out: &Path) -> anyhow::Result<()> {
        let Some(entry) = self.entry(part).cloned() else { return Ok(()) };
        self.forget(part);
        self.aside.push(entry.moved(aside_of));
        self.write(out)?;
        for output in &entry.outputs {
            rename(&out.join(output), &out.join(aside_of(output)))?;
        }
        Ok(())
    }

    /// Puts back what was set aside of a part, in place of what is there; nothing where it is not
    /// what it was.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be written to, or `observer` asks to stop.
    pub(super) fn put_back(
        &mut self,
        part: &str,
        out: &Path,
        observer: &dyn Observer,
    ) -> anyhow::Result<bool> {
        let Some(aside) = self.aside(part).cloned() else { return Ok(false) };
        if fault_of(&aside.files, out, observer)?.is_some() {
            return Ok(false);
        }
        if let Some(entry) = self.entry(part) {
            entry.remove_outputs(out)?;
            self.forget(part);
            self.write(out)?;
        }
        for output in &aside.outputs {
            rename(&out.join(output), &out.join(in_place_of(output)))?;
        }
        self.aside.retain(|entry| entry.part != part);
        self.parts.push(aside.moved(in_place_of));
        self.write(out)?;
        Ok(true)
    }

    /// Finishes the setting aside, or the putting back, in which a process has died.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be written to.
    pub(super) fn settle(&self, out: &Path) -> anyhow::Result<()> {
        for entry in self.aside.iter().filter(|entry| self.entry(&entry.part).is_none()) {
            for output in &entry.outputs {
                if !out.join(output).exists() {
                    rename(&out.join(in_place_of(output)), &out.join(output))?;
                }
            }
        }
        Ok(())
    }

    /// Removes what is set aside.
    ///
    /// # Errors
    ///
    /// Where something cannot be deleted.
    pub(super) fn drop_aside(&mut self, out: &Path) -> anyhow::Result<()> {
        if self.aside.is_empty() {
            return Ok(());
        }
        for entry in &self.aside {
            entry.remove_outputs(out)?;
        }
        self.aside.clear();
        self.write(out)
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

    /// The entry of a part whose outputs have other names.
    fn moved(&self, name: impl Fn(&str) -> String) -> Self {
        let mut entry = self.clone();
        for file in &mut entry.files {
            if let Some((folder, rest)) = file.path.split_once('/') {
                file.path = format!("{}/{rest}", name(folder));
            }
        }
        entry.outputs = entry.outputs.iter().map(|output| name(output)).collect();
        entry
    }
}

/// What an output is called while it is set aside: hidden.
pub(super) fn aside_of(output: &str) -> String {
    format!("{ASIDE}{output}")
}

/// The name of which [`aside_of`] made `aside`.
fn in_place_of(aside: &str) -> String {
    aside.strip_prefix(ASIDE).unwrap_or(aside).to_owned()
}

/// Renames what is there; what is not there stays so.
fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(from).is_err() {
        return Ok(());
    }
    fs::rename(from, to)
        .with_context(|| format!("cannot rename {} to {}", from.display(), to.display()))
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
