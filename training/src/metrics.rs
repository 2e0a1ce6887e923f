//! What a run writes down about its steps: `metrics.jsonl`, and `samples.jsonl` on request.
//!
//! Metrics are data first; the console's line is made from the same struct.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tracing::{debug, info, warn};

use crate::TrainError;
use crate::json_lines::JsonLines;
use crate::objective::VALIDATION_ACCURACY;
use crate::plan::TrainPlan;
use crate::report::LossHistory;
use crate::run_folder::steps_before;
use crate::running_score::RunningScore;
use crate::timers::StepTimes;

/// Name of the metrics file in a run folder.
pub const METRICS_FILE: &str = "metrics.jsonl";
/// Name of the log of samples in a run folder.
pub const SAMPLES_FILE: &str = "samples.jsonl";

/// One optimizer step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepMetrics {
    /// The step, counted from 1.
    pub step: u64,
    /// Mean loss over the scored tokens or the questions of the global batch, in nats, before the
    /// update.
    pub loss: f64,
    /// The parts of the loss by name, `mlm_loss` and `sop_loss`, where it has several.
    #[serde(flatten)]
    pub losses: BTreeMap<&'static str, f64>,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Weight decay of this update.
    pub weight_decay: f64,
    /// Loss scale of mixed precision; `null` in `f32`.
    pub loss_scale: Option<f64>,
    /// Updates skipped so far because of an overflow.
    pub skipped: u64,
    /// Updates done so far: steps less the skipped ones. By this count Adam corrects its bias.
    pub updates: u64,
    /// Tokens trained on so far, this step's included.
    pub tokens: u64,
    /// Tokens per second of this step.
    pub tokens_per_second: f64,
    /// Floating-point operations of the model per second, over all ranks:
    /// [`flops_per_token`](crate::architecture::Architecture::flops_per_token), recomputation not
    /// counted.
    pub model_flops_per_second: f64,
    /// Wall time of this step.
    pub milliseconds: f64,
    /// How many standard deviations the loss lies above the mean of the steps before, the last
    /// hundred or so of them; `null` in the first ten.
    pub loss_z: Option<f64>,
    /// The same of the gradient's norm.
    pub grad_norm_z: Option<f64>,
    /// Where the main rank's time went, in milliseconds.
    pub timers: StepTimes,
}

impl StepMetrics {
    /// The step in one line, in a run of `train_steps`, of which `left` is still to come.
    fn line(&self, train_steps: u64, left: Duration) -> String {
        let Self { step, loss, grad_norm, learning_rate, skipped, milliseconds, .. } = self;
        let score = |z: Option<f64>| z.map_or_else(|| "-".to_owned(), |z| format!("{z:+.1}"));
        let scale = self.loss_scale.map_or_else(|| "-".to_owned(), |scale| scale.to_string());
        format!(
            "step {step}/{train_steps} loss {loss:.4} (z {}) grad norm {grad_norm:.3} (z {}) \
             lr {learning_rate:.3e} scale {scale} skipped {skipped} {:.0} tokens/s {}FLOP/s \
             {milliseconds:.0} ms, {} left",
            score(self.loss_z),
            score(self.grad_norm_z),
            self.tokens_per_second,
            prefixed(self.model_flops_per_second),
            in_words(left),
        )
    }
}

/// A number with the prefix of its unit: `12.3 G`.
fn prefixed(number: f64) -> String {
    let prefixes = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (unit, prefix) =
        prefixes.into_iter().find(|(unit, _)| number >= *unit).unwrap_or((1.0, ""));
    format!("{:.1} {prefix}", number / unit)
}

/// A time by its two largest units: `2 d 3 h`, `4 min 5 s`.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// What the losses and gradient norms of earlier steps say about those of the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scores {
    loss: RunningScore,
    grad_norm: RunningScore,
}

impl Scores {
    /// The scores of a step's loss and gradient norm.
    pub(crate) fn of(&mut self, loss: f64, grad_norm: f64) -> [Option<f64>; 2] {
        [self.loss.score(loss), self.grad_norm.score(grad_norm)]
    }
}

/// One validation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationMetrics {
    /// Optimizer steps done before it.
    pub step: u64,
    /// Mean loss per target of the validation documents, in nats.
    pub validation_loss: f64,
    /// Its other means by name: `validation_sop_loss`, or `validation_accuracy` with its standard
    /// error.
    #[serde(flatten)]
    pub others: BTreeMap<&'static str, f64>,
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
    /// same tokens in every epoch. Of RACE it is question `k` of the split `train`, from 0.
    pub sample_ids: Vec<u64>,
}

/// Writer of a run's metrics.
#[derive(Debug)]
pub struct MetricsLog {
    lines: JsonLines,
    train_steps: u64,
    pace: Pace,
}

/// How long the rest of a run will take, from the pace of this process: the steps that it has
/// done, with all validation and saving between them.
#[derive(Debug)]
struct Pace {
    began: Instant,
    steps: u64,
}

impl Pace {
    /// Notes a step of `milliseconds`; returns the time that `left` more will take.
    fn left(&mut self, milliseconds: f64, left: u64) -> Duration {
        if self.steps == 0 {
            // What the process did before its first step is not repeated.
            let step = Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default();
            self.began = Instant::now().checked_sub(step).unwrap_or(self.began);
        }
        self.steps += 1;
        let per_step = self.began.elapsed().as_secs_f64() / self.steps as f64;
        Duration::try_from_secs_f64(per_step * left as f64).unwrap_or(Duration::MAX)
    }
}

impl MetricsLog {
    /// Opens `metrics.jsonl` in the run folder `run`, which goes on after `done_steps` steps.
    /// Returns what the lines of these steps say too, and warns of steps that have no line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub(crate) fn open(
        run: &Path,
        train_steps: u64,
        done_steps: u64,
    ) -> Result<(Self, LossHistory, Scores), TrainError> {
        let path = run.join(METRICS_FILE);
        let mut earlier = EarlierSteps::of_run(run);
        let lines = JsonLines::open(&path, done_steps, |step, line| earlier.keep(step, line))?;
        let scores = std::mem::take(&mut earlier.scores);
        let pace = Pace { began: Instant::now(), steps: 0 };
        Ok((Self { lines, train_steps, pace }, earlier.into_losses(&path, done_steps), scores))
    }

    /// The losses of the `done_steps` steps of the run in folder `run`; nothing is written.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn losses(run: &Path, done_steps: u64) -> Result<LossHistory, TrainError> {
        let path = run.join(METRICS_FILE);
        let mut earlier = EarlierSteps::of_run(run);
        JsonLines::read(&path, done_steps, |step, line| earlier.keep(step, line))?;
        Ok(earlier.into_losses(&path, done_steps))
    }

    /// Returns when every line is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
        self.lines.sync()
    }

    /// Writes one step.
    ///
    /// # Errors
    ///
    /// When the line cannot be written.
    pub fn step(&mut self, metrics: &StepMetrics) -> Result<(), TrainError> {
        let step = &metrics.step;
        let left = self.train_steps.saturating_sub(*step);
        let line = metrics.line(self.train_steps, self.pace.left(metrics.milliseconds, left));
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
        let accuracy = metrics.others.get(VALIDATION_ACCURACY);
        let accuracy = accuracy.map_or_else(String::new, |accuracy| {
            format!(", accuracy {:.1}% of {} questions", 1e2 * accuracy, metrics.targets)
        });
        info!("step {step}/{} validation loss {validation_loss:.4}{accuracy}", self.train_steps);
        self.lines.push(metrics)
    }
}

/// What the lines of earlier steps say, and which steps have none.
#[derive(Debug, Default)]
struct EarlierSteps {
    losses: LossHistory,
    scores: Scores,
    /// The last step that has a line.
    last: u64,
    missing: Vec<RangeInclusive<u64>>,
}

impl EarlierSteps {
    /// Those of the run in folder `run`, which may have begun behind another run's steps.
    fn of_run(run: &Path) -> Self {
        Self { last: steps_before(run), ..Self::default() }
    }

    /// Reads a line; every one is kept.
    fn keep(&mut self, step: u64, line: &Value) -> bool {
        // A loss that was no number reads as null: its step was skipped, and has its line.
        if let Some(loss) = line.get("loss") {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            self.losses.push(number(loss));
            self.scores.of(number(loss), number(&line["grad_norm"]));
            self.note_missing_until(step);
            self.last = step;
        }
        if let Some(loss) = line["validation_loss"].as_f64() {
            self.losses.push_validation(step, loss, line[VALIDATION_ACCURACY].as_f64());
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
        let mut last = steps_before(&plan.options.out);
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
        let mut last = steps_before(&plan.options.out);
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
    pub(crate) fn sync(&mut self) -> Result<(), TrainError> {
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
