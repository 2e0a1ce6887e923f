//! The scores of an evaluation that has not ended, in a file from which another process goes on.
//!
//! Scoring a long test takes hours, and everything after it seconds. So the scores of every batch
//! are written down as they come, and who runs the same evaluation again takes them from there.
//! Every window keeps its own, so that batches may be cut another way on continuing: the micro-batch
//! size, the ranks, the copies and the limit may be other ones.
//!
//! # Format
//!
//! JSON Lines, of which each ends with a checksum of what stands before it in its line. The first
//! says whose scores they are (a [`Header`]), each other one has the scores of a batch (a
//! [`BatchLine`]):
//!
//! ```text
//! {"task":0,"stage":"wikitext103","windows":[[0,"4fd1…",[[10.8250,262],…]],…],"checksum":"9c0e…"}
//! ```
//!
//! `task` is the place of the task in the plan. A window, or another sample, stands there by its place
//! in the stage, the hash of its tokens, and what is kept of it: loss and prediction of each scored
//! position, the sum of the losses, or whatever its task makes its numbers of. A last line without its end was cut off by a death and is dropped; any other
//! line that does not read is an error. The file is gone when the evaluation has ended. A disk that
//! is full does not end an evaluation: what it has no room for waits in memory.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{EvalError, windows_are};
use crate::kept::{Kept, Record};
use crate::scores_of::ScoresOf;

/// What the first line begins with, by which the file is known.
const MAGIC: &[u8] = b"{\"format\":\"scores of an evaluation\"";

/// What a line ends with: the name of its checksum, and 16 hexadecimal digits of it.
const CHECKSUM: &str = ",\"checksum\":\"";
const CHECKSUM_DIGITS: usize = 16;

/// First line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    #[serde(flatten)]
    scores_of: ScoresOf,
}

/// Any other line.
#[derive(Debug, Serialize, Deserialize)]
struct BatchLine {
    task: usize,
    stage: String,
    /// Wall time since the line before it, in seconds. Files of earlier versions have none.
    #[serde(default)]
    seconds: f64,
    windows: Vec<(usize, String, Record)>,
}

/// The version of the format that this program writes and reads.
const VERSION: u32 = 1;

/// The file, for the one process that evaluates. Dropped, it stays where it holds scores.
#[derive(Debug)]
pub(crate) struct ScoreLog {
    path: PathBuf,
    /// Holds the lock; `None` where no file could be made.
    file: Option<File>,
    /// Length of the whole lines that are in the file.
    bytes: u64,
    /// Windows whose scores are in the file.
    windows: u64,
    /// Lines for which the disk had no room, and how many windows they have.
    waiting: (Vec<u8>, u64),
    /// What an earlier process left, by task, stage and window.
    found: HashMap<(usize, String), HashMap<usize, Found>>,
    /// Wall time that earlier processes spent on what was taken of it, by task, in seconds.
    taken_seconds: HashMap<usize, f64>,
    /// When the last batch was written down, or the task began.
    last: Instant,
}

/// What an earlier process left of a window.
#[derive(Debug)]
struct Found {
    /// Hash of the window.
    hash: String,
    record: Record,
    /// Its share of the wall time that its batch took, in seconds.
    seconds: f64,
}

impl ScoreLog {
    /// Opens the file at `path`, or makes it, for the scores of `scores_of`. With `replace`, one
    /// that belongs to another evaluation or is damaged is begun anew.
    ///
    /// Where none can be made, the evaluation goes on without: that is told.
    ///
    /// # Errors
    ///
    /// When something else has that name, another process is writing it, it cannot be read, or,
    /// without `replace`, it is damaged or another evaluation's.
    pub(crate) fn open(
        path: &Path,
        scores_of: &ScoresOf,
        replace: bool,
    ) -> Result<Self, EvalError> {
        let mut log = Self {
            path: path.to_owned(),
            file: None,
            bytes: 0,
            windows: 0,
            waiting: (Vec::new(), 0),
            found: HashMap::new(),
            taken_seconds: HashMap::new(),
            last: Instant::now(),
        };
        let file = match open_file(path) {
            Ok(file) => file,
            Err(source) if path.exists() => return Err(log.io_error("open", source)),
            Err(error) => {
                warn!(
                    "{}: {error}: no scores are kept there, so an evaluation that is stopped will \
                     begin again",
                    path.display()
                );
                return Ok(log);
            }
        };
        log.lock(&file)?;
        match log.read(&file, scores_of) {
            Ok(()) => {}
            Err(EvalError::PartialOfOther { difference, .. }) if replace => {
                log.forget(&format!("its scores are those of another evaluation ({difference})"));
            }
            Err(EvalError::PartialDamaged { line, .. }) if replace => {
                log.forget(&format!("its scores are damaged (line {line})"));
            }
            Err(fault) => return Err(fault),
        }
        file.set_len(log.bytes).map_err(|source| log.io_error("write", source))?;
        log.file = Some(file);
        if log.windows > 0 {
            info!(
                "{}: {} scored already; going on from there",
                log.path.display(),
                windows_are(log.windows)
            );
        }
        if log.bytes == 0 {
            let header = Header {
                format: "scores of an evaluation".to_owned(),
                version: VERSION,
                scores_of: scores_of.clone(),
            };
            log.push_line(&header, 0);
        }
        Ok(log)
    }

    /// Begins anew, without what was found.
    fn forget(&mut self, reason: &str) {
        warn!("{}: {reason}: beginning anew", self.path.display());
        (self.bytes, self.windows) = (0, 0);
        self.found.clear();
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Windows whose scores are in the file, now that it is left to another process.
    pub(crate) fn num_windows(&mut self) -> u64 {
        // What a full disk had no room for may find some now; if not, it is scored again.
        let _ = self.write_waiting();
        self.windows
    }

    /// What an earlier process found of sample `index` of a stage, if it has; `place` is that of the
    /// task in the plan, and the stage's name; `scored` positions or answers of it are scored.
    ///
    /// # Errors
    ///
    /// [`EvalError::PartialOfOther`] when the sample there is another one.
    pub(crate) fn take<K: Kept>(
        &mut self,
        place: &(usize, String),
        index: usize,
        sample_hash: impl FnOnce() -> String,
        scored: usize,
    ) -> Result<Option<K>, EvalError> {
        let found = self.found.get_mut(place).and_then(|windows| windows.remove(&index));
        let Some(Found { hash, record, seconds }) = found else { return Ok(None) };
        *self.taken_seconds.entry(place.0).or_default() += seconds;
        let kept = (hash == sample_hash()).then(|| K::read(record, scored));
        match kept.flatten() {
            Some(kept) => Ok(Some(kept)),
            None => Err(EvalError::PartialOfOther {
                path: self.path.clone(),
                difference: format!("number {index} of {} is another one there", place.1),
            }),
        }
    }

    /// Writes down a batch of the stage at `place`: the number of each sample in the stage, its
    /// hash, and what is kept of it.
    pub(crate) fn push(&mut self, place: &(usize, String), windows: Vec<(usize, String, Record)>) {
        let (task, stage) = place.clone();
        let seconds = std::mem::replace(&mut self.last, Instant::now()).elapsed().as_secs_f64();
        let count = windows.len() as u64;
        self.push_line(&BatchLine { task, stage, seconds, windows }, count);
    }

    /// Notes that a task begins.
    pub(crate) fn begin_task(&mut self) {
        self.last = Instant::now();
    }

    /// The wall time that earlier processes spent on the scores of a task that were taken from
    /// them, in seconds.
    pub(crate) fn taken_seconds(&self, task: usize) -> f64 {
        self.taken_seconds.get(&task).copied().unwrap_or(0.0)
    }

    /// Removes the file: the evaluation has ended, and its report is told. One that holds more than
    /// this evaluation had to score, because of its limit, stays for one that has to.
    pub(crate) fn remove(mut self) {
        let beyond: usize = self.found.values().map(HashMap::len).sum();
        if beyond > 0 {
            info!(
                "{}: {} scored there beyond --limit; the file stays, for an evaluation that needs them",
                self.path.display(),
                windows_are(beyond as u64)
            );
            return;
        }
        // Dropping it does the rest.
        self.waiting = (Vec::new(), 0);
        self.windows = 0;
    }

    fn push_line(&mut self, line: &impl Serialize, windows: u64) {
        if self.file.is_none() {
            return;
        }
        let is_waiting = !self.waiting.0.is_empty();
        self.waiting.0.extend(line_of(line));
        self.waiting.1 += windows;
        if let Err(error) = self.write_waiting()
            && !is_waiting
        {
            warn!(
                "{}: {error}; scoring goes on, and what the file would hold waits in memory until \
                 there is room",
                self.path.display()
            );
        }
    }

    /// Writes what waits, or leaves the file as it was.
    fn write_waiting(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(error) = file.write_all(&self.waiting.0) {
            // Half a line with others behind it would be damage.
            file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += self.waiting.0.len() as u64;
        self.windows += self.waiting.1;
        self.waiting = (Vec::new(), 0);
        Ok(())
    }

    /// Makes this process the only one that uses the file.
    fn lock(&self, file: &File) -> Result<(), EvalError> {
        let in_use = || EvalError::PartialInUse { path: self.path.clone() };
        match file.try_lock() {
            // The process that held it may have removed it meanwhile.
            Ok(()) if is_at(file, &self.path) => Ok(()),
            Ok(()) | Err(TryLockError::WouldBlock) => Err(in_use()),
            Err(TryLockError::Error(error)) => {
                warn!(
                    "{}: this file system has no locks ({error}): start no second evaluation there",
                    self.path.display()
                );
                Ok(())
            }
        }
    }

    /// Reads what an earlier process left.
    fn read(&mut self, mut file: &File, scores_of: &ScoresOf) -> Result<(), EvalError> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| self.io_error("read", source))?;
        let begins_as_ours = bytes.starts_with(MAGIC) || MAGIC.starts_with(&bytes);
        if !begins_as_ours {
            return Err(EvalError::PartialForeign { path: self.path.clone() });
        }
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            if !line.ends_with(b"\n") {
                break;
            }
            let damaged = || EvalError::PartialDamaged { path: self.path.clone(), line: index + 1 };
            let content = checked(line).ok_or_else(damaged)?;
            if index == 0 {
                let header: Header = serde_json::from_slice(&content).map_err(|_| damaged())?;
                self.check(&header, scores_of)?;
            } else {
                let batch: BatchLine = serde_json::from_slice(&content).map_err(|_| damaged())?;
                self.windows += batch.windows.len() as u64;
                let seconds = batch.seconds / batch.windows.len().max(1) as f64;
                let found = self.found.entry((batch.task, batch.stage)).or_default();
                found.extend(
                    batch
                        .windows
                        .into_iter()
                        .map(|(at, hash, record)| (at, Found { hash, record, seconds })),
                );
            }
            self.bytes += line.len() as u64;
        }
        Ok(())
    }

    /// Demands that the file holds scores of `scores_of`.
    fn check(&self, header: &Header, scores_of: &ScoresOf) -> Result<(), EvalError> {
        let differs =
            |difference| Err(EvalError::PartialOfOther { path: self.path.clone(), difference });
        if header.version != VERSION {
            return differs(format!("its version is {} there and {VERSION} here", header.version));
        }
        match scores_of.difference(&header.scores_of) {
            Some(difference) => differs(difference),
            None => Ok(()),
        }
    }

    fn io_error(&self, action: &'static str, source: io::Error) -> EvalError {
        EvalError::PartialIo { action, path: self.path.clone(), source }
    }
}

/// Leaves no file in which there is nothing to go on from.
impl Drop for ScoreLog {
    fn drop(&mut self) {
        if self.file.is_none() {
            return;
        }
        // What a full disk had no room for may find some now; if not, it is scored again.
        let _ = self.write_waiting();
        if self.windows == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the file to be read, and to be written at its end.
fn open_file(path: &Path) -> io::Result<File> {
    File::options().read(true).append(true).create(true).open(path)
}

/// Whether the path still leads to the file.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |file: fs::Metadata| (file.dev(), file.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(file), Ok(there)) => place(file) == place(there),
        _ => false,
    }
}

/// The value as a line with its checksum.
fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("lines are plain data");
    let checksum = xxh3_64(&line[..line.len() - 1]);
    line.pop(); // the closing brace, which comes back behind the checksum
    line.extend(format!("{CHECKSUM}{checksum:0CHECKSUM_DIGITS$x}\"}}\n").bytes());
    line
}

/// The value of a line whose checksum is right, without it.
fn checked(line: &[u8]) -> Option<Vec<u8>> {
    let end = line.strip_suffix(b"\"}\n")?;
    let (rest, digits) = end.split_at_checked(end.len().checked_sub(CHECKSUM_DIGITS)?)?;
    let content = rest.strip_suffix(CHECKSUM.as_bytes())?;
    let expected = format!("{:0CHECKSUM_DIGITS$x}", xxh3_64(content));
    (digits == expected.as_bytes()).then(|| [content, b"}"].concat())
}
