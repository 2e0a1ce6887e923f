//! The folder of a reproduction: what lies where in it, and who may write there.
//!
//! ```text
//! OUT/reproduce.json      the journal: which parts are done, of what
//! OUT/text/               documents and held-out test sets, where the text is the machine's
//! OUT/data/               the curated corpus
//! OUT/contamination.json  overlap of the test sets with the corpus before and after
//! OUT/runs/SIZE/          a training run
//! OUT/eval/SIZE.TASK.json a score
//! OUT/finetuned/SIZE/seed-N/  a fine-tuning run
//! OUT/race/SIZE/seed-N.SPLIT.json, .items.jsonl   its score on RACE, and what it answered
//! OUT/report.json, EXPERIMENT.csv, EXPERIMENT.html   the result
//! OUT/.aside-text, .aside-data   those of before, until it is known whether trainings still hold
//! ```

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::Observer;
use tracing::warn;

use super::config::ReproduceConfig;
use super::journal::{JOURNAL, Journal};
use super::parts::{CONTAMINATION_FILE, DATA, REPORT_FILE, TEXT};
use crate::exit::Usage;

/// Name of the file that a process holds a lock on while it works in the folder. It stays: who
/// deletes it could delete the next one's.
const LOCK_FILE: &str = ".lock";

/// A journal that was being written when its process died.
const PARTIAL_JOURNAL: &str = ".reproduce.json.partial";

/// A folder that no other process reproduces into for as long as this value lives.
#[derive(Debug)]
pub(super) struct OutFolder {
    path: PathBuf,
    _lock: File,
}

impl OutFolder {
    /// Makes the folder, or opens one that holds this experiment, with what was done in it.
    ///
    /// With `overwrite` the outputs of an earlier reproduction, whichever it was, are removed.
    /// `seen` is the journal as it was found before: where it is still the same, what was found
    /// wrong with the outputs is too.
    ///
    /// # Errors
    ///
    /// Where the folder holds something else, or another process works in it.
    pub(super) fn open(
        path: &Path,
        name: &str,
        config: &ReproduceConfig,
        overwrite: bool,
        seen: &Journal,
        observer: &dyn Observer,
    ) -> anyhow::Result<(Self, Journal)> {
        check(path, name, config, overwrite)?;
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = lock(path)?;
        // Another process may have begun one since.
        let journal = check(path, name, config, overwrite)?;
        let folder = Self { path: path.to_owned(), _lock: lock };
        let journal = match journal {
            Some(earlier) if overwrite => {
                for entry in earlier.entries() {
                    entry.remove_outputs(path)?;
                }
                Journal::new(config.experiment, name)
            }
            Some(mut journal) => match seen.looked_at(&journal) {
                Some(seen) => seen,
                None => {
                    journal.look(path, observer)?;
                    journal
                }
            },
            None => Journal::new(config.experiment, name),
        };
        journal.write(path)?;
        Ok((folder, journal))
    }

    /// The folder's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The journal of the folder at `path`, if it has one and it is of this experiment.
///
/// # Errors
///
/// Where the folder holds something else.
pub(super) fn check(
    path: &Path,
    name: &str,
    config: &ReproduceConfig,
    overwrite: bool,
) -> anyhow::Result<Option<Journal>> {
    let journal = Journal::read(path)?;
    match &journal {
        None if is_used(path)? => bail!(Usage(stranger(path))),
        Some(journal)
            if !overwrite
                && (journal.experiment, journal.name.as_str()) != (config.experiment, name) =>
        {
            bail!(Usage(anyhow!(
                "{} holds the reproduction {}, not {name}: pass --out with another folder, or \
                 --overwrite to remove what that one made",
                path.display(),
                journal.name
            )))
        }
        _ => Ok(journal),
    }
}

/// Why a folder without a journal is refused, and what can be done.
fn stranger(path: &Path) -> anyhow::Error {
    let shown = path.display();
    let own = [DATA, TEXT, "runs", "eval", "finetuned", "race", CONTAMINATION_FILE, REPORT_FILE];
    let own: Vec<_> = own.into_iter().filter(|name| path.join(name).exists()).collect();
    // One of these names alone may be anybody's.
    if own.len() < 2 {
        return anyhow!(
            "{shown} holds something else than a reproduction: pass --out with another folder"
        );
    }
    anyhow!(
        "{shown} looks like a reproduction ({}) that has lost {JOURNAL}, without which nothing in \
         it can be told to be whole, nor to be of these settings; so nothing is taken over or \
         removed, by --overwrite neither.\n  \
         Put {JOURNAL} back from a copy; or move or remove the folder, or pass --out with another \
         one, to begin again. Its runs can still be scored: pipeline eval --checkpoint {shown}/runs/SIZE",
        own.join(", ")
    )
}

/// Whether `path` is there with something in it that a killed start does not leave.
fn is_used(path: &Path) -> anyhow::Result<bool> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(false);
    }
    if !path.is_dir() {
        bail!(Usage(anyhow!("--out {} is no folder: choose another", path.display())));
    }
    let cannot = || format!("cannot list {}", path.display());
    let entries = fs::read_dir(path).with_context(cannot).map_err(Usage)?;
    for entry in entries {
        let name = entry.with_context(cannot)?.file_name();
        if ![LOCK_FILE, PARTIAL_JOURNAL, JOURNAL].iter().any(|own| name == *own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes this process the only one that works in the folder.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK_FILE);
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!(Usage(anyhow!(
            "another process is reproducing into {}: wait until it ends, or pass --out with \
             another folder",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => warn!(
            "{}: cannot lock it ({error}); let no other process reproduce into it",
            folder.display()
        ),
    }
    Ok(file)
}
