//! The random numbers of numpy's `RandomState`, by which Megatron-LM shuffles.
//!
//! MT19937 (Matsumoto and Nishimura 1998) as numpy seeds and reads it, so that a shuffle here is
//! numpy's to the last element: `RandomState.shuffle` walks from the end and draws each partner by
//! masking 32 bits (64, where more than 2³² elements are left) until one is in range.

use corpus::Observer;

use crate::TrainError;

const STATE_WORDS: usize = 624;
const MIDDLE_WORD: usize = 397;
/// Elements that are swapped between two looks at an observer.
const POLL: usize = 1 << 20;

/// The generator.
#[derive(Clone)]
pub struct MersenneTwister {
    state: [u32; STATE_WORDS],
    next: usize,
}

impl MersenneTwister {
    /// The generator of `numpy.random.RandomState(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; STATE_WORDS];
        for place in 1..STATE_WORDS {
            let before = state[place - 1];
            let mixed = before ^ (before >> 30);
            state[place] = mixed.wrapping_mul(1_812_433_253).wrapping_add(place as u32);
        }
        Self { state, next: STATE_WORDS }
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == STATE_WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// The next 64 bits, the high half first.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    /// A number from 0 to `max`, both included.
    pub fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let mask = u64::MAX >> max.leading_zeros();
        loop {
            let word = match u32::try_from(max) {
                Ok(_) => u64::from(self.next_u32()),
                Err(_) => self.next_u64(),
            };
            if word & mask <= max {
                return word & mask;
            }
        }
    }

    /// Shuffles `items` as `RandomState.shuffle` does, and tells `observer` of them.
    ///
    /// # Errors
    ///
    /// [`TrainError::Stopped`] when the observer asks to stop.
    pub fn shuffle<T>(
        &mut self,
        items: &mut [T],
        observer: &dyn Observer,
    ) -> Result<(), TrainError> {
        let mut told = 0;
        for left in (1..items.len()).rev() {
            items.swap(left, self.up_to(left as u64) as usize);
            let done = items.len() - left;
            if done - told == POLL {
                if observer.stop_requested() {
                    return Err(TrainError::Stopped);
                }
                observer.advance(POLL as u64);
                told = done;
            }
        }
        observer.advance((items.len() - told) as u64);
        Ok(())
    }

    fn refill(&mut self) {
        for place in 0..STATE_WORDS {
            let following = self.state[(place + 1) % STATE_WORDS];
            let joined = (self.state[place] & 0x8000_0000) | (following & 0x7fff_ffff);
            let twist = if joined & 1 == 0 { 0 } else { 0x9908_b0df };
            let middle = self.state[(place + MIDDLE_WORD) % STATE_WORDS];
            self.state[place] = middle ^ (joined >> 1) ^ twist;
        }
        self.next = 0;
    }
}

impl std::fmt::Debug for MersenneTwister {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MersenneTwister").finish_non_exhaustive()
    }
}
