//! What of a configuration can be found wrong without its data.

use tracing::warn;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::backend::Precision;
use crate::config::{CheckpointConfig, TrainConfig};
use crate::fine_tuning::RunLength;
use crate::optim::{AdamWConfig, LossScaleConfig};

/// Largest loss scale that a run may begin with, 2^100; the loss and its gradients are `f32`.
const MAX_LOSS_SCALE: f64 = (1_u128 << 100) as f64;

/// Tokens of a question's row at the least: three special ones, and some of each of its texts.
const LEAST_ROW: usize = 8;

impl TrainConfig {
    /// What can be checked without the data: that the values are possible, that the model splits
    /// over the ranks, and that the batch does.
    pub(crate) fn check(&self, model: &Architecture, length: RunLength) -> Result<(), TrainError> {
        let parallel = self.parallel.dims();
        model.check_tensor_parallel(parallel.tensor)?;
        check_room(model)?;
        self.check_batch(parallel.data)?;
        self.check_length(model, length)?;
        self.check_optimizer()?;
        self.check_loss_scale()?;
        self.check_checkpoints()?;
        warn_about_schedule(length);
        Ok(())
    }

    /// Every copy of the model gets the same whole number of micro-batches.
    fn check_batch(&self, data_parallel_size: usize) -> Result<(), TrainError> {
        let (micro_batch_size, global_batch_size) =
            (self.batch.micro_batch_size.get(), self.batch.global_batch_size.get());
        if !global_batch_size.is_multiple_of(micro_batch_size) {
            let allowed = divisors(global_batch_size);
            return Err(TrainError::BatchIndivisible {
                global_batch_size,
                micro_batch_size,
                allowed,
            });
        }
        let num_micro_batches = global_batch_size / micro_batch_size;
        if !num_micro_batches.is_multiple_of(data_parallel_size) {
            return Err(TrainError::BatchesUnsplit {
                global_batch_size,
                micro_batch_size,
                data_parallel_size,
                allowed: divisors(num_micro_batches),
            });
        }
        Ok(())
    }

    /// Every token of the run can be counted.
    fn check_length(&self, model: &Architecture, length: RunLength) -> Result<(), TrainError> {
        let (train_steps, global_batch_size) =
            (length.train_steps, self.batch.global_batch_size.get());
        let tokens = (global_batch_size as u64)
            .checked_mul(model.tokens_per_sample() as u64)
            .and_then(|tokens| tokens.checked_mul(train_steps));
        match tokens {
            Some(_) => Ok(()),
            None => Err(TrainError::RunTooLong { train_steps, global_batch_size }),
        }
    }

    fn check_optimizer(&self) -> Result<(), TrainError> {
        let AdamWConfig { lr, min_lr, weight_decay, beta1, beta2, eps, clip_grad } = self.optimizer;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let below_one = |value: f64| (0.0..1.0).contains(&value);
        for (field, value, holds, expected) in [
            ("optimizer.lr", lr, positive(lr), "must be above 0"),
            ("optimizer.min_lr", min_lr, (0.0..=lr).contains(&min_lr), "must lie between 0 and lr"),
            (
                "optimizer.weight_decay",
                weight_decay,
                not_negative(weight_decay),
                "must be 0 or more",
            ),
            ("optimizer.beta1", beta1, below_one(beta1), "must be at least 0 and below 1"),
            ("optimizer.beta2", beta2, below_one(beta2), "must be at least 0 and below 1"),
            ("optimizer.eps", eps, positive(eps), "must be above 0"),
            ("optimizer.clip_grad", clip_grad, positive(clip_grad), "must be above 0"),
        ] {
            if !holds {
                return Err(TrainError::InvalidField {
                    field,
                    value: value.to_string(),
                    expected: expected.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The time between two checkpoints can be waited for, and what is to be kept for good is saved
    /// at some time.
    fn check_checkpoints(&self) -> Result<(), TrainError> {
        let CheckpointConfig { interval_steps, interval_minutes, keep_every, .. } = self.checkpoint;
        if let Some(minutes) = interval_minutes.filter(|it| !(it.is_finite() && *it > 0.0)) {
            return Err(TrainError::InvalidField {
                field: "checkpoint.interval_minutes",
                value: minutes.to_string(),
                expected: "must be above 0".to_owned(),
            });
        }
        match (interval_steps, keep_every) {
            (Some(interval), Some(every)) if !every.get().is_multiple_of(interval.get()) => {
                Err(TrainError::InvalidField {
                    field: "checkpoint.keep_every",
                    value: every.to_string(),
                    expected: format!("must be a multiple of interval_steps = {interval}"),
                })
            }
            (None, Some(every)) => Err(TrainError::InvalidField {
                field: "checkpoint.keep_every",
                value: every.to_string(),
                expected: "needs an interval_steps of which it is a multiple".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The loss scale that the precision needs; refuses one that has nothing to scale.
    pub(super) fn check_loss_scale(&self) -> Result<Option<LossScaleConfig>, TrainError> {
        let refuse = |field, value: f64, expected: &str| TrainError::InvalidField {
            field,
            value: value.to_string(),
            expected: expected.to_owned(),
        };
        if self.precision != Precision::F16 {
            return match &self.loss_scale {
                None => Ok(None),
                Some(_) => Err(TrainError::LossScaleUnused { precision: self.precision }),
            };
        }
        let config = self.loss_scale.clone().unwrap_or_default();
        if !(config.min.is_finite() && config.min > 0.0) {
            return Err(refuse("loss_scale.min", config.min, "must be above 0"));
        }
        // A loss that is multiplied by more is infinite whatever it is.
        if !(config.min..=MAX_LOSS_SCALE).contains(&config.initial) {
            let expected = "must lie between min and 2^100";
            return Err(refuse("loss_scale.initial", config.initial, expected));
        }
        Ok(Some(config))
    }
}

/// A row has room for a question and an article.
fn check_room(model: &Architecture) -> Result<(), TrainError> {
    match model {
        Architecture::BertChoice(bert) if bert.seq_length < LEAST_ROW => {
            Err(TrainError::InvalidField {
                field: "model.bert.seq_length",
                value: bert.seq_length.to_string(),
                expected: format!("{LEAST_ROW} or more is needed for a question and an article"),
            })
        }
        _ => Ok(()),
    }
}

/// A short run of a long run's configuration is a common test, so that this is no error.
fn warn_about_schedule(RunLength { train_steps, warmup_steps }: RunLength) {
    if warmup_steps > train_steps {
        warn!(
            "schedule.warmup_steps = {warmup_steps} is more than schedule.train_steps = \
             {train_steps}: the run ends before the learning rate has reached its peak"
        );
    }
}

/// The divisors of `number` up to 4,096, in ascending order: nobody means a larger one.
fn divisors(number: usize) -> Vec<usize> {
    (1..=number.min(4096)).filter(|&divisor| number.is_multiple_of(divisor)).collect()
}
