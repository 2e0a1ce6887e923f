//! From gradients to new weights: the loss scale, clipping by the global norm, AdamW, and the
//! learning rate of each step.
//!
//! The optimizer is this crate's own. burn's Adam has no parameter groups, so that biases and layer
//! norms would decay, and its clipping looks at one tensor at a time. Everything here works on flat
//! `f32` slices in the order of the model's parameter table; only [`gradients`] and [`adamw`] know
//! that a module stands behind them.

pub mod adamw;
pub mod clip;
pub mod gradients;
pub mod loss_scale;
pub mod schedule;

pub use adamw::{AdamW, AdamWConfig, Moments, Parameter, Update};
pub use clip::{clip_coefficient, grad_norm};
pub use gradients::GradientBuffer;
pub use loss_scale::{DynamicLossScaler, LossScaleConfig, LossScalerState};
pub use schedule::{Decay, LrSchedule, ScheduleConfig, ScheduleRule};
