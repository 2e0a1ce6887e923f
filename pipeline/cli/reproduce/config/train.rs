//! `[train]`: how every model is trained.

use serde::{Deserialize, Serialize};
use training::TrainConfig;
use training::backend::{Precision, Recompute};
use training::config::{
    BatchConfig, CheckpointConfig, DataConfig, LoggingConfig, ParallelConfig, ValidationConfig,
};
use training::optim::{AdamWConfig, LossScaleConfig, ScheduleConfig};

use super::{ReproduceConfig, SizeSection};

/// `[train]`: a [`TrainConfig`] without the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct TrainSection {
    /// Seed of initial weights, sample order and dropout.
    #[serde(default = "default_seed")]
    pub(in super::super) seed: u64,
    /// The numbers of activations and their gradients.
    #[serde(default)]
    pub(in super::super) precision: Precision,
    /// What a forward pass keeps for the backward pass.
    #[serde(default)]
    pub(in super::super) recompute: Recompute,
    /// `[train.batch]`
    pub(in super::super) batch: BatchConfig,
    /// `[train.optimizer]`
    pub(in super::super) optimizer: AdamWConfig,
    /// `[train.schedule]`
    pub(in super::super) schedule: ScheduleConfig,
    /// `[train.loss_scale]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) loss_scale: Option<LossScaleConfig>,
    /// `[train.parallel]`
    #[serde(default)]
    pub(in super::super) parallel: ParallelConfig,
    /// `[train.data]`
    #[serde(default)]
    pub(in super::super) data: DataConfig,
    /// `[train.validation]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) validation: Option<ValidationConfig>,
    /// `[train.checkpoint]`
    #[serde(default)]
    pub(in super::super) checkpoint: CheckpointConfig,
    /// `[train.logging]`
    #[serde(default)]
    pub(in super::super) logging: LoggingConfig,
}

/// The seed of the original implementation.
fn default_seed() -> u64 {
    1234
}

impl ReproduceConfig {
    /// How `size` is trained: the section `[train]` with its model.
    pub(in super::super) fn train_config(&self, size: &SizeSection) -> TrainConfig {
        let TrainSection {
            seed,
            precision,
            recompute,
            batch,
            optimizer,
            schedule,
            loss_scale,
            parallel,
            data,
            validation,
            checkpoint,
            logging,
        } = self.train.clone();
        let model = size.model.clone();
        TrainConfig {
            seed,
            precision,
            recompute,
            model,
            finetune: None,
            batch,
            optimizer,
            schedule,
            loss_scale,
            parallel,
            data,
            validation,
            checkpoint,
            logging,
        }
    }
}
