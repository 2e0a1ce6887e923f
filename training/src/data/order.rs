//! Which sample stands at which place of an epoch: a permutation that is computed, never stored.
//!
//! A table of shuffled indices costs memory and a pass over it before the first step, and a resumed
//! run has to make it again. Here the place is run through a small cipher instead: a Feistel
//! network over the smallest even number of bits that holds the epoch, applied again while its
//! output lies outside ("cycle walking", Black and Rogaway 2002). The key is (seed, epoch), so each
//! epoch has its own order and any place of it is found in constant time.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// In which order the samples of a split are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleOrder {
    /// Another random order in each epoch, a pure function of (seed, epoch, place); the default.
    #[default]
    Keyed,
    /// That of the original implementation, to the bit: documents of all epochs shuffled, then the
    /// samples cut from them. Needs tables in memory, and depends on the length of the run.
    Megatron,
    /// As the tokens stand in the data folder, the same in each epoch.
    Sequential,
}

/// Rounds of the Feistel network. Four already give a pseudorandom permutation if the round
/// function is a random one (Luby and Rackoff); two more are cheap, since a round takes a few
/// nanoseconds.
const ROUNDS: u8 = 6;

/// A random order of the numbers below `len`, keyed by seed and epoch.
#[derive(Debug, Clone, Copy)]
pub struct KeyedPermutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl KeyedPermutation {
    /// The permutation of `0..len` that belongs to `seed` and `epoch`.
    pub fn new(len: u64, seed: u64, epoch: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2).max(1),
            key: xxh3_64_with_seed(&epoch.to_le_bytes(), seed),
        }
    }

    /// The number at place `position`.
    ///
    /// # Panics
    ///
    /// When `position` is not below the length: the walk would not end.
    pub fn at(&self, position: u64) -> u64 {
        assert!(position < self.len, "place {position} of a permutation of {}", self.len);
        // The domain is at most four times the length: under four rounds of walking on average.
        let mut value = self.encipher(position);
        while value >= self.len {
            value = self.encipher(value);
        }
        value
    }

    fn encipher(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (self.round_function(right, round) & mask));
        }
        left << self.half_bits | right
    }

    fn round_function(&self, half: u64, round: u8) -> u64 {
        let mut message = [0; 9];
        message[..8].copy_from_slice(&half.to_le_bytes());
        message[8] = round;
        xxh3_64_with_seed(&message, self.key)
    }
}
