//! From logits to a token.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use serde::Serialize;

use crate::error::TrainError;
use crate::parallel::random::KeyedUniform;

/// How the next token is drawn.
///
/// The logits are divided by the temperature; of the most probable tokens `top_k` stay, and of
/// those the fewest that together have `top_p` of what is left of the probability; one of them is
/// drawn. Of tokens with equal logits the lower is the more probable. Computed in f64.
///
/// Top-p: Holtzman et al. 2020, *The curious case of neural text degeneration*,
/// [arXiv 1904.09751](https://arxiv.org/abs/1904.09751); top-k: Fan et al. 2018,
/// [arXiv 1805.04833](https://arxiv.org/abs/1805.04833).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sampling {
    /// What logits are divided by; 0 takes the most probable token, whatever else is set.
    pub temperature: f64,
    /// How many tokens are drawn from; `None` for all.
    pub top_k: Option<NonZeroUsize>,
    /// Which share of the probability is drawn from; 1 for all.
    pub top_p: f64,
    /// With the number of the sample and the position, what a draw is a function of.
    pub seed: u64,
}

/// The model's own distribution.
impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: 1.0, seed: 1234 }
    }
}

impl Sampling {
    /// The most probable token, always.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] for the first that makes no sense.
    pub fn validate(&self) -> Result<(), TrainError> {
        let refuse = |field, value: f64, expected: &str| {
            let (value, expected) = (value.to_string(), expected.to_owned());
            Err(TrainError::InvalidField { field, value, expected })
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return refuse("temperature", self.temperature, "a number of at least 0 is needed");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("top_p", self.top_p, "a number above 0 and of at most 1 is needed");
        }
        Ok(())
    }

    /// The token at `position` of text `sample`, from the logits of all tokens; `None` where they
    /// are no numbers.
    #[must_use]
    pub fn draw(&self, logits: &[f32], sample: u64, position: u64) -> Option<u32> {
        let largest = largest(logits)?;
        if self.temperature == 0.0 {
            return Some(largest);
        }
        let distribution = Distribution::new(logits, largest, self.temperature);
        let kept = self.kept(&distribution);
        Some(distribution.pick(kept, KeyedUniform::new(self.seed, sample).at(position)))
    }

    /// The tokens to draw from, in their order; `None` for all.
    fn kept(&self, distribution: &Distribution<'_>) -> Option<Vec<u32>> {
        let all = distribution.logits.len();
        let top_k = self.top_k.map_or(all, |k| k.get().min(all));
        if top_k == all && self.top_p == 1.0 {
            return None;
        }
        let mut tokens: Vec<u32> = (0..all as u32).collect();
        let total = if top_k == all {
            distribution.sum(&tokens)
        } else {
            distribution.select_first(&mut tokens, top_k);
            tokens.truncate(top_k);
            distribution.sum(&tokens)
        };
        if self.top_p < 1.0 {
            let fewest = distribution.fewest_with(&mut tokens, self.top_p * total);
            tokens.truncate(fewest);
        }
        tokens.sort_unstable();
        Some(tokens)
    }
}

/// The first token of the largest logit, if one is finite and none is above all numbers or none.
fn largest(logits: &[f32]) -> Option<u32> {
    let mut largest = f32::NEG_INFINITY;
    let mut token = None;
    for (index, &logit) in logits.iter().enumerate() {
        if logit.is_nan() || logit == f32::INFINITY {
            return None;
        }
        if logit > largest {
            (largest, token) = (logit, Some(index as u32));
        }
    }
    token
}

/// Tokens with their weights, which are proportional to their probabilities: `e^((x - max) / T)`.
struct Distribution<'a> {
    logits: &'a [f32],
    weights: Vec<f64>,
}

impl<'a> Distribution<'a> {
    fn new(logits: &'a [f32], largest: u32, temperature: f64) -> Self {
        let largest = f64::from(logits[largest as usize]);
        let weight = |&logit: &f32| ((f64::from(logit) - largest) / temperature).exp();
        Self { logits, weights: logits.iter().map(weight).collect() }
    }

    fn weight(&self, token: u32) -> f64 {
        self.weights[token as usize]
    }

    fn sum(&self, tokens: &[u32]) -> f64 {
        tokens.iter().map(|&token| self.weight(token)).sum()
    }

    /// The more probable first; of equal ones the lower.
    fn order(&self, a: u32, b: u32) -> Ordering {
        let (logit_a, logit_b) = (self.logits[a as usize], self.logits[b as usize]);
        logit_b.total_cmp(&logit_a).then(a.cmp(&b))
    }

    /// Moves the `count` most probable of `tokens` to the front, in any order.
    fn select_first(&self, tokens: &mut [u32], count: usize) {
        if count < tokens.len() {
            tokens.select_nth_unstable_by(count, |&a, &b| self.order(a, b));
        }
    }

    /// Sorts as many of `tokens` as it takes to find the fewest that weigh `enough` together, and
    /// returns their number: at least one.
    fn fewest_with(&self, tokens: &mut [u32], enough: f64) -> usize {
        // Mostly some hundred tokens do; sorting all would take as long as a small model's step.
        let (mut sorted, mut weight) = (0, 0.0);
        while sorted < tokens.len() {
            let rest = &mut tokens[sorted..];
            let count = rest.len().min((7 * sorted).max(128));
            self.select_first(rest, count);
            let next = &mut rest[..count];
            next.sort_unstable_by(|&a, &b| self.order(a, b));
            for (index, &token) in next.iter().enumerate() {
                weight += self.weight(token);
                if weight >= enough {
                    return sorted + index + 1;
                }
            }
            sorted += count;
        }
        tokens.len()
    }

    /// The token at which the running sum of weights, in the order of the tokens, passes the share
    /// `uniform` of all.
    ///
    /// In the order of the tokens, not of their probabilities: rounding that swaps two tokens of
    /// nearly equal probability then moves no other.
    fn pick(&self, kept: Option<Vec<u32>>, uniform: f64) -> u32 {
        let kept = kept.unwrap_or_else(|| (0..self.logits.len() as u32).collect());
        let passed = uniform * self.sum(&kept);
        let mut sum = 0.0;
        let mut last = kept[0];
        for token in kept {
            let weight = self.weight(token);
            if weight > 0.0 {
                sum += weight;
                last = token;
                if sum > passed {
                    break;
                }
            }
        }
        last
    }
}
