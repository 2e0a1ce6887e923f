//! Which of the paper's statements on the two arrangements hold, by rule.
//!
//! Paper: figure 7 and section 5.3. The original arrangement does well on the 336M model; beyond it
//! the rearranged one trains stably, and to a lower loss.

use serde::{Deserialize, Serialize};

use super::super::numerals::loss;
use super::facts::{Arrangement, Run};

/// Losses count as different from so many standard errors of their difference on.
const ERRORS: f64 = 2.0;

/// A statement, and whether it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statement {
    /// What is stated.
    pub(crate) claim: Claim,
    /// Whether it is so; `None` where it cannot be told: runs are lacking, or their losses lie less
    /// than [`ERRORS`] standard errors apart.
    pub(crate) holds: Option<bool>,
    /// The two runs whose validation losses tell: the one that is to have the lower loss first.
    /// Infinite is the loss of a run that diverged, `null` in JSON.
    pub(crate) runs: Option<[RunLoss; 2]>,
}

/// A run by its loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunLoss {
    /// Its name.
    pub(crate) run: String,
    /// Loss of masked tokens on held-out documents at the end; `None` where it diverged.
    pub(crate) validation_loss: Option<f64>,
}

/// What can be stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// Rearranged, the deepest model has a lower loss than the shallowest.
    DeeperIsBetterPreNorm,
    /// At the greatest depth the rearranged model has a lower loss than the original one.
    PreNormIsBetterWhenDeep,
    /// In the original arrangement the deepest model gains less over the shallowest than rearranged.
    PostNormGainsLess,
}

impl Statement {
    /// All statements on `runs`.
    pub(crate) fn all(runs: &[Run]) -> Vec<Self> {
        use Arrangement::{PostNorm, PreNorm};
        let [pre, post] = [PreNorm, PostNorm].map(|arrangement| Ends::of(runs, arrangement));
        let deeper = pre.as_ref().and_then(|it| Self::lower(it.deepest, it.shallowest));
        let deep = pre.as_ref().zip(post.as_ref());
        let deep = deep.filter(|(pre, post)| pre.depths() == post.depths());
        let better = deep.and_then(|(pre, post)| Self::lower(pre.deepest, post.deepest));
        let less = deep.and_then(|(pre, post)| {
            let [pre_gain, post_gain] = [pre.gain()?, post.gain()?];
            let error = pre.gain_error()?.hypot(post.gain_error()?);
            let runs = [post.shallowest, post.deepest].map(RunLoss::of);
            Some((lower([post_gain, pre_gain], error), runs))
        });
        let statement = |claim, found: Option<(Option<bool>, [RunLoss; 2])>| match found {
            Some((holds, runs)) => Self { claim, holds, runs: Some(runs) },
            None => Self { claim, holds: None, runs: None },
        };
        vec![
            statement(Claim::DeeperIsBetterPreNorm, deeper),
            statement(Claim::PreNormIsBetterWhenDeep, better),
            statement(Claim::PostNormGainsLess, less),
        ]
    }

    /// Whether the loss of `one` is lower than that of `other`, as far as it can be told.
    fn lower(one: &Run, other: &Run) -> Option<(Option<bool>, [RunLoss; 2])> {
        let losses = [one.validation_loss()?, other.validation_loss()?];
        let error = one.validation_error()?.hypot(other.validation_error()?);
        (one.name != other.name).then(|| (lower(losses, error), [one, other].map(RunLoss::of)))
    }

    /// What is stated, as a sentence without its end.
    pub(crate) fn sentence(&self) -> &'static str {
        match self.claim {
            Claim::DeeperIsBetterPreNorm => "rearranged (b), the deeper model has the lower loss",
            Claim::PreNormIsBetterWhenDeep => {
                "at the greater depth, the rearranged model (b) has a lower loss than the original (a)"
            }
            Claim::PostNormGainsLess => "the original arrangement (a) gains less from depth",
        }
    }

    /// What became of it.
    pub(crate) fn label(&self) -> &'static str {
        match self.holds {
            Some(true) => "so it is here",
            Some(false) => "NOT so here",
            None => "cannot be told",
        }
    }

    /// The losses that tell.
    pub(crate) fn reason(&self) -> String {
        let Some(runs) = &self.runs else {
            return "the runs that would tell are not there".to_owned();
        };
        let told = if self.holds.is_none() { ", too close to tell or both diverged" } else { "" };
        let text = |run: &RunLoss| match run.validation_loss {
            Some(value) => format!("{} {}", run.run, loss(value)),
            None => format!("{} diverged", run.run),
        };
        format!("{}{told}", runs.each_ref().map(text).join(", "))
    }
}

/// Whether the first of two numbers is lower, where they lie far enough apart for their `error`.
fn lower([first, second]: [f64; 2], error: f64) -> Option<bool> {
    let difference = second - first;
    (difference.abs() > ERRORS * error).then_some(difference > 0.0) // false of NaN
}

impl RunLoss {
    fn of(run: &Run) -> Self {
        Self {
            run: run.name.clone(),
            validation_loss: run.validation_loss().filter(|loss| loss.is_finite()),
        }
    }
}

/// The shallowest and the deepest run of an arrangement.
struct Ends<'r> {
    shallowest: &'r Run,
    deepest: &'r Run,
}

impl<'r> Ends<'r> {
    fn of(runs: &'r [Run], arrangement: Arrangement) -> Option<Self> {
        let of_it = || runs.iter().filter(|run| run.arrangement == arrangement);
        let shallowest = of_it().min_by_key(|run| run.model.num_layers)?;
        let deepest = of_it().max_by_key(|run| run.model.num_layers)?;
        Some(Self { shallowest, deepest })
    }

    fn depths(&self) -> [usize; 2] {
        [self.shallowest.model.num_layers, self.deepest.model.num_layers]
    }

    /// How much lower the loss of the deepest run is.
    fn gain(&self) -> Option<f64> {
        let [shallow, deep] = [self.shallowest, self.deepest].map(Run::validation_loss);
        let gain = shallow? - deep?;
        (self.shallowest.name != self.deepest.name).then_some(gain)
    }

    /// Its standard error.
    fn gain_error(&self) -> Option<f64> {
        Some(self.shallowest.validation_error()?.hypot(self.deepest.validation_error()?))
    }
}
