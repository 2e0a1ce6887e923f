//! How far a save is, told where it takes long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use corpus::{Observer, Unit};
use tracing::info;

/// Time between two lines about one save; a short save has none.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Counts the bytes that one rank writes, and then reads back for their hashes.
#[derive(Debug)]
pub(super) struct SaveProgress {
    step: u64,
    /// Whether this rank tells; the others' share is as large as its own.
    tells: bool,
    stage: Mutex<Stage>,
    done: AtomicU64,
}

#[derive(Debug)]
struct Stage {
    name: &'static str,
    total: u64,
    last_line: Instant,
}

impl SaveProgress {
    pub(super) fn new(step: u64, tells: bool) -> Self {
        let stage = Stage { name: "written", total: 0, last_line: Instant::now() };
        Self { step, tells, stage: Mutex::new(stage), done: AtomicU64::new(0) }
    }

    /// From now on bytes are `name`, of which there will be `total`.
    pub(super) fn enter(&self, name: &'static str, total: u64) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        (stage.name, stage.total) = (name, total);
        self.done.store(0, Ordering::Relaxed);
    }
}

impl Observer for SaveProgress {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    fn advance(&self, amount: u64) {
        let done = self.done.fetch_add(amount, Ordering::Relaxed) + amount;
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if self.tells && stage.last_line.elapsed() >= LINE_INTERVAL {
            stage.last_line = Instant::now();
            let Stage { name, total, .. } = *stage;
            info!("saving step {}: {name} {done} of {total} bytes", self.step);
        }
    }

    fn finish(&self) {}
}
