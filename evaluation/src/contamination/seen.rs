//! Which n-grams of a test set the corpus holds.

use std::sync::atomic::{AtomicU64, Ordering};

use corpus::ngram::NGramDictionary;

/// A bit for each n-gram, by size and number. Bits are only ever set, so that threads need no order.
#[derive(Debug)]
pub(super) struct Seen(Vec<Vec<AtomicU64>>);

impl Seen {
    /// Nothing seen yet.
    pub(super) fn none(dictionary: &NGramDictionary) -> Self {
        let bits = |size| {
            let words = dictionary.num_distinct(size).div_ceil(64);
            (0..words).map(|_| AtomicU64::new(0)).collect()
        };
        Self((0..dictionary.sizes().len()).map(bits).collect())
    }

    /// Marks an n-gram.
    #[inline]
    pub(super) fn mark(&self, size: usize, number: u32) {
        let (word, bit) = (&self.0[size][number as usize / 64], 1 << (number % 64));
        // Nearly all are marked already where a corpus holds a test set many times.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether an n-gram is marked.
    pub(super) fn has(&self, size: usize, number: u32) -> bool {
        self.0[size][number as usize / 64].load(Ordering::Relaxed) & 1 << (number % 64) != 0
    }

    /// How many of a size are marked.
    pub(super) fn count(&self, size: usize) -> u64 {
        self.0[size].iter().map(|bits| u64::from(bits.load(Ordering::Relaxed).count_ones())).sum()
    }
}
