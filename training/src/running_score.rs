//! How unusual a number is among those that came before it.

/// Numbers after which the oldest fade.
const WINDOW: u64 = 100;
/// Numbers that have to be known before one can be called unusual.
const FEWEST: u64 = 10;

/// Mean and variance of a sequence: of all numbers while there are fewer than 100, and then with
/// exponentially fading weights, a hundredth for the newest.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunningScore {
    count: u64,
    mean: f64,
    variance: f64,
}

impl RunningScore {
    /// How many standard deviations `number` lies above the mean of those before it; then takes it
    /// in. None for the first ten, for one that is not finite, which is not taken in, and where
    /// all were equal.
    pub(crate) fn score(&mut self, number: f64) -> Option<f64> {
        if !number.is_finite() {
            return None;
        }
        let deviation = number - self.mean;
        let is_known = self.count >= FEWEST && self.variance > 0.0;
        let score = is_known.then(|| deviation / self.variance.sqrt());
        self.count = (self.count + 1).min(WINDOW);
        let weight = 1.0 / self.count as f64;
        self.mean += weight * deviation;
        self.variance = (1.0 - weight) * (self.variance + weight * deviation * deviation);
        score
    }
}
