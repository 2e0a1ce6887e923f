//! Losses with names: what a step or a validation measured, part by part.

use crate::parallel::collective::{Collective, CollectiveError, sum_all_exactly};

/// Parts that a loss may have.
const MOST_PARTS: usize = 2;

/// A loss as the sum of its parts, each with its name; in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    names: &'static [&'static str],
    values: [f64; MOST_PARTS],
}

impl Losses {
    /// All parts of a loss that are called `names`, each 0.
    ///
    /// # Panics
    ///
    /// When there are none, or more than any model has.
    #[must_use]
    pub fn zero(names: &'static [&'static str]) -> Self {
        assert!((1..=MOST_PARTS).contains(&names.len()), "{names:?}");
        Self { names, values: [0.0; MOST_PARTS] }
    }

    /// The parts of a loss that are called `names`.
    ///
    /// # Panics
    ///
    /// When there is not one value for each name, or as [`zero`](Self::zero).
    #[must_use]
    pub fn new(names: &'static [&'static str], values: &[f64]) -> Self {
        let mut losses = Self::zero(names);
        losses.values_mut().copy_from_slice(values);
        losses
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.values().iter().sum()
    }

    /// The parts by name, in the model's order.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.names.iter().copied().zip(self.values)
    }

    /// The parts by name where there are several; one part alone is the loss itself.
    pub fn several(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let count = if self.names.len() > 1 { self.names.len() } else { 0 };
        self.parts().take(count)
    }

    /// Adds the parts of another batch.
    pub(crate) fn add(&mut self, other: &Self) {
        let others = other.values;
        self.values_mut().iter_mut().zip(others).for_each(|(value, other)| *value += other);
    }

    /// Makes the first part no number: for tests.
    pub(crate) fn spoil(&mut self) {
        self.values[0] = f64::NAN;
    }

    /// The sums over the ranks of a group, to the last bit.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    pub(crate) fn summed(
        &self,
        collective: &dyn Collective,
        name: &str,
    ) -> Result<Self, CollectiveError> {
        Ok(Self::new(self.names, &sum_all_exactly(collective, name, self.values())?))
    }

    fn values(&self) -> &[f64] {
        &self.values[..self.names.len()]
    }

    fn values_mut(&mut self) -> &mut [f64] {
        &mut self.values[..self.names.len()]
    }
}
