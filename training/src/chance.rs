//! Whether a model that chooses among answers does better than one that guesses.

use tracing::warn;

use corpus::race::OPTIONS;

use crate::plan::TrainPlan;
use crate::report::TrainReport;

/// Standard deviations above the share that guessing gets: in one try of forty it gets more.
const DEVIATIONS: f64 = 2.0;

/// What a model that guesses gets of `questions` questions at the most, in nearly every try.
fn most_by_guessing(questions: u64) -> f64 {
    let chance = 1.0 / OPTIONS as f64;
    chance + DEVIATIONS * standard_error(chance, questions)
}

/// The standard deviation of a share that was measured on `count` targets.
pub(crate) fn standard_error(share: f64, count: u64) -> f64 {
    (share * (1.0 - share) / count as f64).sqrt()
}

/// Warns where the last validation of a run that has come to its end found no more right answers
/// than guessing does. Without a validation nothing is known.
pub(crate) fn warn_of_guessing(plan: &TrainPlan, report: &TrainReport) {
    let (Some(accuracy), Some(validation)) = (report.validation_accuracy, &plan.validation) else {
        return;
    };
    let questions = validation.num_samples;
    let most = most_by_guessing(questions);
    if !report.stopped && accuracy <= most {
        warn!(
            "not better than chance (25%) after {} steps: {:.1}% of {questions} questions are \
             answered rightly, and guessing gets up to {:.1}%; train it longer, or on more, or begin \
             with a model that was pre-trained for longer",
            report.steps,
            1e2 * accuracy,
            1e2 * most
        );
    }
}
