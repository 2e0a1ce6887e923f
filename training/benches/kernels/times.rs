//! What was measured of one operation.

use std::fmt;
use std::time::Instant;

use serde::Deserialize;

/// Seconds of calls, forward and backward; without a backward pass there are none of it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Times {
    pub(crate) forward: Calls,
    #[serde(default)]
    pub(crate) backward: Calls,
}

/// Seconds of calls.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Calls(Vec<f64>);

impl Calls {
    /// Calls `work`, takes note of its time and returns what it returned.
    pub(crate) fn measure<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.0.push(start.elapsed().as_secs_f64());
        result
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Fastest, median and slowest, in seconds.
    pub(crate) fn spread(&self) -> Option<[f64; 3]> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Some([*sorted.first()?, sorted[sorted.len() / 2], *sorted.last()?])
    }

    /// The first call, which warms up, does not count.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

impl fmt::Display for Calls {
    /// In milliseconds.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some([fastest, median, slowest]) = self.spread().map(|all| all.map(|s| s * 1e3)) else {
            return write!(formatter, "-");
        };
        let digits = if median < 10.0 { 2 } else { 0 };
        write!(formatter, "{median:.digits$} ({fastest:.digits$} to {slowest:.digits$})")
    }
}
