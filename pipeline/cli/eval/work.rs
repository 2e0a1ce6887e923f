//! What a call of the command does: scoring, or a search for test sets in a corpus.

use evaluation::contamination::{self, ContaminationPlan, ContaminationSummary};
use evaluation::{
    EvalError, EvalPlan, EvalReport, EvalSummary, ScoresOnDisk, evaluate_ensemble_keeping_scores,
    evaluate_keeping_scores, summary_of_ensemble,
};
use serde::Serialize;

use crate::progress::Progress;

/// What an evaluation does.
pub(super) enum Work {
    /// It scores a model.
    Scoring(EvalPlan),
    /// It has several models answer the same questions, and vote.
    Ensemble(Vec<EvalPlan>),
    /// It looks for test sets in a corpus, and may score a model on what is not there.
    Contamination(ContaminationPlan, Option<EvalPlan>),
}

/// What it would do.
#[derive(Debug, Serialize)]
pub(super) struct WorkSummary {
    #[serde(flatten)]
    contamination: Option<ContaminationSummary>,
    #[serde(flatten)]
    scoring: Option<EvalSummary>,
    /// Of several models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    models: Vec<EvalSummary>,
}

impl Work {
    /// What it would do, without doing it.
    pub(super) fn summary(&self, progress: &Progress) -> Result<WorkSummary, EvalError> {
        let (contamination, scoring, models) = match self {
            Self::Scoring(plan) => (None, Some(plan), Vec::new()),
            Self::Ensemble(plans) => (None, None, summary_of_ensemble(plans, progress)?),
            Self::Contamination(plan, scoring) => {
                (Some(plan.summary(progress)?), scoring.as_ref(), Vec::new())
            }
        };
        let scoring = scoring.map(|plan| plan.summary(progress)).transpose()?;
        Ok(WorkSummary { contamination, scoring, models })
    }

    /// Does it. Scores are to be forgotten when the report is written.
    pub(super) fn run(
        &self,
        progress: &Progress,
    ) -> Result<(EvalReport, Vec<ScoresOnDisk>), EvalError> {
        let (report, scores) = match self {
            Self::Scoring(plan) => evaluate_keeping_scores(plan, progress)?,
            Self::Ensemble(plans) => return evaluate_ensemble_keeping_scores(plans, progress),
            Self::Contamination(plan, scoring) => {
                contamination::measure_keeping_scores(plan, scoring.as_ref(), progress)?
            }
        };
        Ok((report, vec![scores]))
    }
}
