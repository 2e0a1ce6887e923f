//! Random choices by key: as many as a sample needs, and the same for the same key.

use crate::parallel::random::{philox4x32, words};

/// What a sample's choices are keyed by, beside its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawKey {
    /// The seed of a run: at each place of the run, in every epoch, other choices.
    Run(u64),
    /// No seed: held-out samples are the same in every run, so that their losses compare.
    HeldOut,
}

/// A stream of random words that belongs to one sample.
#[derive(Debug, Clone)]
pub struct KeyedDraws {
    key: [u32; 2],
    block: u64,
    drawn: [u32; 4],
    used: usize,
}

impl KeyedDraws {
    /// The stream of the sample at place `place`.
    #[must_use]
    pub fn new(key: DrawKey, place: u64) -> Self {
        let (seed, purpose) = match key {
            DrawKey::Run(seed) => (seed, 3),
            DrawKey::HeldOut => (0, 4),
        };
        let [low, high] = words(place);
        let draw = philox4x32(words(seed), [low, high, purpose, 0]);
        Self { key: [draw[0], draw[1]], block: 0, drawn: [0; 4], used: 4 }
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == self.drawn.len() {
            let [low, high] = words(self.block);
            self.drawn = philox4x32(self.key, [low, high, 0, 0]);
            (self.block, self.used) = (self.block + 1, 0);
        }
        self.used += 1;
        self.drawn[self.used - 1]
    }

    /// A number below `end`, each as likely as any other (Lemire 2019).
    ///
    /// # Panics
    ///
    /// When `end` is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "a number below 0");
        let threshold = end.wrapping_neg() % end;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(end);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// A number at least 0 and below 1, of 32 random bits.
    pub fn uniform(&mut self) -> f64 {
        f64::from(self.next_u32()) / 4_294_967_296.0
    }
}
