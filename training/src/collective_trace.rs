//! `collectives.json`: what each rank exchanged in each step, counted by name.
//!
//! One JSON array with an entry on each line, for every step and rank: `{"step": 1, "rank": 0,
//! "collectives": {"layer.mlp.g": {"calls": 2, "numbers": 4096, "bytes": 16384}, …}}`. The array is
//! closed after every step, so that the file of a run that goes on can be read too, and no step is
//! held in memory; a run at full length makes a large file, some 600 bytes for each step and rank.
//! A step is what it takes to update the weights: validation and checkpoints are not in it. Where it
//! has several micro-batches, `stop` is in it, a number before each but the first and one at the end:
//! whether to leave. A group of one rank exchanges nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::parallel::collective::CallTotals;
use crate::plan::TrainPlan;

/// Name of the file in a run folder.
pub(crate) const TRACE_FILE: &str = "collectives.json";

/// What stands before the first entry and after the last.
const OPENING: &str = "[\n";
const CLOSING: &str = "\n]\n";
const SEPARATOR: &str = ",\n";

/// Writer of the file, which all ranks share.
#[derive(Debug)]
pub(crate) struct CollectiveTrace {
    path: PathBuf,
    num_ranks: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Where the next entry goes, and whether one stands before it.
    end: u64,
    has_entries: bool,
    /// Steps of which not all ranks have told yet.
    pending: BTreeMap<u64, BTreeMap<usize, CallTotals>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    step: u64,
    rank: usize,
    collectives: &'a CallTotals,
}

/// The part of an entry that tells whether it is kept.
#[derive(Deserialize)]
struct Place {
    step: u64,
}

impl CollectiveTrace {
    /// Opens the trace of a run that goes on after `done_steps` steps, if the plan asks for one or
    /// one was begun: entries of later steps go, for these are done again.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(crate) fn open(plan: &TrainPlan, done_steps: u64) -> Result<Option<Self>, TrainError> {
        let path = plan.options.out.join(TRACE_FILE);
        if !plan.options.trace_collectives && !path.exists() {
            return Ok(None);
        }
        let file = File::options().create(true).read(true).write(true).truncate(false).open(&path);
        let file = file.map_err(|source| TrainError::io("open", &path, source))?;
        let kept = kept_bytes(&file, done_steps);
        let kept = kept.map_err(|source| TrainError::io("read", &path, source))?;
        let mut state = State {
            file,
            end: kept.unwrap_or(0),
            has_entries: kept.is_some(),
            pending: BTreeMap::new(),
        };
        let written = if kept.is_some() { CLOSING } else { "[\n]\n" };
        state.write(written).map_err(|source| TrainError::io("write", &path, source))?;
        if kept.is_none() {
            state.end = OPENING.len() as u64;
        }
        Ok(Some(Self { path, num_ranks: plan.parallel.num_ranks(), state: Mutex::new(state) }))
    }

    /// Notes what rank `rank` exchanged in step `step`.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn push(
        &self,
        step: u64,
        rank: usize,
        totals: CallTotals,
    ) -> Result<(), TrainError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let told = state.pending.entry(step).or_default();
        told.insert(rank, totals);
        if told.len() < self.num_ranks {
            return Ok(());
        }
        let told = state.pending.remove(&step).expect("it was just filled");
        state.append(step, &told).map_err(|source| TrainError::io("write", &self.path, source))
    }
}

impl State {
    fn append(&mut self, step: u64, told: &BTreeMap<usize, CallTotals>) -> io::Result<()> {
        let entries = told.iter().map(|(&rank, collectives)| {
            let entry = Entry { step, rank, collectives };
            serde_json::to_string(&entry).expect("an entry is plain data")
        });
        let entries = entries.collect::<Vec<_>>().join(SEPARATOR);
        let before = if self.has_entries { SEPARATOR } else { "" };
        let written = format!("{before}{entries}{CLOSING}");
        self.write(&written)?;
        self.end += (written.len() - CLOSING.len()) as u64;
        self.has_entries = true;
        Ok(())
    }

    /// Replaces what stands behind the last entry.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(self.end + text.len() as u64)
    }
}

/// The length of `file` up to the end of the last entry of the first `done_steps` steps; none where
/// there is no such entry. What does not read as an entry was cut off by a death.
fn kept_bytes(file: &File, done_steps: u64) -> io::Result<Option<u64>> {
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    let (mut end, mut kept) = (reader.read_until(b'\n', &mut line)? as u64, None);
    if line != OPENING.as_bytes() {
        return Ok(None);
    }
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)? as u64;
        let entry = line.trim_ascii_end();
        let entry = entry.strip_suffix(b",").unwrap_or(entry);
        match serde_json::from_slice(entry) {
            Ok(Place { step }) if step <= done_steps => kept = Some(end + entry.len() as u64),
            _ => return Ok(kept),
        }
        end += length;
    }
}
