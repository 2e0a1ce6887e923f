//! What follows from the numbers by rule: whether bigger is better, and whether the paper's values
//! were reproduced.

use serde::{Deserialize, Serialize};

use super::facts::{Size, Task, TestSet};
use super::paper::PaperRow;

/// How much worse than the paper's a value of the same scale may be and still reproduce it: the
/// paper's corpus cannot be had, only one made by its rules.
const TOLERANCE: f64 = 0.05;

/// What counts as the same number of parameters or tokens: vocabularies are padded by the ranks.
const SAME_SCALE: f64 = 1.02;

/// Windows of the paper's WikiText103: tokens of one, and from one's start to the next's.
const PAPER_WINDOW: usize = 1_024;
const PAPER_OVERLAP: usize = 32;

/// Standard errors by which two accuracies must differ to be called different: chance alone makes
/// so great a difference once in twenty times.
const STANDARD_ERRORS: f64 = 2.0;

/// A number that a bigger model should have better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Loss on the documents held out of the corpus, in nats a token.
    ValidationLoss,
    /// Word perplexity on the text in WikiText103's form.
    WordPerplexity,
    /// Perplexity of the last words of LAMBADA.
    TargetPerplexity,
    /// Strict accuracy on the last words of LAMBADA.
    StrictAccuracy,
}

/// Whether the bigger model is the better one by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trend {
    /// By what.
    pub(crate) metric: Metric,
    /// The answer.
    pub(crate) verdict: Verdict,
    /// Sizes that have a value.
    pub(crate) sizes: usize,
    /// The pairs in which the bigger model is worse.
    pub(crate) worse: Vec<Pair>,
    /// The pairs in which the test set shows no difference.
    pub(crate) equal: Vec<Pair>,
}

/// The answer to the question whether bigger is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// In every pair of sizes the bigger one is better.
    Better,
    /// In no pair is the bigger one worse, but in some there is no difference that the test set can
    /// show.
    Undecided,
    /// In some pair the bigger one is worse.
    NotBetter,
    /// There are no two sizes with a value.
    TooFew,
}

/// Two sizes, and what a metric says of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// Name of the one with fewer parameters.
    pub(crate) smaller: String,
    /// Name of the one with more.
    pub(crate) bigger: String,
    /// Value of the smaller.
    pub(crate) smaller_value: f64,
    /// Value of the bigger.
    pub(crate) bigger_value: f64,
}

/// How a value of ours stands to one of the paper's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// Name of the [`PaperRow`].
    pub(crate) paper_row: String,
    /// The metric.
    pub(crate) metric: Metric,
    /// The paper's value.
    pub(crate) paper_value: f64,
    /// Name of our size: the one that stands beside the row, or the biggest where it is no bigger
    /// than the row.
    pub(crate) size: Option<String>,
    /// Our value.
    pub(crate) our_value: Option<f64>,
    /// Ours divided by the paper's, where both are of the published test set.
    pub(crate) ratio: Option<f64>,
    /// What that means.
    pub(crate) outcome: Outcome,
}

/// Whether a value of the paper's was reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// At the paper's scale, our value is no more than 5% worse.
    Reproduced,
    /// At the paper's scale, our value is worse by more.
    NotReproduced,
    /// The comparison is between different things: less was trained, or something else asked.
    NotAtThisScale {
        /// How many times as many parameters the paper's model has; `None` where as many.
        times_parameters: Option<f64>,
        /// How many times as many tokens it saw; `None` where as many.
        times_tokens: Option<f64>,
        /// Whether our value is of the published test set.
        published_test_set: bool,
        /// Whether our value is of the whole test set, and not of a part.
        whole_test_set: bool,
        /// Whether a prediction sees what it saw in the paper.
        paper_windows: bool,
    },
    /// There is no value of ours.
    NotMeasured,
}

impl Metric {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 4] =
        [Self::ValidationLoss, Self::WordPerplexity, Self::TargetPerplexity, Self::StrictAccuracy];

    /// Its name in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ValidationLoss => "validation loss",
            Self::WordPerplexity => "WikiText103 word perplexity",
            Self::TargetPerplexity => "LAMBADA target perplexity",
            Self::StrictAccuracy => "LAMBADA strict accuracy",
        }
    }

    /// Its value for `size`; none that is no number.
    pub(crate) fn of(self, size: &Size) -> Option<f64> {
        let value = match self {
            Self::ValidationLoss => size.training.validation_loss,
            Self::WordPerplexity => size.wikitext103.as_ref().map(|it| it.word_perplexity),
            Self::TargetPerplexity => size.lambada.as_ref().map(|it| it.target_perplexity),
            Self::StrictAccuracy => size.lambada.as_ref().map(|it| it.strict_accuracy),
        };
        value.filter(|it| it.is_finite())
    }

    /// The paper's value; it prints no others.
    pub(super) fn of_paper(self, row: &PaperRow) -> Option<f64> {
        match self {
            Self::ValidationLoss | Self::TargetPerplexity => None,
            Self::WordPerplexity => row.word_perplexity,
            Self::StrictAccuracy => row.strict_accuracy,
        }
    }

    fn higher_is_better(self) -> bool {
        self == Self::StrictAccuracy
    }

    /// Whether the value of `size` is of all of its test set.
    fn is_whole(self, size: &Size) -> bool {
        !match self {
            Self::ValidationLoss => false,
            Self::WordPerplexity => size.wikitext103.as_ref().is_some_and(|it| it.partial),
            Self::TargetPerplexity | Self::StrictAccuracy => {
                size.lambada.as_ref().is_some_and(|it| it.partial)
            }
        }
    }

    /// Whether a text was cut into windows as in the paper; passages fit into one.
    fn has_paper_windows(self, size: &Size) -> bool {
        match (self, &size.wikitext103) {
            (Self::WordPerplexity, Some(score)) => {
                (score.window, score.overlap) == (PAPER_WINDOW, PAPER_OVERLAP)
            }
            _ => true,
        }
    }

    /// Below this two values are not different.
    fn least_difference(self, [one, other]: [&Size; 2]) -> f64 {
        match (self, &one.lambada, &other.lambada) {
            (Self::StrictAccuracy, Some(one), Some(other)) => {
                STANDARD_ERRORS
                    * standard_error(
                        (one.strict_accuracy, one.examples),
                        (other.strict_accuracy, other.examples),
                    )
            }
            _ => 0.0,
        }
    }
}

/// Standard error of the difference of two shares, were they of one chance: each share's own error
/// is 0 where nothing was right, as if that could not happen otherwise.
fn standard_error((one, ones): (f64, u64), (other, others): (f64, u64)) -> f64 {
    let [ones, others] = [ones.max(1) as f64, others.max(1) as f64];
    let chance = (one * ones + other * others) / (ones + others);
    (chance * (1.0 - chance) * (1.0 / ones + 1.0 / others)).sqrt()
}

impl Trend {
    /// The trend over `sizes`, which are in the order of their parameters.
    pub(crate) fn of(metric: Metric, sizes: &[Size]) -> Self {
        let valued: Vec<_> =
            sizes.iter().filter_map(|size| Some((size, metric.of(size)?))).collect();
        let (mut worse, mut equal, mut pairs) = (Vec::new(), Vec::new(), 0);
        for (index, &(smaller, smaller_value)) in valued.iter().enumerate() {
            for &(bigger, bigger_value) in &valued[index + 1..] {
                if bigger.parameters == smaller.parameters {
                    continue;
                }
                pairs += 1;
                let gain = match metric.higher_is_better() {
                    true => bigger_value - smaller_value,
                    false => smaller_value - bigger_value,
                };
                let pair = || Pair {
                    smaller: smaller.name.clone(),
                    bigger: bigger.name.clone(),
                    smaller_value,
                    bigger_value,
                };
                if gain.abs() <= metric.least_difference([smaller, bigger]) {
                    equal.push(pair());
                } else if gain < 0.0 {
                    worse.push(pair());
                }
            }
        }
        let verdict = match (pairs, worse.is_empty(), equal.is_empty()) {
            (0, ..) => Verdict::TooFew,
            (_, false, _) => Verdict::NotBetter,
            (_, true, false) => Verdict::Undecided,
            (_, true, true) => Verdict::Better,
        };
        Self { metric, verdict, sizes: valued.len(), worse, equal }
    }
}

impl Comparison {
    /// Every value that the paper printed of its own models, beside ours. `sizes` are in the order
    /// of their parameters.
    pub(crate) fn all(paper: &[PaperRow], sizes: &[Size], test_sets: &[TestSet]) -> Vec<Self> {
        let mut comparisons = Vec::new();
        for row in paper.iter().filter(|row| row.megatron) {
            // A model beyond the row's size that stands beside another row says nothing of this one.
            let is_no_bigger = |size: &&Size| {
                row.parameters.is_some_and(|it| size.parameters as f64 <= it as f64 * SAME_SCALE)
            };
            let size = sizes
                .iter()
                .find(|size| size.paper_row.as_ref() == Some(&row.name))
                .or(sizes.last().filter(is_no_bigger));
            for (metric, task) in [
                (Metric::WordPerplexity, Task::WikiText103),
                (Metric::StrictAccuracy, Task::Lambada),
            ] {
                let published = test_sets.iter().any(|it| it.task == task && it.published);
                comparisons.extend(Self::of(row, metric, size, published));
            }
        }
        comparisons
    }

    fn of(
        row: &PaperRow,
        metric: Metric,
        size: Option<&Size>,
        published_test_set: bool,
    ) -> Option<Self> {
        let paper_value = metric.of_paper(row)?;
        let our_value = size.and_then(|size| metric.of(size));
        let outcome = match (size, our_value) {
            (Some(size), Some(ours)) => {
                let times = |paper: Option<u64>, ours: u64| {
                    paper
                        .map(|paper| paper as f64 / ours.max(1) as f64)
                        .filter(|times| !(1.0 / SAME_SCALE..=SAME_SCALE).contains(times))
                };
                let times_parameters = times(row.parameters, size.parameters);
                let times_tokens = times(row.tokens, size.training.tokens);
                let is_near = match metric.higher_is_better() {
                    true => ours >= paper_value * (1.0 - TOLERANCE),
                    false => ours <= paper_value * (1.0 + TOLERANCE),
                };
                let whole_test_set = metric.is_whole(size);
                let paper_windows = metric.has_paper_windows(size);
                let is_alike = published_test_set && whole_test_set && paper_windows;
                match (times_parameters, times_tokens, is_alike, is_near) {
                    (None, None, true, true) => Outcome::Reproduced,
                    (None, None, true, false) => Outcome::NotReproduced,
                    _ => Outcome::NotAtThisScale {
                        times_parameters,
                        times_tokens,
                        published_test_set,
                        whole_test_set,
                        paper_windows,
                    },
                }
            }
            _ => Outcome::NotMeasured,
        };
        Some(Self {
            paper_row: row.name.clone(),
            metric,
            paper_value,
            size: size.map(|size| size.name.clone()),
            our_value,
            ratio: our_value.filter(|_| published_test_set).map(|ours| ours / paper_value),
            outcome,
        })
    }
}
