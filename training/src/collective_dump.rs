//! `collectives-rank-N.json`: the latest calls of every rank, written down when the ranks have come
//! apart.
//!
//! The last call of each rank says where it was: pending in a collective that another never came
//! to, or at work after one that has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tracing::{info, warn};

use crate::TrainError;
use crate::parallel::Rank;
use crate::parallel::collective::LoggedCall;

const PREFIX: &str = "collectives-rank-";

#[derive(Serialize)]
struct Dump {
    rank: usize,
    tensor: usize,
    data: usize,
    failure: String,
    calls: Vec<Call>,
}

#[derive(Serialize)]
struct Call {
    step: u64,
    /// Which of the rank's groups: `tensor` or `data`.
    group: &'static str,
    sequence: u64,
    kind: String,
    name: String,
    numbers: usize,
    bytes: usize,
    /// From the start of the ranks, in milliseconds; the same clock on all of them.
    started: f64,
    /// `null` while the call is pending.
    ended: Option<f64>,
    pending: bool,
}

/// Writes the latest calls of all `ranks` into the run folder `run`, unless `failure` is one that
/// all of them found alike. What an earlier failure left goes.
pub(crate) fn write(run: &Path, ranks: &[Rank], failure: &TrainError) {
    if ranks.len() == 1 || failure.is_of_all_ranks() {
        return;
    }
    match delete(run).and_then(|()| write_all(run, ranks, failure)) {
        Ok(()) => {
            info!("each rank's latest collectives are in {}*.json", run.join(PREFIX).display())
        }
        Err(error) => warn!("cannot write the ranks' latest collectives: {error}"),
    }
}

/// Deletes what an earlier failure left in the run folder `run`.
///
/// # Errors
///
/// When the folder cannot be listed, or a file not be deleted.
pub(crate) fn delete(run: &Path) -> io::Result<()> {
    for entry in fs::read_dir(run)? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(".json"));
        if number.is_some_and(|number| number.parse::<usize>().is_ok()) {
            fs::remove_file(run.join(&name))?;
        }
    }
    Ok(())
}

fn write_all(run: &Path, ranks: &[Rank], failure: &TrainError) -> io::Result<()> {
    for rank in ranks {
        let place = rank.place();
        let dump = Dump {
            rank: place.rank(),
            tensor: place.tensor,
            data: place.data,
            failure: failure.to_string(),
            calls: rank.calls.recent().into_iter().map(Call::from).collect(),
        };
        fs::write(path(run, place.rank()), serde_json::to_vec_pretty(&dump)?)?;
    }
    Ok(())
}

fn path(run: &Path, rank: usize) -> PathBuf {
    run.join(format!("{PREFIX}{rank}.json"))
}

impl From<LoggedCall> for Call {
    fn from(logged: LoggedCall) -> Self {
        let LoggedCall { step, group, call, started, ended } = logged;
        let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        Self {
            step,
            group,
            sequence: call.sequence,
            kind: call.kind.to_string(),
            name: call.name,
            numbers: call.numbers,
            bytes: call.numbers * call.number_bytes,
            started: milliseconds(started),
            ended: ended.map(milliseconds),
            pending: ended.is_none(),
        }
    }
}
