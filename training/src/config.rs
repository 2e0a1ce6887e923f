//! What a user writes to train a model: one TOML file, every field with its unit.
//!
//! A config is only what was *written*. [`TrainConfig::validate`](crate::TrainConfig::validate)
//! checks it across sections and against the data folder and makes a
//! [`TrainPlan`](crate::TrainPlan) of it, which is all that training reads. Unknown keys are
//! errors, choices are tables (`[model.gpt2]`), and whatever cannot be zero has a type that says
//! so.

use std::num::{NonZeroU64, NonZeroUsize};

use serde::{Deserialize, Serialize};

use crate::backend::{Activation, Precision, Recompute};
use crate::data::{MaskedLmConfig, SampleOrder, SplitWeights};
use crate::fine_tuning::FineTuneConfig;
use crate::model::Arrangement;
use crate::optim::{AdamWConfig, LossScaleConfig, ScheduleConfig};
use crate::parallel::{DEFAULT_TIMEOUT, ParallelDims};

/// A training run, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Seed of initial weights, sample order and dropout. The same seed gives the same run.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The numbers of activations and their gradients; parameters are `f32` in any case.
    #[serde(default)]
    pub precision: Precision,
    /// What a forward pass keeps for the backward pass. Changes memory and speed, no result.
    #[serde(default)]
    pub recompute: Recompute,
    /// `[model.…]`: what is trained.
    pub model: ModelConfig,
    /// `[finetune.…]`: what a pre-trained model is trained for; without it a model is pre-trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finetune: Option<FineTuneConfig>,
    /// `[batch]`: how much one step sees.
    pub batch: BatchConfig,
    /// `[optimizer]`: AdamW and clipping.
    pub optimizer: AdamWConfig,
    /// `[schedule]`: length of the run and learning rate.
    pub schedule: ScheduleConfig,
    /// `[loss_scale]`: the loss scale of `precision = "f16"`; its defaults where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScaleConfig>,
    /// `[parallel]`: how the model is spread over ranks.
    #[serde(default)]
    pub parallel: ParallelConfig,
    /// `[data]`: what is done with the data folder.
    #[serde(default)]
    pub data: DataConfig,
    /// `[validation]`: when to take the validation loss; without the section it is never taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationConfig>,
    /// `[checkpoint]`: when to save and what to keep.
    #[serde(default)]
    pub checkpoint: CheckpointConfig,
    /// `[logging]`: what the run folder gets beside `metrics.jsonl`.
    #[serde(default)]
    pub logging: LoggingConfig,
}

/// The seed of the original implementation.
fn default_seed() -> u64 {
    1234
}

/// The model, chosen by the name of its table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelConfig {
    /// `[model.gpt2]`
    Gpt2(Gpt2Section),
    /// `[model.bert]`
    Bert(BertSection),
}

/// `[model.bert]`: a masked language model that also tells the order of two segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BertSection {
    /// Transformer layers.
    pub num_layers: NonZeroUsize,
    /// Width of the residual stream.
    pub hidden_size: NonZeroUsize,
    /// Attention heads of the whole model; divides `hidden_size`, and is divided by
    /// `tensor_parallel_size`.
    pub num_attention_heads: NonZeroUsize,
    /// Tokens per sample, `[CLS]` and both `[SEP]` among them, which is also the number of learned
    /// positions. The paper: 512.
    #[serde(default = "default_bert_seq_length")]
    pub seq_length: NonZeroUsize,
    /// Tokens of the vocabulary, unpadded. It comes from the data folder's tokenizer; where it is
    /// given it has to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<NonZeroUsize>,
    /// Width of the MLP; four times `hidden_size` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn_hidden_size: Option<NonZeroUsize>,
    /// Probability of dropping an element of the embeddings and of each block's output. The paper:
    /// 0.1.
    #[serde(default = "default_dropout")]
    pub hidden_dropout: f64,
    /// Probability of dropping an attention probability. The paper: 0.1.
    #[serde(default = "default_dropout")]
    pub attention_dropout: f64,
    /// The nonlinearity of the MLP and of the head.
    #[serde(default)]
    pub activation: Activation,
    /// Added to the variance in layer norms. The original implementation: 1e-5.
    #[serde(default = "default_layer_norm_epsilon")]
    pub layer_norm_epsilon: f64,
    /// Standard deviation of initial weights; outputs of blocks get `init_std / √(2 · num_layers)`.
    /// The paper: 0.02.
    #[serde(default = "default_init_std")]
    pub init_std: f64,
    /// What a block's output is added to: what its norm got (`pre-norm`, figure 7b) or what that
    /// gave (`post-norm`, figure 7a, the original BERT's). The paper trains with `pre-norm`.
    #[serde(default)]
    pub arrangement: Arrangement,
}

fn default_bert_seq_length() -> NonZeroUsize {
    NonZeroUsize::new(512).expect("512 tokens")
}

/// `[model.gpt2]`: a left-to-right language model with pre-normalization and a tied head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt2Section {
    /// Transformer layers.
    pub num_layers: NonZeroUsize,
    /// Width of the residual stream.
    pub hidden_size: NonZeroUsize,
    /// Attention heads of the whole model; divides `hidden_size`, and is divided by
    /// `tensor_parallel_size`.
    pub num_attention_heads: NonZeroUsize,
    /// Tokens per sample, which is also the number of learned positions. The paper: 1,024.
    pub seq_length: NonZeroUsize,
    /// Tokens of the vocabulary, unpadded. It comes from the data folder's tokenizer; where it is
    /// given it has to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<NonZeroUsize>,
    /// Width of the MLP; four times `hidden_size` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn_hidden_size: Option<NonZeroUsize>,
    /// Probability of dropping an element of the embeddings and of each block's output. The paper:
    /// 0.1.
    #[serde(default = "default_dropout")]
    pub hidden_dropout: f64,
    /// Probability of dropping an attention probability. The paper: 0.1.
    #[serde(default = "default_dropout")]
    pub attention_dropout: f64,
    /// The MLP's nonlinearity.
    #[serde(default)]
    pub activation: Activation,
    /// Added to the variance in layer norms. The original implementation: 1e-5.
    #[serde(default = "default_layer_norm_epsilon")]
    pub layer_norm_epsilon: f64,
    /// Standard deviation of initial weights; outputs of blocks get `init_std / √(2 · num_layers)`.
    /// The paper: 0.02.
    #[serde(default = "default_init_std")]
    pub init_std: f64,
}

fn default_dropout() -> f64 {
    0.1
}

fn default_layer_norm_epsilon() -> f64 {
    1e-5
}

fn default_init_std() -> f64 {
    0.02
}

/// `[batch]`: how many samples one forward pass and one step see. A sample is a sequence; with
/// `[finetune.race]` it is a question, which is four sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchConfig {
    /// Samples per forward pass; what activation memory grows with. Changes no result beyond
    /// rounding.
    pub micro_batch_size: NonZeroUsize,
    /// Samples per optimizer step, over all ranks: a multiple of `micro_batch_size` times
    /// `data_parallel_size`. The paper: 512 for GPT-2, 16 or 32 questions for RACE.
    pub global_batch_size: NonZeroUsize,
}

/// `[parallel]`: how the model is spread over ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParallelConfig {
    /// Ranks that share every layer. Changes no result beyond rounding.
    pub tensor_parallel_size: NonZeroUsize,
    /// Copies of the model, each of which takes its share of every global batch. Changes no result
    /// beyond rounding.
    pub data_parallel_size: NonZeroUsize,
    /// Seconds that a rank waits for another before the run ends with an error. Time in which the
    /// whole process is stopped does not count.
    pub timeout_seconds: NonZeroU64,
}

impl ParallelConfig {
    /// The grid of ranks.
    #[must_use]
    pub fn dims(&self) -> ParallelDims {
        ParallelDims {
            tensor: self.tensor_parallel_size.get(),
            data: self.data_parallel_size.get(),
        }
    }
}

impl Default for ParallelConfig {
    fn default() -> Self {
        Self {
            tensor_parallel_size: NonZeroUsize::MIN,
            data_parallel_size: NonZeroUsize::MIN,
            timeout_seconds: NonZeroU64::new(DEFAULT_TIMEOUT.as_secs()).expect("ten minutes"),
        }
    }
}

/// `[data]`: what is done with the data. Which data, and by which weights, `--data` says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Weights by which documents are divided into training, validation and test, separated by `,`
    /// or `/`.
    #[serde(default)]
    pub split: SplitWeights,
    /// Order in which the samples of an epoch are visited.
    #[serde(default)]
    pub order: SampleOrder,
    /// Tokens that training sees in an epoch, for a dry run without a data folder; a data folder's
    /// own number takes its place. The paper: 35,917,398,016.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_tokens: Option<NonZeroU64>,
    /// What to do about a source that ends before the run: go through it again, which is told, or
    /// refuse the run.
    #[serde(default)]
    pub repeat: Repeat,
    /// `gpt2`, `bert`, or the `tokenizer.json` that made the tokens of shards without a manifest;
    /// data folders have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// `[data.masked_lm]`: how sentences are paired and masked, for `[model.bert]`; its defaults
    /// where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked_lm: Option<MaskedLmConfig>,
}

/// What to do about a source that ends before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// Go through it again, in another order, and say how often; the default.
    #[default]
    Warn,
    /// Refuse the run, naming the samples that are needed and present.
    Refuse,
}

/// `[validation]`: when to take the validation loss. It is also taken after the last step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidationConfig {
    /// Steps between two validations.
    pub interval_steps: NonZeroU64,
    /// Global batches per validation, from the start of the validation documents; all of them where
    /// it is not given. Of a blend by weight they are taken in its mix, no sample twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<NonZeroU64>,
}

/// `[checkpoint]`: when to save and what to keep. One is always saved after the last step and when
/// a run is stopped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between two checkpoints; none is due by steps where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_steps: Option<NonZeroU64>,
    /// Minutes between two checkpoints, beside `interval_steps` and counted from whichever was the
    /// last: what a death may cost at most. A part of a minute will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_minutes: Option<f64>,
    /// Newest checkpoints to keep, by their steps; all of them where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_last: Option<NonZeroUsize>,
    /// Checkpoints of steps that are a multiple of this are never deleted. They have to be saved to
    /// be kept: a multiple of `interval_steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_every: Option<NonZeroU64>,
}

/// `[logging]`: what the run folder gets beside `metrics.jsonl`. Changes no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingConfig {
    /// Whether the run folder gets a `tensorboard` folder, for `tensorboard --logdir`. On by
    /// default: some 200 bytes per step.
    pub tensorboard: bool,
}

impl Default for LoggingConfig {
    fn default() -> Self {
        Self { tensorboard: true }
    }
}
