//! Losses of a masked language model: of the tokens behind its masks, and of the order of segments.
//!
//! Samples are the pairs of segments `[CLS] A [SEP] B [SEP]` of one epoch of the part, made and
//! masked as the model's training made and masked its own: by the `[data.masked_lm]` of its run, or by
//! the paper's (section 4.2) for weights of another program. Which tokens are masked depends on the
//! data alone, so that all models predict the same ones, and a loss is what the training's own
//! validation of the same checkpoint gives where that takes all samples. The paper's perplexities of
//! BERT (section 5.3) are `exp` of this loss on 3% of its documents.

use std::num::NonZeroUsize;
use std::time::Instant;

use corpus::{Observer, Silent, Unit};
use serde::Serialize;
use tracing::{info, warn};
use training::data::{Batch, DataPart, MaskedLmConfig, PairSample, Part, SplitWeights};
use training::inference::PairScore;
use xxhash_rust::xxh3::Xxh3;

use super::{Division, PASSES_AT_A_TIME, Validation};
use crate::accuracy::Accuracy;
use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::model::EvaluatedModel;
use crate::perplexity::{MAX_MEAN_LOSS, is_capped, perplexity};
use crate::report::{self, ScoringSettings, TaskResult};
use crate::samples::{Samples, hash_tokens};
use crate::scorer::ModelScorer;
use crate::summary::TaskSummary;

/// What the task found of a BERT; the protocol is always `training`: that of a training's own
/// validation.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// How well the documents were predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Mean over the masked tokens of the negative natural logarithm of their probability.
    pub mlm_loss: f64,
    /// `exp(mlm_loss)`.
    pub mlm_perplexity: f64,
    /// Whether a loss above `max_mean_loss` was cut for the perplexity.
    pub capped: bool,
    /// Mean over the samples of the loss of the order of their segments; `ln 2` is that of a guess.
    pub sop_loss: f64,
    /// Share of the samples whose order is the more probable one of the two.
    pub sop_accuracy: f64,
    /// Its standard error, `√(p (1 - p) / samples)`.
    pub sop_stderr: f64,
    /// Sum over the masked tokens of their losses.
    pub total_nll: f64,
}

/// Sizes of the part and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Masked tokens that were predicted.
    pub targets: u64,
    /// Samples scored: all of the part, unless a limit left some out.
    pub samples: u64,
    /// Samples of the part.
    pub samples_in_part: u64,
    /// Documents of the part.
    pub documents: u64,
    /// Documents that give no sample because they have fewer than two sentences.
    pub documents_of_one_sentence: u64,
    /// Documents that give no sample because a sentence of theirs has more than 512 tokens.
    pub documents_with_long_sentence: u64,
    /// Tokens of the part.
    pub tokens: u64,
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
    /// How samples were aimed and masked.
    #[serde(flatten)]
    pub masked_lm: MaskedLmConfig,
    /// Who says so: `checkpoint`, or `default` for the paper's.
    pub masked_lm_from: &'static str,
    /// Mean losses above this are cut for the perplexity.
    pub max_mean_loss: f64,
    /// The model, the data folder or shard, and how many samples were scored at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
}

/// Sums over samples.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    masked_lm: f64,
    masked: u64,
    order: f64,
    orders: Accuracy,
}

impl Validation {
    /// Scores the part's pairs of segments with a BERT.
    pub(super) fn run_masked_lm(
        &self,
        masking: MaskedLmConfig,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        let start = Instant::now();
        let part = self.open(&model.identity, plan, observer)?;
        part.verify(observer)?;
        let samples = samples_within_limit(&part, plan);
        info!(
            task = self.name,
            split = self.part.name(),
            documents = part.num_documents(),
            samples,
            "scoring"
        );
        let skipped = part.skipped().unwrap_or_default();
        if skipped.total() > 0 {
            warn!(
                task = self.name,
                documents = part.num_documents(),
                of_one_sentence = skipped.of_one_sentence,
                with_long_sentence = skipped.with_long_sentence,
                "documents give no pair of segments and are not scored"
            );
        }
        observer.begin(&self.name, Some(samples), Unit::Samples);
        let totals = self.totals(&part, samples, model, plan, observer)?;
        observer.finish();
        if totals.masked == 0 {
            return Err(EvalError::NothingMasked {
                path: self.data.clone(),
                samples,
                mask_prob: masking.mask_prob,
                seq_length: model.identity.seq_length(),
            });
        }
        let metrics = Metrics::new(&totals);
        report::warn_if_worse_than_guessing(&self.name, metrics.mlm_perplexity, &model.identity);
        let counts = Counts {
            targets: totals.masked,
            samples,
            samples_in_part: part.num_samples(),
            documents: part.num_documents(),
            documents_of_one_sentence: skipped.of_one_sentence,
            documents_with_long_sentence: skipped.with_long_sentence,
            tokens: part.num_tokens(),
        };
        let settings = self.masked_lm_settings(masking, &model.identity, plan);
        let measured = Measured { protocol: "training", metrics, counts, settings };
        Ok(TaskResult {
            task: self.name.clone(),
            measured: report::Measured::MaskedLm(measured),
            partial: counts.samples < counts.samples_in_part,
            seconds: start.elapsed().as_secs_f64(),
            items: None,
        })
    }

    /// What [`run_masked_lm`](Self::run_masked_lm) would do.
    pub(super) fn masked_lm_summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        let part = self.open(model, plan, &Silent)?;
        let samples = samples_within_limit(&part, plan);
        Ok(TaskSummary {
            task: self.name.clone(),
            data: self.data.clone(),
            tokens: part.num_tokens() as usize,
            windows: None,
            examples: Some(samples as usize),
            targets: part.scored_targets(0..samples)? as usize,
            forward_passes: (samples as usize).div_ceil(plan.micro_batch_size.get()),
            token_positions: samples as usize * model.seq_length(),
            partial: samples < part.num_samples(),
        })
    }

    /// The sums over the first `samples` samples, which are made a few passes at a time.
    fn totals(
        &self,
        part: &DataPart,
        samples: u64,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<Totals, EvalError> {
        let passes = PASSES_AT_A_TIME * plan.data_parallel_size.get();
        let at_a_time = (passes * plan.micro_batch_size.get()) as u64;
        let mut totals = Totals::default();
        for first in (0..samples).step_by(at_a_time as usize) {
            let numbers = first..samples.min(first + at_a_time);
            let pairs = Pairs {
                stage: &self.name,
                first: first as usize,
                pairs: numbers.map(|sample| part.pair(sample)).collect::<Result<_, _>>()?,
            };
            let (first, batch_size) = (pairs.first, plan.micro_batch_size);
            let scores = model.score_samples(&self.name, first, &pairs, batch_size, observer)?;
            scores.iter().for_each(|score| totals.add(score));
        }
        Ok(totals)
    }

    fn masked_lm_settings(
        &self,
        masked_lm: MaskedLmConfig,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Settings {
        let division = Division::of(model, plan);
        Settings {
            split: self.part,
            split_weights: division.weights,
            split_weights_from: division.from,
            masked_lm,
            masked_lm_from: if model.masked_lm.is_some() { "checkpoint" } else { "default" },
            max_mean_loss: MAX_MEAN_LOSS,
            scoring: ScoringSettings::new(&self.data, model, plan),
        }
    }
}

/// Samples of the part that are scored.
fn samples_within_limit(part: &DataPart, plan: &EvalPlan) -> u64 {
    plan.limit.map_or(u64::MAX, |limit| limit.get() as u64).min(part.num_samples())
}

impl Totals {
    fn add(&mut self, score: &PairScore) {
        self.masked_lm += score.masked_lm.total;
        self.masked += score.masked_lm.targets;
        self.order += f64::from(score.order_loss);
        self.orders = self.orders.joined(Accuracy::of([score.is_order_right]));
    }
}

impl Metrics {
    fn new(totals: &Totals) -> Self {
        let mlm_loss = totals.masked_lm / totals.masked as f64;
        Self {
            mlm_loss,
            mlm_perplexity: perplexity(mlm_loss),
            capped: is_capped(mlm_loss),
            sop_loss: totals.order / totals.orders.items as f64,
            sop_accuracy: totals.orders.value(),
            sop_stderr: totals.orders.standard_error(),
            total_nll: totals.masked_lm,
        }
    }
}

/// Masked pairs of segments.
struct Pairs<'a> {
    stage: &'a str,
    /// Number of the first in the part.
    first: usize,
    pairs: Vec<PairSample>,
}

impl Pairs<'_> {
    /// Refuses losses of the pair at `at` that are no numbers.
    fn check_finite(&self, score: &PairScore, at: usize) -> Result<(), EvalError> {
        let losses = [
            ("the loss of its masked tokens", score.masked_lm.total),
            ("the loss of the order of its segments", f64::from(score.order_loss)),
        ];
        match losses.into_iter().find(|(_, loss)| !loss.is_finite()) {
            None => Ok(()),
            Some((what, value)) => Err(EvalError::NonFiniteSample {
                value,
                what: what.to_owned(),
                sample: format!("sample {}, counted from 0,", self.first + at),
                stage: self.stage.to_owned(),
            }),
        }
    }
}

impl Samples for Pairs<'_> {
    type Score = PairScore;

    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn hash(&self, at: usize) -> String {
        let pair = &self.pairs[at];
        let mut hash = Xxh3::new();
        hash_tokens(&mut hash, &pair.tokens);
        hash_tokens(&mut hash, &pair.targets);
        for number in pair.predicted.iter().chain([&pair.second_segment, &pair.length]) {
            hash.update(&(*number as u64).to_le_bytes());
        }
        hash.update(&[u8::from(pair.is_swapped)]);
        format!("{:016x}", hash.digest())
    }

    fn scored(&self, at: usize) -> usize {
        self.pairs[at].predicted.len()
    }

    fn batches(&self, missing: Vec<usize>, batch_size: NonZeroUsize) -> Vec<Vec<usize>> {
        missing.chunks(batch_size.get()).map(<[usize]>::to_vec).collect()
    }

    fn score(
        &self,
        scorer: &mut ModelScorer,
        batches: &[Vec<usize>],
    ) -> Result<Vec<Vec<PairScore>>, EvalError> {
        let batch = |places: &Vec<usize>| {
            let pairs: Vec<_> = places.iter().map(|&at| self.pairs[at].clone()).collect();
            // Every masked token and every order has the weight 1.
            Batch::of_pairs(&pairs, 0, 1, 1)
        };
        let scores = scorer.bert().score_side_by_side(batches.iter().map(batch).collect())?;
        for (places, scores) in batches.iter().zip(&scores) {
            for (&at, score) in places.iter().zip(scores) {
                self.check_finite(score, at)?;
            }
        }
        Ok(scores)
    }
}
