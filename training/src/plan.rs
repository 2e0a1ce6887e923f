//! What a run means: a [`TrainConfig`] that was checked across sections and against its data, with
//! everything derived.
//!
//! [`TrainConfig::validate`] is where a user's mistakes are found: before a weight is drawn, a
//! thread started or a folder made. The rest of the crate reads the plan alone.

mod checks;
mod model;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corpus::{Observer, Silent, TokenizerIdentity};
use serde_json::Value;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::backend::{Precision, Recompute};
use crate::checkpoint::{CheckpointError, InitialWeights};
use crate::config::{CheckpointConfig, LoggingConfig, ModelConfig, TrainConfig};
use crate::data::input::DataInputs;
use crate::data::questions::RaceInput;
use crate::data::run_data::RunData;
use crate::data::training_data::DataRequest;
use crate::data::{Batch, BatchSampler, DataRecord, DataSourceSummary, SampleForm, WeightedPath};
use crate::faults::{FaultKind, Faults};
use crate::fine_tuning::{self, RunLength};
use crate::optim::{AdamWConfig, LossScaleConfig, LrSchedule};
use crate::parallel::{DataParallelGroup, ParallelDims};
use crate::state::{Injected, StepSettings};

/// What a run is asked beside its configuration: where it reads and writes, whether it may go on
/// with an earlier one, and what it writes down. Nothing here changes a result.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The data folders and shards, with their weights.
    pub data: Vec<WeightedPath>,
    /// The run folder.
    pub out: PathBuf,
    /// What to do with a run folder that holds this very run already, and where else to go on from.
    pub resume: Resume,
    /// Whether schedule and optimizer may be other ones than the run that is gone on with had.
    pub override_schedule: bool,
    /// Where the weights of a run that starts come from, if not from its seed: a checkpoint, a run
    /// folder or a model in Hugging Face's form.
    pub init_from: Option<PathBuf>,
    /// Whether the run folder gets a `samples.jsonl`: which samples each step took.
    pub log_samples: bool,
    /// Whether the run folder gets a `collectives.json`: what each rank exchanged in each step.
    pub trace_collectives: bool,
    /// The command line that asks for the run, to be noted in the run folder.
    pub command: Vec<String>,
    /// What goes wrong on purpose, for tests.
    pub faults: Faults,
}

impl RunOptions {
    /// A run on the data folder `data` into the run folder `out`, which goes on with an earlier
    /// part of itself and writes down nothing that was not asked for.
    #[must_use]
    pub fn new(data: PathBuf, out: PathBuf) -> Self {
        Self::blend(vec![WeightedPath::unweighted(data)], out)
    }

    /// As [`new`](Self::new), on several data folders and shards.
    #[must_use]
    pub fn blend(data: Vec<WeightedPath>, out: PathBuf) -> Self {
        Self {
            data,
            out,
            resume: Resume::Auto,
            override_schedule: false,
            init_from: None,
            log_samples: false,
            trace_collectives: false,
            command: Vec::new(),
            faults: Faults::default(),
        }
    }
}

/// What to do with a run folder that holds a run already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Resume {
    /// Go on from its newest complete checkpoint; the default.
    #[default]
    Auto,
    /// Refuse it.
    Never,
    /// Go on from this checkpoint, or from the newest complete one of this run folder, which may be
    /// another run's folder: then this run begins where that one stood.
    From(PathBuf),
    /// Delete this run, or another one, and begin again. A folder that holds no run is refused all
    /// the same.
    Overwrite,
}

/// A run that can start.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    /// What it was asked beside its configuration.
    pub options: RunOptions,
    /// The resolved configuration: every default filled in.
    pub config: Value,
    /// The data by which a run is known again: content, weights, and what else its samples depend
    /// on.
    pub data: DataRecord,
    /// What the samples are drawn from.
    pub sources: Vec<DataSourceSummary>,
    /// Seed of initial weights, sample order and dropout.
    pub seed: u64,
    /// The model.
    pub architecture: Architecture,
    /// What its samples look like.
    pub form: SampleForm,
    /// The vocabulary of the data folder.
    pub tokenizer: TokenizerIdentity,
    /// The weights that a run begins with, where the seed does not draw them.
    pub init_from: Option<Arc<InitialWeights>>,
    /// The grid of ranks.
    pub parallel: ParallelDims,
    /// How long a rank waits for another before the run ends.
    pub timeout: Duration,
    /// Samples to train on.
    pub train: BatchSampler,
    /// Forward and backward passes of each copy per optimizer step.
    pub grad_accumulation_steps: usize,
    /// Optimizer steps of the run.
    pub train_steps: u64,
    /// AdamW and clipping.
    pub optimizer: AdamWConfig,
    /// Learning rate of each update.
    pub schedule: LrSchedule,
    /// The numbers of activations and their gradients.
    pub precision: Precision,
    /// The loss scale, where the precision needs one.
    pub loss_scale: Option<LossScaleConfig>,
    /// What a forward pass keeps for the backward pass.
    pub recompute: Recompute,
    /// The validation loss, where it is on.
    pub validation: Option<ValidationPlan>,
    /// When to save and what to keep.
    pub checkpoint: CheckpointConfig,
    /// What the run folder gets beside `metrics.jsonl`.
    pub logging: LoggingConfig,
}

/// When and on what to take the validation loss.
#[derive(Debug, Clone)]
pub struct ValidationPlan {
    /// Steps between two validations.
    pub interval_steps: u64,
    /// The samples of the validation documents, in order.
    pub batches: BatchSampler,
    /// How many of them to take.
    pub num_samples: u64,
}

impl ValidationPlan {
    /// Batches of the copy of the model that takes the most, where there are `copies`.
    pub(crate) fn rounds(&self, copies: usize) -> u64 {
        let largest_share = self.num_samples.div_ceil(copies as u64);
        largest_share.div_ceil(self.batches.micro_batch_size as u64)
    }
}

impl TrainConfig {
    /// Checks the configuration across sections and against its data, and derives what training
    /// needs; [`validate_observed`](Self::validate_observed) for whom nobody waits.
    ///
    /// # Errors
    ///
    /// As [`validate_observed`](Self::validate_observed).
    pub fn validate(self, options: RunOptions) -> Result<TrainPlan, TrainError> {
        self.validate_observed(options, &Silent)
    }

    /// Checks the configuration across sections and against its data, and derives what training
    /// needs. All data is read once, which takes a while: `observer` hears of it, and may stop it.
    ///
    /// # Errors
    ///
    /// A [`TrainError`] that names the field as it is written, when a value is impossible, two
    /// values disagree, the model does not split over the ranks, or the data does not fit the
    /// model; [`TrainError::Stopped`] when the observer asks to stop.
    pub fn validate_observed(
        self,
        options: RunOptions,
        observer: &dyn Observer,
    ) -> Result<TrainPlan, TrainError> {
        let config = self.resolved();
        let parallel = self.parallel.dims();
        let form = self.sample_form()?;
        let open_weights = || {
            let path = options.init_from.as_ref();
            path.map(|path| InitialWeights::open(path, observer)).transpose()
        };
        // Questions are encoded by the tokenizer of the weights.
        let (data, early_weights) = match form {
            SampleForm::Questions => {
                let weights = open_weights()?;
                // Another kind of model has another vocabulary too, which is not what is wrong.
                if let Some(weights) = &weights {
                    weights.check_is_bert()?;
                }
                (self.open_race(&options, weights.as_ref(), observer)?, weights)
            }
            SampleForm::Windows | SampleForm::SentencePairs(_) => {
                let inputs = DataInputs::open(&options.data, self.data.tokenizer.as_deref())?;
                // Data for another kind of model has another vocabulary too, which is not what is
                // wrong.
                inputs.check_form(form)?;
                (RunData::Tokens(inputs), None)
            }
        };
        let tokenizer = data.tokenizer().clone();
        let length = self.length(data.num_questions())?;
        let whose = early_weights.as_ref().map_or(data.path(), InitialWeights::folder);
        let model = self.resolve_model(tokenizer.vocab_size, whose)?;
        self.check(&model, length)?;
        let loss_scale = self.check_loss_scale()?;
        options.faults.check(parallel, length.train_steps)?;

        let init_from = match early_weights {
            Some(weights) => Some(weights),
            None => open_weights()?,
        };
        if let Some(weights) = &init_from {
            weights.check(&model, &tokenizer)?;
        }
        let init_from = init_from.map(Arc::new);
        let request = self.request(form, &model, length);
        let data = data.prepare(&self.data, &request, observer)?;
        let (micro_batch_size, global_batch_size) =
            (self.batch.micro_batch_size.get(), self.batch.global_batch_size.get());
        let sampler = |samples| BatchSampler { samples, micro_batch_size, global_batch_size };
        let validation = self.validation.as_ref().zip(data.validation);
        let validation = validation.map(|(config, (samples, num_samples))| ValidationPlan {
            interval_steps: config.interval_steps.get(),
            num_samples,
            batches: sampler(samples),
        });
        Ok(TrainPlan {
            options,
            config,
            data: data.record,
            sources: data.sources,
            seed: self.seed,
            architecture: model,
            form,
            tokenizer,
            init_from,
            parallel,
            timeout: Duration::from_secs(self.parallel.timeout_seconds.get()),
            train: sampler(data.train),
            grad_accumulation_steps: global_batch_size / (micro_batch_size * parallel.data),
            train_steps: length.train_steps,
            schedule: LrSchedule {
                peak: self.optimizer.lr,
                min: self.optimizer.min_lr,
                warmup_steps: length.warmup_steps,
                train_steps: length.train_steps,
                decay: self.schedule.decay,
                rule: self.schedule.rule,
            },
            optimizer: self.optimizer,
            precision: self.precision,
            loss_scale,
            recompute: self.recompute,
            validation,
            checkpoint: self.checkpoint,
            logging: self.logging,
        })
    }

    /// RACE, to be encoded by the tokenizer of `weights` or of the run that goes on. What is wrong
    /// without it is found first.
    fn open_race(
        &self,
        options: &RunOptions,
        weights: Option<&InitialWeights>,
        observer: &dyn Observer,
    ) -> Result<RunData, TrainError> {
        const ANY: u64 = 1; // the number of questions makes no length wrong
        self.length(Some(ANY))?;
        let given = self.data.tokenizer.as_deref();
        let tokenizer = fine_tuning::tokenizer(options, weights, given)?;
        let validates = self.validation.is_some();
        let race = RaceInput::open(&options.data, tokenizer, validates, observer)?;
        Ok(RunData::Race(Box::new(race)))
    }

    /// The model's sizes with the tokenizer of the data at `data`, of `tokenizer_vocab_size` tokens.
    fn resolve_model(
        &self,
        tokenizer_vocab_size: usize,
        data: &Path,
    ) -> Result<Architecture, TrainError> {
        let written = self.model.vocab_size().map(NonZeroUsize::get);
        match written.filter(|&written| written != tokenizer_vocab_size) {
            None => Ok(self.architecture(tokenizer_vocab_size)),
            Some(written) => Err(TrainError::VocabularyMismatch {
                path: data.to_owned(),
                written,
                tokenizer: tokenizer_vocab_size,
            }),
        }
    }

    /// The model with a vocabulary of `vocab_size` tokens: with the head of what it is fine-tuned
    /// for.
    #[must_use]
    pub fn architecture(&self, vocab_size: usize) -> Architecture {
        match (self.model.with_vocab_size(vocab_size), &self.finetune) {
            (Architecture::Bert(model), Some(_)) => Architecture::BertChoice(model),
            (model, _) => model,
        }
    }

    /// Every value with defaults filled in.
    fn resolved(&self) -> Value {
        let mut config = self.clone();
        if let (ModelConfig::Bert(_), None) = (&self.model, &self.finetune) {
            config.data.masked_lm.get_or_insert_default();
        }
        serde_json::to_value(config).expect("a configuration is plain data")
    }

    /// What the run asks of its data.
    fn request(&self, form: SampleForm, model: &Architecture, length: RunLength) -> DataRequest {
        let global_batch_size = self.batch.global_batch_size.get() as u64;
        let validation = self.validation.as_ref().map(|config| {
            config
                .batches
                .map_or(u64::MAX, |batches| batches.get().saturating_mul(global_batch_size))
        });
        DataRequest {
            form,
            seq_length: model.seq_length(),
            seed: self.seed,
            num_samples: length.train_steps * global_batch_size, // checked before
            validation,
        }
    }
}

impl TrainPlan {
    /// Targets per optimizer step.
    pub fn tokens_per_step(&self) -> u64 {
        (self.train.global_batch_size * self.architecture.tokens_per_sample()) as u64
    }

    /// Refuses to begin a fine-tuning with nothing, where no checkpoint is gone on from.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::NoPretrained`].
    pub(crate) fn check_start(&self, is_resumed: bool) -> Result<(), TrainError> {
        match self.architecture {
            Architecture::BertChoice(_) if !is_resumed && self.init_from.is_none() => {
                Err(CheckpointError::NoPretrained.into())
            }
            _ => Ok(()),
        }
    }

    /// Samples that the first `steps` steps take from the training order.
    pub fn samples_consumed(&self, steps: u64) -> u64 {
        steps * self.train.global_batch_size as u64
    }

    /// The micro-batches of step `step`, counted from 1, that a member of `group` takes.
    pub fn micro_batches(
        &self,
        step: u64,
        group: &DataParallelGroup,
    ) -> impl Iterator<Item = Result<Batch, TrainError>> + '_ {
        let share = group.share(self.train.global_batch_size as u64);
        self.train.global_batch(self.samples_consumed(step - 1), share)
    }

    /// The numbers of the samples of step `step`, counted from 1, in the order of its global batch.
    pub fn sample_ids(&self, step: u64) -> Vec<u64> {
        self.train.sample_ids(self.samples_consumed(step - 1))
    }

    /// What step `step`, counted from 1, is done with on rank `rank` of the grid, where it would be
    /// update number `update` of the optimizer, counted from 1 too.
    ///
    /// A step that is skipped is no update: the schedule stands still.
    pub fn step_settings(&self, step: u64, update: u64, rank: usize) -> StepSettings {
        let strikes = |kind| self.options.faults.strikes(kind, step, rank);
        StepSettings {
            learning_rate: self.schedule.for_update(update),
            clip_grad: self.optimizer.clip_grad,
            seed: self.seed,
            recompute: self.recompute,
            injected: Injected {
                nan_loss: strikes(FaultKind::Nan),
                inf_gradient: strikes(FaultKind::Inf),
            },
        }
    }

    /// Whether a checkpoint is due after step `step` by the number of steps.
    pub fn checkpoint_due(&self, step: u64) -> bool {
        let interval = self.checkpoint.interval_steps;
        interval.is_some_and(|interval| step.is_multiple_of(interval.get()))
    }

    /// The validation that is due after step `step`; none before the first step.
    pub fn validation_due(&self, step: u64) -> Option<&ValidationPlan> {
        self.validation.as_ref().filter(|validation| {
            step == self.train_steps || (step > 0 && step.is_multiple_of(validation.interval_steps))
        })
    }
}
