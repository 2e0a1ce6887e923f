//! The share of items that a model answered rightly, and how far it can be trusted.

/// How many of some items are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accuracy {
    /// Items that are right.
    pub right: u64,
    /// Items.
    pub items: u64,
}

impl Accuracy {
    /// Of items of which each is right or not.
    #[must_use]
    pub fn of(items: impl IntoIterator<Item = bool>) -> Self {
        items.into_iter().fold(Self::default(), |sum, is_right| Self {
            right: sum.right + u64::from(is_right),
            items: sum.items + 1,
        })
    }

    /// Of the items of both: each counts once, whichever part it is of.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self { right: self.right + other.right, items: self.items + other.items }
    }

    /// The share `p` of the items that are right; no number where there are none.
    #[must_use]
    pub fn value(self) -> f64 {
        self.right as f64 / self.items as f64
    }

    /// The standard error of [`value`](Self::value), `√(p (1 - p) / items)`.
    #[must_use]
    pub fn standard_error(self) -> f64 {
        self.error_over(self.items as f64)
    }

    /// The standard error as lm-evaluation-harness gives it, from the sample's deviation:
    /// `√(p (1 - p) / (items - 1))`. Of one item no deviation is known; its error is given as 0.
    #[must_use]
    pub fn sample_standard_error(self) -> f64 {
        self.error_over((self.items as f64 - 1.0).max(1.0))
    }

    fn error_over(self, items: f64) -> f64 {
        let share = self.value();
        (share * (1.0 - share) / items).sqrt()
    }
}
