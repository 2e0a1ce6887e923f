//! The random numbers of C++'s `std::mt19937_64`, by which Megatron-LM shuffles pairs of sentences.
//!
//! MT19937-64 (Nishimura 2000): the twister of 64-bit words.

const STATE_WORDS: usize = 312;
const MIDDLE_WORD: usize = 156;

/// The generator.
#[derive(Clone)]
pub struct MersenneTwister64 {
    state: [u64; STATE_WORDS],
    next: usize,
}

impl MersenneTwister64 {
    /// The generator of `std::mt19937_64(seed)`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = [seed; STATE_WORDS];
        for place in 1..STATE_WORDS {
            let before = state[place - 1];
            let mixed = before ^ (before >> 62);
            state[place] = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(place as u64);
        }
        Self { state, next: STATE_WORDS }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        if self.next == STATE_WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= (word >> 29) & 0x5555_5555_5555_5555;
        word ^= (word << 17) & 0x71d6_7fff_eda6_0000;
        word ^= (word << 37) & 0xfff7_eee0_0000_0000;
        word ^ (word >> 43)
    }

    fn refill(&mut self) {
        for place in 0..STATE_WORDS {
            let following = self.state[(place + 1) % STATE_WORDS];
            let joined = (self.state[place] & 0xffff_ffff_8000_0000) | (following & 0x7fff_ffff);
            let twist = if joined & 1 == 0 { 0 } else { 0xb502_6f5a_a966_19e9 };
            let middle = self.state[(place + MIDDLE_WORD) % STATE_WORDS];
            self.state[place] = middle ^ (joined >> 1) ^ twist;
        }
        self.next = 0;
    }
}

impl std::fmt::Debug for MersenneTwister64 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MersenneTwister64").finish_non_exhaustive()
    }
}
