//! Loss and perplexity of a model that predicts each token from those before it.
//!
//! All documents of a part are one stream of tokens, cut into sequences of the model's length, each
//! token predicted once from those before it in its sequence. Attention and positions are not reset
//! at the end of a document, and the token that ends it is predicted like any other, as in training.

use std::time::Instant;

use corpus::{Observer, Silent, Unit};
use serde::Serialize;
use tracing::info;
use training::data::{DataPart, Part, SplitWeights};
use training::inference::Window;

use super::{Division, PASSES_AT_A_TIME, Validation};
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::kept::TotalLoss;
use crate::model::{EvaluatedModel, Stage};
use crate::perplexity::{MAX_MEAN_LOSS, is_capped, perplexity};
use crate::report::{self, ScoringSettings, TaskResult};
use crate::summary::TaskSummary;

/// What the task found; the protocol is always `training`: that of a training's own validation.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// How well the documents were predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Mean over the targets of the negative natural logarithm of their probability.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// Whether a loss above `max_mean_loss` was cut for the perplexity.
    pub capped: bool,
    /// Sum over the targets.
    pub total_nll: f64,
}

/// Sizes of the part and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tokens predicted: `window` for each sequence that was scored.
    pub targets: u64,
    /// Sequences scored: all of the part, unless a limit left some out.
    pub sequences: u64,
    /// Sequences of the part.
    pub sequences_in_part: u64,
    /// Documents of the part.
    pub documents: u64,
    /// Tokens of the part.
    pub tokens: u64,
    /// Tokens behind the last whole sequence, which belong to none.
    pub tokens_left_over: u64,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Which documents of the data: `train`, `validation` or `test`.
    pub split: Part,
    /// Weights by which the documents are divided into the three.
    pub split_weights: SplitWeights,
    /// Who says so: `configuration`, `checkpoint` for the run that was trained, or `default`.
    pub split_weights_from: &'static str,
    /// Mean losses above this are cut for the perplexity.
    pub max_mean_loss: f64,
    /// The model, the data folder or shard, and how many sequences were scored at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
}

impl Validation {
    /// Scores the part's sequences with a GPT-2.
    ///
    /// # Errors
    ///
    /// When the data cannot be used or is not what it says, the model fails or gives a loss that is
    /// no number, or `observer` asks to stop.
    pub(super) fn run_causal(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let part = self.open(&model.identity, plan, &Silent)?;
        part.verify(observer)?;
        let counts = self.causal_counts(&part, &model.identity, plan);
        info!(
            task = self.name,
            split = self.part.name(),
            documents = counts.documents,
            sequences = counts.sequences,
            "scoring"
        );
        observer.begin(&self.name, Some(counts.sequences), Unit::Samples);
        let total_nll = self.total_nll(&part, counts.sequences, model, plan, observer)?;
        observer.finish();
        let measured = Measured {
            protocol: "training",
            metrics: Metrics::new(total_nll, counts.targets),
            counts,
            settings: self.causal_settings(&model.identity, plan),
        };
        let token_perplexity = measured.metrics.perplexity;
        report::warn_if_worse_than_guessing(&self.name, token_perplexity, &model.identity);
        Ok(TaskResult {
            task: self.name.clone(),
            measured: report::Measured::Validation(measured),
            partial: counts.sequences < counts.sequences_in_part,
            seconds: start.elapsed().as_secs_f64(),
            items: None,
        })
    }

    /// What [`run_causal`](Self::run_causal) would do. Reads no tokens.
    ///
    /// # Errors
    ///
    /// When the data cannot be used.
    pub(super) fn causal_summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        let part = self.open(model, plan, &Silent)?;
        let counts = self.causal_counts(&part, model, plan);
        let sequences = counts.sequences as usize;
        Ok(TaskSummary {
            task: self.name.clone(),
            data: self.data.clone(),
            tokens: counts.tokens as usize,
            windows: Some(sequences),
            examples: None,
            targets: counts.targets as usize,
            forward_passes: sequences.div_ceil(plan.micro_batch_size.get()),
            token_positions: counts.targets as usize,
            partial: counts.sequences < counts.sequences_in_part,
        })
    }

    fn causal_counts(&self, part: &DataPart, model: &ModelIdentity, plan: &EvalPlan) -> Counts {
        let seq_length = model.seq_length() as u64;
        let limit = plan.limit.map_or(u64::MAX, |limit| limit.get() as u64);
        let sequences = part.num_samples().min(limit);
        Counts {
            targets: sequences * seq_length,
            sequences,
            sequences_in_part: part.num_samples(),
            documents: part.num_documents(),
            tokens: part.num_tokens(),
            // The last sequence's last target is the input of none.
            tokens_left_over: part.num_tokens() - part.num_samples() * seq_length - 1,
        }
    }

    /// The sum of the losses of the first `sequences` sequences, whose tokens are read a few passes
    /// at a time.
    fn total_nll(
        &self,
        part: &DataPart,
        sequences: u64,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<f64, EvalError> {
        let seq_length = model.identity.seq_length();
        let passes = PASSES_AT_A_TIME * plan.data_parallel_size.get();
        let at_a_time = passes * plan.micro_batch_size.get();
        let (mut total, mut tokens) = (0.0, Vec::new());
        for first in (0..sequences).step_by(at_a_time) {
            tokens.clear();
            for sequence in first..sequences.min(first + at_a_time as u64) {
                part.read(sequence, &mut tokens)?;
            }
            model.identity.check_tokens(&tokens)?;
            let windows = tokens.chunks_exact(seq_length + 1);
            let windows: Vec<Window<'_>> =
                windows.map(|tokens| Window { tokens, scored: 0..seq_length }).collect();
            let stage = Stage { name: &self.name, unit: Unit::Samples, windows: &windows };
            let losses =
                model.score_part(&stage, first as usize, plan.micro_batch_size, observer)?;
            total += losses.iter().map(|&TotalLoss(loss)| loss).sum::<f64>();
        }
        Ok(total)
    }

    fn causal_settings(&self, model: &ModelIdentity, plan: &EvalPlan) -> Settings {
        let division = Division::of(model, plan);
        Settings {
            split: self.part,
            split_weights: division.weights,
            split_weights_from: division.from,
            max_mean_loss: MAX_MEAN_LOSS,
            scoring: ScoringSettings::new(&self.data, model, plan),
        }
    }
}

impl Metrics {
    fn new(total_nll: f64, targets: u64) -> Self {
        let loss = total_nll / targets as f64;
        Self { loss, perplexity: perplexity(loss), capped: is_capped(loss), total_nll }
    }
}
