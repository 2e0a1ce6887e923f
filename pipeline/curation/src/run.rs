//! What all stages of one curation share.

use std::sync::atomic::{AtomicU64, Ordering};

use corpus::{Observer, machine};

use crate::memory::MemoryBudget;
use crate::stages::StageFolder;

/// A curation at work.
pub(crate) struct Run<'r> {
    /// Where parts that are complete lie.
    pub(crate) stages: StageFolder,
    pub(crate) observer: &'r dyn Observer,
    /// How this process may fill its memory.
    pub(crate) memory: MemoryBudget,
    peak_anonymous_bytes: AtomicU64,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        stages: StageFolder,
        observer: &'r dyn Observer,
        memory: MemoryBudget,
    ) -> Self {
        Self { stages, observer, memory, peak_anonymous_bytes: AtomicU64::new(0) }
    }

    /// Looks at how much memory is held now.
    pub(crate) fn sample_memory(&self) {
        let now = machine::anonymous_bytes().unwrap_or(0);
        self.peak_anonymous_bytes.fetch_max(now, Ordering::Relaxed);
    }

    /// The most memory that was held at a sample; `None` where the system does not tell.
    pub(crate) fn peak_anonymous_bytes(&self) -> Option<u64> {
        match self.peak_anonymous_bytes.load(Ordering::Relaxed) {
            0 => None,
            peak => Some(peak),
        }
    }
}
