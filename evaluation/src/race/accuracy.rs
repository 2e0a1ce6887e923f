//! How many questions of each level were answered rightly.

use corpus::race::RaceLevel;

use super::CHANCE;
use crate::accuracy::Accuracy;

/// The accuracies on both levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelAccuracy {
    /// On the examinations of middle school.
    pub middle: Accuracy,
    /// On those of high school.
    pub high: Accuracy,
}

impl LevelAccuracy {
    /// Of questions, each of a level and answered rightly or not.
    #[must_use]
    pub fn of(questions: impl IntoIterator<Item = (RaceLevel, bool)>) -> Self {
        questions.into_iter().fold(Self::default(), |mut sum, (level, is_right)| {
            let of_level = match level {
                RaceLevel::Middle => &mut sum.middle,
                RaceLevel::High => &mut sum.high,
            };
            *of_level = of_level.joined(Accuracy::of([is_right]));
            sum
        })
    }

    /// On all questions, each of which counts once.
    #[must_use]
    pub fn all(self) -> Accuracy {
        self.middle.joined(self.high)
    }

    /// Whether the accuracy on all questions is more than two standard errors of a guess above that
    /// of a guess.
    #[must_use]
    pub fn is_better_than_chance(self) -> bool {
        let all = self.all();
        let error = (CHANCE * (1.0 - CHANCE) / all.items as f64).sqrt();
        all.value() - CHANCE > 2.0 * error
    }
}
