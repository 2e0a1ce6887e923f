//! What a run came to, and the main rank's notes while it goes.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::TrainError;
use crate::chance::standard_error;
use crate::metrics::{MetricsLog, SAMPLES_FILE, SampleLog, Scores, StepMetrics, ValidationMetrics};
use crate::objective::VALIDATION_ACCURACY;
use crate::plan::TrainPlan;
use crate::state::{StepOutcome, TrainState};
use crate::tensorboard::EventFile;
use crate::timers::StepTimes;
use crate::validation::Validation;

/// Steps whose mean loss is a run's final loss: one batch alone is too noisy to compare runs by.
pub const FINAL_STEPS: usize = 10;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainReport {
    /// Optimizer steps done, those before a resumption included.
    pub steps: u64,
    /// Whether the run was stopped before its last step, or before the validation after it.
    pub stopped: bool,
    /// Loss of the run's first step, in nats; none where no step was done.
    pub first_loss: Option<f64>,
    /// Mean loss of the run's last ten steps, or of all that this run folder has where there are
    /// fewer.
    pub final_loss: Option<f64>,
    /// How many steps these are.
    pub final_loss_steps: u64,
    /// Steps that were skipped because they overflowed, those before a resumption included.
    pub skipped: u64,
    /// Loss on the validation documents when it was last taken.
    pub validation_loss: Option<f64>,
    /// Share of the validation's questions that were answered rightly when it was last taken, where
    /// the model chooses among answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_accuracy: Option<f64>,
    /// Tokens trained on, those before a resumption included.
    pub tokens: u64,
    /// Training speed of this process, without validation and saving; none where it did no step.
    pub tokens_per_second: Option<f64>,
    /// Wall time of this process's training, from the look at the run folder on.
    pub seconds: f64,
    /// Ranks that shared a copy of the model.
    pub tensor_parallel_size: usize,
    /// Copies of the model.
    pub data_parallel_size: usize,
    /// Parameters of the model, without padding.
    pub parameters: u64,
    /// The newest checkpoint.
    pub checkpoint: PathBuf,
}

/// The losses of a run so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LossHistory {
    first: Option<f64>,
    recent: VecDeque<f64>,
    /// The last validation.
    validation: Option<LastValidation>,
}

/// What is known of a run's last validation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LastValidation {
    /// The step after which it was taken.
    step: u64,
    loss: f64,
    accuracy: Option<f64>,
}

impl LossHistory {
    /// Adds the loss of the next step; one that is no number counts for nothing.
    pub(crate) fn push(&mut self, loss: f64) {
        if !loss.is_finite() {
            return;
        }
        self.first.get_or_insert(loss);
        if self.recent.len() == FINAL_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back(loss);
    }

    /// Notes what a validation after step `step` found.
    pub(crate) fn push_validation(&mut self, step: u64, loss: f64, accuracy: Option<f64>) {
        self.validation = Some(LastValidation { step, loss, accuracy });
    }

    /// Whether the validation after step `step` is due and was not taken.
    pub(crate) fn lacks_validation(&self, plan: &TrainPlan, step: u64) -> bool {
        let taken = self.validation.is_some_and(|taken| taken.step == step);
        plan.validation_due(step).is_some() && !taken
    }

    fn final_loss(&self) -> Option<f64> {
        let count = self.recent.len();
        (count > 0).then(|| self.recent.iter().sum::<f64>() / count as f64)
    }
}

/// What the main rank writes down while a run goes; on other ranks it keeps quiet.
#[derive(Debug)]
pub(crate) struct RunLog {
    metrics: Option<MetricsLog>,
    samples: Option<SampleLog>,
    events: Option<EventFile>,
    losses: LossHistory,
    scores: Scores,
    started: Instant,
    stepping: Duration,
    steps: u64,
}

/// What a step took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Wall time.
    pub(crate) elapsed: Duration,
    /// Where it went.
    pub(crate) times: StepTimes,
}

impl RunLog {
    /// The log of a run that goes on after `done_steps` steps, in a process begun at `started`.
    pub(crate) fn open(
        plan: &TrainPlan,
        done_steps: u64,
        is_main: bool,
        started: Instant,
    ) -> Result<Self, TrainError> {
        let (mut metrics, mut samples, mut events) = (None, None, None);
        let (mut losses, mut scores) = (LossHistory::default(), Scores::default());
        if is_main {
            let run = &plan.options.out;
            let log;
            (log, losses, scores) = MetricsLog::open(run, plan.train_steps, done_steps)?;
            metrics = Some(log);
            // A log that was begun goes on, whether or not this call asks for it: it has no gaps.
            if plan.options.log_samples || run.join(SAMPLES_FILE).exists() {
                samples = Some(SampleLog::open(plan, done_steps)?);
            }
            if plan.logging.tensorboard {
                events = Some(EventFile::create(run, done_steps)?);
            }
        }
        Ok(Self { metrics, samples, events, scores, ..Self::read_only(losses, started) })
    }

    /// The log of a run that is done, which had these losses.
    pub(crate) fn read_only(losses: LossHistory, started: Instant) -> Self {
        Self {
            metrics: None,
            samples: None,
            events: None,
            losses,
            scores: Scores::default(),
            started,
            stepping: Duration::ZERO,
            steps: 0,
        }
    }

    /// Writes down the step that left `state`.
    pub(crate) fn step<B, M>(
        &mut self,
        plan: &TrainPlan,
        state: &TrainState<B, M>,
        learning_rate: f64,
        outcome: StepOutcome,
        Measured { elapsed, times }: Measured,
    ) -> Result<(), TrainError> {
        let step = state.step;
        self.stepping += elapsed;
        self.steps += 1;
        self.losses.push(outcome.loss);
        if let Some(samples) = &mut self.samples {
            samples.step(plan, step)?;
        }
        let Some(metrics) = &mut self.metrics else { return Ok(()) };
        let [loss_z, grad_norm_z] = self.scores.of(outcome.loss, outcome.grad_norm);
        let tokens_per_second = plan.tokens_per_step() as f64 / elapsed.as_secs_f64();
        let step_metrics = StepMetrics {
            step,
            loss: outcome.loss,
            losses: outcome.losses.several().collect(),
            grad_norm: outcome.grad_norm,
            learning_rate,
            weight_decay: plan.optimizer.weight_decay,
            loss_scale: outcome.loss_scale,
            skipped: step - state.optimizer.updates(),
            updates: state.optimizer.updates(),
            tokens: step * plan.tokens_per_step(),
            tokens_per_second,
            model_flops_per_second: tokens_per_second * plan.architecture.flops_per_token(),
            milliseconds: elapsed.as_secs_f64() * 1e3,
            loss_z,
            grad_norm_z,
            timers: times,
        };
        if let Some(events) = &mut self.events {
            events.step(&step_metrics)?;
        }
        metrics.step(&step_metrics)
    }

    /// Writes down the validation loss after step `step`.
    pub(crate) fn validation(
        &mut self,
        plan: &TrainPlan,
        step: u64,
        taken: &Validation,
        elapsed: Duration,
    ) -> Result<(), TrainError> {
        let (&(_, validation_loss), others) =
            taken.means.split_first().expect("a model has a validation loss");
        let mut others: BTreeMap<_, _> = others.iter().copied().collect();
        let accuracy = others.get(VALIDATION_ACCURACY).copied();
        if let Some(accuracy) = accuracy {
            let error = standard_error(accuracy, taken.targets);
            others.insert("validation_accuracy_stderr", error);
        }
        self.losses.push_validation(step, validation_loss, accuracy);
        let Some(metrics) = &mut self.metrics else { return Ok(()) };
        let validation = ValidationMetrics {
            step,
            validation_loss,
            others,
            targets: taken.targets,
            tokens: step * plan.tokens_per_step(),
            milliseconds: elapsed.as_secs_f64() * 1e3,
        };
        if let Some(events) = &mut self.events {
            events.validation(&validation)?;
        }
        metrics.validation(&validation)
    }

    /// Whether the validation after step `step` is due and was not taken, as the main rank knows.
    pub(crate) fn lacks_validation(&self, plan: &TrainPlan, step: u64) -> bool {
        self.metrics.is_some() && self.losses.lacks_validation(plan, step)
    }

    /// Returns when everything written is on the disk.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        if let Some(metrics) = &mut self.metrics {
            metrics.sync()?;
        }
        self.samples.as_mut().map_or(Ok(()), SampleLog::sync)
    }

    /// The report after step `step`, with the newest checkpoint.
    pub(crate) fn into_report(
        self,
        plan: &TrainPlan,
        (step, updates): (u64, u64),
        checkpoint: PathBuf,
    ) -> TrainReport {
        let tokens = (self.steps * plan.tokens_per_step()) as f64;
        let stepping = self.stepping.as_secs_f64();
        TrainReport {
            steps: step,
            stopped: step < plan.train_steps || self.losses.lacks_validation(plan, step),
            first_loss: self.losses.first,
            final_loss: self.losses.final_loss(),
            final_loss_steps: self.losses.recent.len() as u64,
            skipped: step - updates,
            validation_loss: self.losses.validation.map(|taken| taken.loss),
            validation_accuracy: self.losses.validation.and_then(|taken| taken.accuracy),
            tokens: step * plan.tokens_per_step(),
            tokens_per_second: (stepping > 0.0).then(|| tokens / stepping),
            seconds: self.started.elapsed().as_secs_f64(),
            tensor_parallel_size: plan.parallel.tensor,
            data_parallel_size: plan.parallel.data,
            parameters: plan
                .architecture
                .parameters()
                .iter()
                .map(|spec| spec.num_elements() as u64)
                .sum(),
            checkpoint,
        }
    }
}
