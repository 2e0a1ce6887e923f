//! The learning rate of every update: a linear warm-up, then a decay to a minimum.
//!
//! Two rules share one shape. The paper's ends its decay at the last step. The original
//! implementation (version 1.0) divides by the *total* number of steps, never reaches the end of
//! the curve, and steps its scheduler after the optimizer, so that its first update has learning
//! rate 0. Both are a pure function of the step: nothing to save, nothing to restore.

use std::f64::consts::PI;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// `[schedule]`: how long to train, and how the learning rate moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Optimizer steps of the whole run. The paper: 300,000 for GPT-2. A fine-tuning may have
    /// `finetune.race.epochs` in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_steps: Option<NonZeroU64>,
    /// Steps over which the learning rate rises linearly from 0 to its peak. The paper: 3,000 for
    /// GPT-2. A run of fewer steps ends below the peak, and says so. A fine-tuning may have
    /// `finetune.race.warmup_share` in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_steps: Option<u64>,
    /// Shape of the decay after the warm-up. The paper: `cosine` for GPT-2, `linear` for BERT.
    #[serde(default)]
    pub decay: Decay,
    /// Whose rule says where the decay ends.
    #[serde(default)]
    pub rule: ScheduleRule,
}

/// Shape of the decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// Half a cosine from the peak to 0; the paper's choice for GPT-2, and the default.
    #[default]
    Cosine,
    /// A straight line from the peak to 0; the paper's choice for BERT.
    Linear,
    /// No decay: the peak until the end.
    Constant,
}

/// Whose rule says where the decay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleRule {
    /// The paper's text: the decay takes the `train_steps - warmup_steps` steps after the warm-up.
    /// Update `s` uses step `s`.
    #[default]
    Paper,
    /// The original implementation, version 1.0: the decay is divided by `train_steps`, the step
    /// stops rising at `train_steps - warmup_steps`, and update `s` uses step `s - 1`.
    MegatronV1,
}

/// Learning rate as a function of the step.
#[derive(Debug, Clone, PartialEq)]
pub struct LrSchedule {
    /// Learning rate at the end of the warm-up.
    pub peak: f64,
    /// Floor of the decay; the warm-up may lie below it under the paper's rule and under the
    /// original's alike.
    pub min: f64,
    /// Steps of the warm-up.
    pub warmup_steps: u64,
    /// Steps of the whole run.
    pub train_steps: u64,
    /// Shape of the decay.
    pub decay: Decay,
    /// Where the decay ends.
    pub rule: ScheduleRule,
}

impl LrSchedule {
    /// Learning rate that the optimizer uses in its update number `update`, counted from 1.
    pub fn for_update(&self, update: u64) -> f64 {
        match self.rule {
            ScheduleRule::Paper => self.at(update),
            ScheduleRule::MegatronV1 => self.at(update.saturating_sub(1)),
        }
    }

    /// Learning rate at step `step` of the curve, counted from 0.
    ///
    /// With peak `P`, warm-up `w`, total `N`: `P·t/w` up to `w`. Then, by the paper's rule, `x =
    /// min(1, (t-w)/(N-w))` and the decay's value at `x`. By the original's, `m = min(t, N-w)`
    /// takes the place of `t` in both parts, though `t` still tells where the warm-up ends:
    /// `P·m/w`, and the decay's value at `(m-w)/N`, which lies above the peak where the warm-up is
    /// longer than half the run. Never below the minimum after the warm-up, nor below 0 in it.
    pub fn at(&self, step: u64) -> f64 {
        let (warmup, total) = (i128::from(self.warmup_steps), i128::from(self.train_steps));
        let (step, end) = (i128::from(step), total - warmup);
        let counted = match self.rule {
            ScheduleRule::Paper => step,
            ScheduleRule::MegatronV1 => step.min(end),
        };
        if warmup > 0 && step <= warmup {
            return self.peak * counted.max(0) as f64 / warmup as f64;
        }
        let decayed_steps = (counted - warmup) as f64;
        let progress = match self.rule {
            ScheduleRule::Paper if end <= 0 => 1.0,
            ScheduleRule::Paper => (decayed_steps / end as f64).min(1.0),
            ScheduleRule::MegatronV1 => decayed_steps / total as f64,
        };
        let value = match self.decay {
            Decay::Cosine => self.peak / 2.0 * (1.0 + (PI * progress).cos()),
            Decay::Linear => self.peak * (1.0 - progress),
            Decay::Constant => self.peak,
        };
        value.max(self.min)
    }
}
