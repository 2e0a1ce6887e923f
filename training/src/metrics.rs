//! What a run writes down about itself: one JSON object per line in `metrics.jsonl`.
//!
//! Metrics are data first; the console's line is made from the same struct. Each line is flushed
//! when it is written, so that a killed run keeps every step it logged.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use tracing::{debug, info};

use crate::TrainError;
use crate::checkpoint::write_durably;
use crate::report::LossHistory;

/// Name of the metrics file in a run folder.
pub const METRICS_FILE: &str = "metrics.jsonl";

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

/// Writer of a run's metrics.
#[derive(Debug)]
pub struct MetricsLog {
    path: PathBuf,
    file: File,
    train_steps: u64,
}

impl MetricsLog {
    /// Opens `metrics.jsonl` in the run folder `run`, which goes on after `done_steps` steps.
    ///
    /// Lines of later steps are dropped: a killed run logged them, but its checkpoint is older.
    /// Returns the losses of the lines that stay.
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
        let losses =
            if path.exists() { keep_until(&path, done_steps)? } else { LossHistory::default() };
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|source| TrainError::io("open", &path, source))?;
        Ok((Self { path, file, train_steps }, losses))
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
        self.line(metrics)
    }

    /// Writes one validation.
    ///
    /// # Errors
    ///
    /// When the line cannot be written.
    pub fn validation(&mut self, metrics: &ValidationMetrics) -> Result<(), TrainError> {
        let ValidationMetrics { step, validation_loss, .. } = metrics;
        info!("step {step}/{} validation loss {validation_loss:.4}", self.train_steps);
        self.line(metrics)
    }

    fn line<T: Serialize>(&mut self, metrics: &T) -> Result<(), TrainError> {
        let mut line = serde_json::to_vec(metrics).expect("metrics are plain numbers");
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| TrainError::io("write", &self.path, source))
    }
}

/// Drops the lines of steps after `done_steps` and what is no whole line.
fn keep_until(path: &Path, done_steps: u64) -> Result<LossHistory, TrainError> {
    let text = fs::read_to_string(path).map_err(|source| TrainError::io("read", path, source))?;
    let (mut kept, mut losses) = (String::new(), LossHistory::default());
    for line in text.lines() {
        let Ok(metrics) = serde_json::from_str::<Value>(line) else { continue };
        if metrics["step"].as_u64().is_none_or(|step| step > done_steps) {
            continue;
        }
        if let Some(loss) = metrics["loss"].as_f64() {
            losses.push(loss);
        }
        if let Some(loss) = metrics["validation_loss"].as_f64() {
            losses.push_validation(loss);
        }
        kept.push_str(line);
        kept.push('\n');
    }
    if kept != text {
        let partial = path.with_extension("jsonl.partial");
        write_durably(&partial, kept.as_bytes())?;
        fs::rename(&partial, path).map_err(|source| TrainError::io("rename", &partial, source))?;
    }
    Ok(losses)
}
