//! `[finetune]`: how each pre-trained model is fine-tuned, once from every seed.

use std::num::NonZeroU64;

use corpus::race::OPTIONS;
use serde::{Deserialize, Serialize};
use training::TrainConfig;
use training::backend::Recompute;
use training::config::{
    BatchConfig, CheckpointConfig, DataConfig, LoggingConfig, ValidationConfig,
};
use training::fine_tuning::{FineTuneConfig, RaceConfig};
use training::optim::{AdamWConfig, ScheduleConfig};

use super::{ReproduceConfig, SizeSection};

/// `[finetune]`: a [`TrainConfig`] with `[finetune.race]` and without model and seed; precision, loss
/// scale and ranks are those of `[train]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct FineTuneSection {
    /// Seeds of the classifier's initial weights, of the order of the questions and of dropout: a
    /// model for each. The paper: five of them.
    pub(in super::super) seeds: Vec<u64>,
    /// `[finetune.race]`
    pub(in super::super) race: RaceConfig,
    /// What a forward pass keeps for the backward pass.
    #[serde(default)]
    pub(in super::super) recompute: Recompute,
    /// `[finetune.batch]`: in questions, of four sequences each.
    pub(in super::super) batch: BatchConfig,
    /// `[finetune.optimizer]`
    pub(in super::super) optimizer: AdamWConfig,
    /// `[finetune.schedule]`
    pub(in super::super) schedule: ScheduleConfig,
    /// `[finetune.validation]`: when `dev` is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) validation: Option<ValidationConfig>,
    /// `[finetune.checkpoint]`
    #[serde(default)]
    pub(in super::super) checkpoint: CheckpointConfig,
}

impl ReproduceConfig {
    /// The seeds of the fine-tunings; none where nothing is fine-tuned.
    pub(in super::super) fn seeds(&self) -> &[u64] {
        self.finetune.as_ref().map_or(&[], |finetune| &finetune.seeds)
    }

    /// How `size` is fine-tuned from `seed`; `None` where nothing is fine-tuned.
    pub(in super::super) fn fine_tune_config(
        &self,
        size: &SizeSection,
        seed: u64,
    ) -> Option<TrainConfig> {
        let FineTuneSection {
            seeds: _,
            race,
            recompute,
            batch,
            optimizer,
            schedule,
            validation,
            checkpoint,
        } = self.finetune.clone()?;
        Some(TrainConfig {
            seed,
            precision: self.train.precision,
            recompute,
            model: size.model.clone(),
            finetune: Some(FineTuneConfig::Race(race)),
            batch,
            optimizer,
            schedule,
            loss_scale: self.train.loss_scale.clone(),
            parallel: self.train.parallel.clone(),
            data: DataConfig::default(),
            validation,
            checkpoint,
            logging: LoggingConfig::default(),
        })
    }

    /// The same for a plan without data, on `questions` questions.
    pub(in super::super) fn planned_fine_tune_config(
        &self,
        size: &SizeSection,
        questions: u64,
    ) -> Option<TrainConfig> {
        let mut config = self.fine_tune_config(size, self.seeds().first().copied().unwrap_or(0))?;
        let tokens = questions * (OPTIONS * size.seq_length().get()) as u64;
        config.data.epoch_tokens = NonZeroU64::new(tokens);
        Some(config)
    }
}
