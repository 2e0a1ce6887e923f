//! Keeps the journal's time of a part that is at work, so that a process that is killed loses
//! seconds of it and not hours.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use corpus::machine;
use tracing::warn;

use super::journal::{Journal, Spent};

/// Time between two notes.
const INTERVAL: Duration = Duration::from_secs(15);

/// Does `work` while what `part` has taken so far is noted, now and then, in the journal in `out`.
pub(super) fn with_pulse<T>(
    journal: &Journal,
    part: &str,
    out: &Path,
    started: Instant,
    work: impl FnOnce() -> T,
) -> T {
    let (is_done, waits) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while waits.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let mut journal = journal.clone();
                let spent = Spent {
                    seconds: started.elapsed().as_secs_f64(),
                    peak_rss_bytes: machine::peak_rss_bytes(),
                    warnings: Vec::new(), // they are noted at the end
                };
                journal.note(part, spent, None);
                if let Err(error) = journal.write(out) {
                    warn!("{error:#}: the time of {part} is not kept");
                }
            }
        });
        let made = work();
        drop(is_done);
        made
    })
}
