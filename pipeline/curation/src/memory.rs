//! How a curation fills memory: `--max-memory`, divided.
//!
//! The limit is on what the process holds for itself. Stage files that it reads through the memory
//! map are the system's to keep or to take back, and do not count. Whatever the limit, the result
//! is the same: less memory means more passes.

use crate::CurationError;

/// The least limit: below, the rounds of the stages themselves do not fit.
pub const LEAST_MEMORY: u64 = 192 << 20;

/// What a stage holds whatever the corpus: the tokenizer, output buffers, and what the allocator
/// keeps of the stages before. Measured on documents so short that all are encoded to
/// tell their length.
const FIXED_BYTES: u64 = 80 << 20;

/// What it holds of this for every thread.
const FIXED_BYTES_PER_THREAD: u64 = 16 << 20;

/// What is held of every document: its verdict, and its place among the documents that are in or,
/// later, the size and an example of its cluster.
const BYTES_PER_DOCUMENT: u64 = 1 + 8;

/// What is left for passes at least: one that holds next to nothing is no way to an end.
const LEAST_FOR_PASSES: u64 = 16 << 20;

/// The limit where none is given and the system does not tell what it has.
const UNKNOWN_MACHINE: u64 = 2 << 30;

/// How much memory a curation may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBudget {
    bytes: u64,
}

impl MemoryBudget {
    /// The limit that was asked for, or half of what the machine has left.
    pub(crate) fn new(max_memory: Option<u64>) -> Self {
        // Down to a power of two: a run that goes on finds the same limit again, mostly.
        let half_of_available = || {
            let available = corpus::machine::available_memory_bytes().unwrap_or(UNKNOWN_MACHINE);
            (1_u64 << (available / 2).max(1).ilog2()).max(2 * LEAST_MEMORY)
        };
        Self { bytes: max_memory.unwrap_or_else(half_of_available) }
    }

    /// Bytes that a stage may hold for what grows with the corpus and can be divided into passes.
    pub(crate) fn for_passes(self, documents: u32) -> Result<usize, CurationError> {
        let fixed = FIXED_BYTES + FIXED_BYTES_PER_THREAD * rayon::current_num_threads() as u64;
        let needed = fixed + BYTES_PER_DOCUMENT * u64::from(documents);
        if self.bytes < needed + LEAST_FOR_PASSES {
            return Err(CurationError::TooLittleMemory {
                limit: self.bytes,
                needed: needed + LEAST_FOR_PASSES,
                documents,
                threads: rayon::current_num_threads(),
            });
        }
        Ok(usize::try_from(self.bytes - needed).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_many_documents_do_not_fit_into_names_what_they_need() {
        let small = MemoryBudget::new(Some(LEAST_MEMORY));
        assert!(small.for_passes(1000).is_ok());
        let error = small.for_passes(100_000_000).unwrap_err();
        let CurationError::TooLittleMemory { limit, needed, .. } = error else { panic!("{error}") };
        assert_eq!(limit, LEAST_MEMORY);
        assert!(MemoryBudget::new(Some(needed)).for_passes(100_000_000).is_ok());
    }
}
