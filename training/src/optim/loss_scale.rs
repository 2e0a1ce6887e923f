//! The dynamic loss scale of `f16`.
//!
//! Gradients that are too small for the format are lost, so the loss is multiplied by a scale
//! before the backward pass and the gradients divided by it after. Whatever overflows at that scale
//! is infinite or no number: the step is skipped, and the scale halved once that has happened
//! `hysteresis` times since the scale last rose. After `window` steps in a row without overflow it
//! is doubled. This is the rule of the original implementation's `DynamicLossScaler`.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// Factor of a step up or down.
const FACTOR: f64 = 2.0;

/// `[loss_scale]`: how the loss is scaled where `precision = "f16"`.
///
/// The defaults are the original implementation's, but for `max_skipped`, which it has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossScaleConfig {
    /// Scale of the first step: 2^32.
    pub initial: f64,
    /// Steps in a row without overflow after which the scale doubles.
    pub window: NonZeroU64,
    /// Overflows since the scale last rose of which the last, and every later one, halves it.
    pub hysteresis: NonZeroU32,
    /// The floor.
    pub min: f64,
    /// Steps skipped in a row at the floor after which training stops: nothing that a scale can
    /// mend is wrong then.
    pub max_skipped: NonZeroU64,
}

impl Default for LossScaleConfig {
    fn default() -> Self {
        Self {
            initial: 4_294_967_296.0,
            window: NonZeroU64::new(1000).expect("not zero"),
            hysteresis: NonZeroU32::new(2).expect("not zero"),
            min: 1.0,
            max_skipped: NonZeroU64::new(20).expect("not zero"),
        }
    }
}

/// What has to survive a resumption, beside the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScalerState {
    /// Scale of the next step.
    pub scale: f64,
    /// Steps in a row without overflow.
    pub clean_steps: u64,
    /// Overflows that are left until one halves the scale, that one included.
    pub hysteresis_left: u32,
    /// Steps in a row that were skipped at the floor.
    pub stuck_steps: u64,
}

/// The loss scale from step to step; the same on every rank.
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicLossScaler {
    config: LossScaleConfig,
    state: LossScalerState,
}

impl DynamicLossScaler {
    /// The scaler before the first step.
    #[must_use]
    pub fn new(config: LossScaleConfig) -> Self {
        let state = LossScalerState {
            scale: config.initial,
            clean_steps: 0,
            hysteresis_left: config.hysteresis.get(),
            stuck_steps: 0,
        };
        Self { config, state }
    }

    /// The scaler that goes on from `state`.
    #[must_use]
    pub fn resumed(config: LossScaleConfig, state: LossScalerState) -> Self {
        Self { config, state }
    }

    /// What the loss of the next step is multiplied by.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.state.scale
    }

    /// What a checkpoint keeps.
    #[must_use]
    pub fn state(&self) -> LossScalerState {
        self.state
    }

    /// Takes note of a step: whether anything in it overflowed.
    pub fn update(&mut self, overflowed: bool) {
        let LossScaleConfig { window, hysteresis, min, .. } = self.config;
        let state = &mut self.state;
        if overflowed {
            let is_at_floor = state.scale <= min;
            state.stuck_steps = if is_at_floor { state.stuck_steps + 1 } else { 0 };
            state.clean_steps = 0;
            match state.hysteresis_left {
                ..=1 => state.scale = (state.scale / FACTOR).max(min),
                _ => state.hysteresis_left -= 1,
            }
            return;
        }
        state.stuck_steps = 0;
        state.clean_steps += 1;
        if state.clean_steps.is_multiple_of(window.get()) {
            state.scale *= FACTOR;
            state.hysteresis_left = hysteresis.get();
        }
    }

    /// How many steps in a row were skipped at the floor, once training should stop for it.
    #[must_use]
    pub fn stuck(&self) -> Option<u64> {
        let skipped = self.state.stuck_steps;
        (skipped >= self.config.max_skipped.get()).then_some(skipped)
    }
}
