//! [`evaluate`]: the evaluation loop over tasks.

use std::path::PathBuf;
use std::time::Instant;

use corpus::Observer;
use serde_json::{Map, Value, json};
use tracing::info;

use crate::config::{EvalPlan, Task};
use crate::error::{EvalError, windows_are};
use crate::found_model::FoundModel;
use crate::identity::ModelIdentity;
use crate::items::Items;
use crate::model::EvaluatedModel;
use crate::race::{Ensemble, Predictions};
use crate::report::{EvalReport, Measured, TaskResult};
use crate::score_log::ScoreLog;
use crate::scores_of::file_hash;
use crate::summary::TaskSummary;
use crate::validation;

/// Evaluates a checkpoint on every task of `plan`.
///
/// Where the plan has a place for partial scores, they are kept there until the evaluation has
/// ended, and it goes on from those of an earlier process.
///
/// # Errors
///
/// When the checkpoint or a test set cannot be read, a setting does not fit the model, the model
/// fails or gives a loss that is no number, the place for partial scores holds something else, or
/// `observer` asks to stop: [`EvalError::StoppedWithScores`] where another call can go on. Nothing
/// is reported then.
pub fn evaluate(plan: &EvalPlan, observer: &dyn Observer) -> Result<EvalReport, EvalError> {
    let (report, scores) = evaluate_keeping_scores(plan, observer)?;
    scores.forget();
    Ok(report)
}

/// [`evaluate`] for who has yet to write the report down: the scores stay where they are kept until
/// they are [forgotten](ScoresOnDisk::forget), so that a disk that has no room for the report does
/// not cost them.
///
/// # Errors
///
/// As [`evaluate`].
pub fn evaluate_keeping_scores(
    plan: &EvalPlan,
    observer: &dyn Observer,
) -> Result<(EvalReport, ScoresOnDisk), EvalError> {
    run_all(plan, EvaluatedModel::open(plan, observer)?, observer)
}

/// Runs the tasks of `plan` on its model.
fn run_all(
    plan: &EvalPlan,
    mut model: EvaluatedModel,
    observer: &dyn Observer,
) -> Result<(EvalReport, ScoresOnDisk), EvalError> {
    let ModelIdentity { checkpoint, kind, step, .. } = &model.identity;
    info!(checkpoint = %checkpoint.display(), ?kind, step, "evaluating");
    let mut results = Vec::with_capacity(plan.tasks.len());
    for (place, task) in plan.tasks.iter().enumerate() {
        model.begin_task(place);
        match task.run(&mut model, plan, observer) {
            Ok(result) => {
                let seconds = result.seconds + model.earlier_seconds();
                results.push(TaskResult { seconds, ..result });
            }
            Err(EvalError::Stopped) => return Err(model.stopped()),
            Err(error) => return Err(error),
        }
    }
    Ok((EvalReport { results }, ScoresOnDisk(model.into_log())))
}

/// Asks the models of `plans` the same questions, one model after the other so that one at a time is
/// in memory, and has them vote. The results are those of the models, in the order of the plans, and
/// that of the vote.
///
/// The scores of each stay where its plan keeps them until they are
/// [forgotten](ScoresOnDisk::forget); one that is stopped goes on from those of all models.
///
/// # Errors
///
/// As [`evaluate`], for any of the models, and [`EvalError::StoppedWithScores`] also where all scores
/// that are kept are those of models that were asked before; [`EvalError::ModelTwice`] where two
/// plans name one model; [`EvalError::NothingGiven`] where no plan asks questions.
pub fn evaluate_ensemble_keeping_scores(
    plans: &[EvalPlan],
    observer: &dyn Observer,
) -> Result<(EvalReport, Vec<ScoresOnDisk>), EvalError> {
    let start = Instant::now();
    // What is wrong with the last must not be found when the first has been asked.
    let models =
        FoundModel::voters(plans, observer).map_err(|error| stopped_with(error, Vec::new()))?;
    let (mut results, mut scores, mut members) = (Vec::new(), Vec::new(), Vec::new());
    for (plan, model) in plans.iter().zip(models) {
        let ran = EvaluatedModel::of(model, plan, observer)
            .and_then(|model| run_all(plan, model, observer));
        let (report, on_disk) = match ran {
            Ok(ran) => ran,
            Err(error) => return Err(stopped_with(error, scores)),
        };
        for result in &report.results {
            if let Some(Items::Choices(items)) = &result.items {
                members.push(Predictions::of_items(items));
            }
        }
        results.extend(report.results);
        scores.push(on_disk);
    }
    let ensemble = Ensemble::of(&members)?;
    let asked = results.iter().find_map(|result| match &result.measured {
        Measured::Race(found) => Some((found.counts, result.partial)),
        _ => None,
    });
    let seconds = start.elapsed().as_secs_f64();
    results.extend(asked.map(|(counts, partial)| ensemble.result(counts, partial, seconds)));
    Ok((EvalReport { results }, scores))
}

/// The error of a vote that `error` ended when the models before had left `scores`: where it was
/// stopped, whether another call can go on from what is kept of any model. The file of the last such
/// model is in the error, and those of the others are told.
fn stopped_with(error: EvalError, scores: Vec<ScoresOnDisk>) -> EvalError {
    if !error.is_stop() {
        return error;
    }
    let mut kept: Vec<_> = scores.into_iter().filter_map(ScoresOnDisk::kept).collect();
    let error = match error {
        EvalError::StoppedWithScores { .. } => error,
        _ => match kept.pop() {
            Some((path, windows)) => EvalError::StoppedWithScores { path, windows },
            None => EvalError::Stopped,
        },
    };
    for (path, windows) in kept {
        info!("{}: {} scored, and kept there, too", path.display(), windows_are(windows));
    }
    error
}

/// The scores of an evaluation that has ended, if they are kept. Dropped, they stay for another
/// process.
#[must_use = "scores that nobody forgets stay on disk"]
#[derive(Debug)]
pub struct ScoresOnDisk(Option<ScoreLog>);

impl ScoresOnDisk {
    /// None are kept.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The file in which they stay for another process, and how many there are.
    fn kept(self) -> Option<(PathBuf, u64)> {
        let mut log = self.0?;
        let windows = log.num_windows();
        (windows > 0).then(|| (log.path().to_owned(), windows))
    }

    /// Removes the file that holds them; one with more than the evaluation's limit let it score
    /// stays.
    pub fn forget(self) {
        if let Some(log) = self.0 {
            log.remove();
        }
    }
}

impl Task {
    /// What the report calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::WikiText103(task) => &task.name,
            Self::Lambada(task) => &task.name,
            Self::Validation(task) => &task.name,
            Self::Race(task) => &task.name,
        }
    }

    /// Runs the task on `model`.
    ///
    /// # Errors
    ///
    /// When the model is of another kind, its test set cannot be used, a setting does not fit the
    /// model, the model fails, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        self.check_model(&model.identity.architecture, &model.identity.checkpoint)?;
        match self {
            Self::WikiText103(task) => task.run(model, plan, observer),
            Self::Lambada(task) => task.run(model, plan, observer),
            Self::Validation(task) => task.run(model, plan, observer),
            Self::Race(task) => task.run(model, plan, observer),
        }
    }

    /// What [`run`](Self::run) would do on the model, without its weights.
    ///
    /// # Errors
    ///
    /// When the model is of another kind, its test set cannot be used, or a setting does not fit
    /// the model.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        self.check_model(&model.architecture, &model.checkpoint)?;
        match self {
            Self::WikiText103(task) => task.summary(model, plan),
            Self::Lambada(task) => task.summary(model, plan),
            Self::Validation(task) => task.summary(model, plan),
            Self::Race(task) => task.summary(model, plan),
        }
    }

    /// What its scores depend on beside the model, by the names that messages use. What changes them
    /// by no more than rounding, or only how many there are, is left out.
    pub(crate) fn scores_depend_on(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<Map<String, Value>, EvalError> {
        let settings = match self {
            Self::WikiText103(task) => json!({
                "task": task.name,
                "protocol": task.protocol,
                "the hash of the test file": file_hash(&task.data)?,
                "overlap": plan.overlap,
            }),
            Self::Lambada(task) => json!({
                "task": task.name,
                "protocol": task.protocol,
                "the hash of the test file": file_hash(&task.data)?,
            }),
            Self::Validation(task) => {
                let (data, weights) = task.data_description(model, plan)?;
                let mut settings = json!({
                    "task": task.name,
                    "the data": data,
                    "split": task.part,
                    "split_weights": weights,
                });
                if let Some(masking) = validation::masking(model) {
                    settings["masks"] = json!(masking);
                }
                settings
            }
            Self::Race(task) => json!({
                "task": task.name,
                "split": task.split.name(),
                "the hash of the questions": task.fingerprint()?,
            }),
        };
        let Value::Object(settings) = settings else { unreachable!("an object was written") };
        Ok(settings)
    }
}
