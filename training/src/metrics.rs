//! What a run writes down about its steps: `metrics.jsonl`, and `samples.jsonl` on request.
//!
//! Metrics are data first; the console's line is made from the same struct.

use std::path::Path;

use serde::Serialize;
use tracing::{debug, info};

use crate::TrainError;
use crate::json_lines::JsonLines;
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
    /// The samples of its global batch, in order, whatever the layout. Sample `k` is tokens `k·S` to
    /// `(k+1)·S` of the training documents, laid end to end, for a sequence length of `S`: the same
    /// tokens in every epoch.
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
    /// Returns the losses of these steps too.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(crate) fn open(
        run: &Path,
        train_steps: u64,
        done_steps: u64,
    ) -> Result<(Self, LossHistory), TrainError> {
        let mut losses = LossHistory::default();
        let lines = JsonLines::open(&run.join(METRICS_FILE), done_steps, |line| {
            if let Some(loss) = line["loss"].as_f64() {
                losses.push(loss);
            }
            if let Some(loss) = line["validation_loss"].as_f64() {
                losses.push_validation(loss);
            }
        })?;
        Ok((Self { lines, train_steps }, losses))
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
