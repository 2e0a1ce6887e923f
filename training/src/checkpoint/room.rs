//! Room on the disk: what a checkpoint takes, what there is, and how a failed save tells of both.

use std::fmt;
use std::path::Path;

use corpus::machine;

/// Bytes of the files of a checkpoint beside its tensors and its tokenizer, generously:
/// configuration, state and manifest.
pub(super) const DESCRIPTION_BYTES: u64 = 64 << 10;

/// What a save needs on the disk, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the whole checkpoint.
    pub needed: u64,
    /// Bytes that can be written where it goes; `None` where the system does not tell.
    pub free: Option<u64>,
}

impl Room {
    /// Room for `needed` bytes in `folder`.
    pub(super) fn of(needed: u64, folder: &Path) -> Self {
        Self { needed, free: machine::free_disk_bytes(folder) }
    }

    /// Whether the system says that the bytes do not fit.
    pub(super) fn is_short(self) -> bool {
        self.free.is_some_and(|free| free < self.needed)
    }
}

/// `5120 bytes are needed and 100 are free`
impl fmt::Display for Room {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes are needed", self.needed)?;
        match self.free {
            Some(free) => write!(formatter, " and {free} are free"),
            None => Ok(()),
        }
    }
}
