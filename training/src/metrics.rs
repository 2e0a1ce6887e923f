//! What a run writes down about its steps: `metrics.jsonl`, and `samples.jsonl` on request.
//!
//! Metrics are data first; the console's line is made from the same struct.

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tracing::{debug, info, warn};

use crate::TrainError;
use crate::json_lines::JsonLines;
use crate::plan::TrainPlan;
use crate::report::LossHistory;

/// Name of the metrics file in a run folder.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// Name of the log of samples in a run folder.
pub const SAMPLES_FILE: &str = "samples.jsonl";

/// One optimizer step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepMetrics {
    /// The step, counted from 1.
    pub step: u64,
    /// Mean loss over the scored tokens of the global batch, in nats, before the update.
    pub loss: f64,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Loss scale of mixed precision; `null` in `f32`.
    pub loss_scale: Option<f64>,
    /// Updates skipped so far because of an overflow.
    pub skipped: u64,
    /// Tokens trained on so far, this step's included.
    pub tokens: u64,
    /// Tokens per second of this step.
    pub tokens_per_second: f64,
    /// Wall time of this step.
    pub milliseconds: f64,
}

/// One validation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationMetrics {
    /// Optimizer steps done before it.
    pub step: u64,
    /// Mean loss per target of the validation documents, in nats.
    pub validation_loss: f64,
    /// Targets scored.
    pub targets: u64,
    /// Tokens trained on so far.
    pub tokens: u64,
    /// Wall time of the validation.
    pub milliseconds: f64,
}

/// Steps between two lines of the log.
const LOG_INTERVAL_STEPS: u64 = 10;

/// The samples of one optimizer step: a line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepSamples {
    /// The step, counted from 1.
    pub step: u64,
    /// The samples of its global batch, in order, whatever the layout. Sample `k` is tokens `k·S`
    /// to `(k+1)·S` of the training documents, laid end to end, for a sequence length of `S`: the
    /// same tokens in every epoch.
    pub sample_ids: Vec<u64>,
}

/// Writer of a run's metrics.
#[derive(Debug)]
pub struct MetricsLog {
    lines: JsonLines,
    train_steps: u64,
}

impl MetricsLog {
    /// Opens `metrics.jsonl` in the run folder `run`, which goes on after `done_steps` steps.
    /// Returns the losses of these steps too, and warns of steps that have no line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(crate) fn open(
        run: &Path,
        train_steps: u64,
        done_steps: u64,
    ) -> Result<(Self, LossHistory), TrainError> {
        let path = run.join(METRICS_FILE);
        let mut earlier = EarlierSteps::default();
        let lines = JsonLines::open(&path, done_steps, |step, line| earlier.keep(step, line))?;
        Ok((Self { lines, train_steps }, earlier.into_losses(&path, done_steps)))
    }

    /// The losses of the `done_steps` steps of the run in folder `run`; nothing is written.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn losses(run: &Path, done_steps: u64) -> Result<LossHistory, TrainError> {
        let path = run.join(METRICS_FILE);
        let mut earlier = EarlierSteps::default();
        JsonLines::read(&path, done_steps, |step, line| earlier.keep(step, line))?;
        Ok(earlier.into_losses(&path, done_steps))
    }

    /// Returns when every line is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(crate) fn sync(&self) -> Result<(), TrainError> {
        self.lines.sync()
    }

    /// Writes one step.
    ///
    /// # Errors
    ///
    /// When the line cannot be written.
    pub fn step(&mut self, metrics: &StepMetrics) -> Result<(), TrainError> {
        let StepMetrics { step, loss, grad_norm, learning_rate, tokens_per_second, .. } = metrics;
        let line = format!(
            "step {step}/{} loss {loss:.4} grad norm {grad_norm:.3} lr {learning_rate:.3e} \
             {tokens_per_second:.0} tokens/s",
            self.train_steps
        );
        // The file has every step; a reader of the log wants to see where the run is.
        if *step == 1 || *step == self.train_steps || step.is_multiple_of(LOG_INTERVAL_STEPS) {
            info!("{line}");
        } else {
            debug!("{line}");
        }
        self.lines.push(metrics)
    }

    /// Writes one validation.
    ///
    /// # Errors
    ///
    /// When the line cannot be written.
    pub fn validation(&mut self, metrics: &ValidationMetrics) -> Result<(), TrainError> {
        let ValidationMetrics { step, validation_loss, .. } = metrics;
        info!("step {step}/{} validation loss {validation_loss:.4}", self.train_steps);
        self.lines.push(metrics)
    }
}

/// What the lines of earlier steps say, and which steps have none.
#[derive(Debug, Default)]
struct EarlierSteps {
    losses: LossHistory,
    /// The last step that has a line.
    last: u64,
    missing: Vec<RangeInclusive<u64>>,
}

impl EarlierSteps {
    /// Reads a line; every one is kept.
    fn keep(&mut self, step: u64, line: &Value) -> bool {
        // A loss that was no number reads as null: its step was skipped, and has its line.
        if let Some(loss) = line.get("loss") {
            self.losses.push(loss.as_f64().unwrap_or(f64::NAN));
            self.note_missing_until(step);
            self.last = step;
        }
        if let Some(loss) = line["validation_loss"].as_f64() {
            self.losses.push_validation(step, loss);
        }
        true
    }

    fn note_missing_until(&mut self, step: u64) {
        if step > self.last + 1 {
            self.missing.push(self.last + 1..=step - 1);
        }
    }

    fn into_losses(mut self, path: &Path, done_steps: u64) -> LossHistory {
        self.note_missing_until(done_steps + 1);
        for steps in self.missing {
            warn!(
                "{}: steps {} to {} are done but have no line, and are not done again",
                path.display(),
                steps.start(),
                steps.end()
            );
        }
        self.losses
    }
}

/// `samples.jsonl`: the plan says what a line holds, so that lines which are missing are written
/// when the log is opened.
#[derive(Debug)]
pub(crate) struct SampleLog {
    lines: JsonLines,
}

impl SampleLog {
    /// Opens the log of a run that goes on after `done_steps` steps, each of which then has a line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(crate) fn open(plan: &TrainPlan, done_steps: u64) -> Result<Self, TrainError> {
        let path = plan.options.out.join(SAMPLES_FILE);
        let mut last = 0;
        let lines = JsonLines::open(&path, done_steps, |step, _| follows(&mut last, step))?;
        let mut log = Self { lines };
        for step in last + 1..=done_steps {
            log.step(plan, step)?;
        }
        Ok(log)
    }

    /// Whether each of the `done_steps` steps has its line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn is_complete(plan: &TrainPlan, done_steps: u64) -> Result<bool, TrainError> {
        let mut last = 0;
        let path = plan.options.out.join(SAMPLES_FILE);
        JsonLines::read(&path, done_steps, |step, _| follows(&mut last, step))?;
        Ok(last == done_steps)
    }

    /// Writes the samples of step `step`.
    ///
    /// # Errors
    ///
    /// When the line cannot be written.
    pub(crate) fn step(&mut self, plan: &TrainPlan, step: u64) -> Result<(), TrainError> {
        self.lines.push(&StepSamples { step, sample_ids: plan.sample_ids(step) })
    }

    /// Returns when every line is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(crate) fn sync(&self) -> Result<(), TrainError> {
        self.lines.sync()
    }
}

/// Whether `step` is the one after `last`, which it then becomes.
fn follows(last: &mut u64, step: u64) -> bool {
    let is_next = step == *last + 1;
    if is_next {
        *last = step;
    }
    is_next
}
