//! Losses on held-out documents of a data folder.
//!
//! A data folder is divided by the weights that the run was trained with, so that the documents are
//! those that it held out, and what they are cut into are the samples of a training's own validation,
//! whose loss this is where that takes all of them: windows of one stream of tokens for a GPT-2
//! (`causal`), masked pairs of segments for a BERT ([`masked_lm`]).

mod causal;
pub mod masked_lm;

use std::path::PathBuf;

pub use causal::{Counts, Measured, Metrics, Settings};
use corpus::{Observer, Silent, TokenizerIdentity};
use training::architecture::Architecture;
use training::data::{DataPart, MaskedLmConfig, Part, PartRequest, SampleForm, SplitWeights};

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::model::EvaluatedModel;
use crate::report::TaskResult;
use crate::summary::TaskSummary;

/// What reports call the task.
pub const NAME: &str = "validation";

/// Forward passes of every copy of the model whose tokens are in memory together.
const PASSES_AT_A_TIME: usize = 64;

/// Losses on a part of a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// What the report calls the task.
    pub name: String,
    /// The data folder; or a shard, by its path without `.bin` or `.idx` or by either file.
    pub data: PathBuf,
    /// Which of its documents.
    pub part: Part,
}

/// The weights of a division, and who says so.
struct Division {
    weights: SplitWeights,
    from: &'static str,
}

impl Validation {
    /// Scores the part's samples with `model`.
    ///
    /// # Errors
    ///
    /// When the data cannot be used or is not what it says, the model fails or gives a loss that is
    /// no number, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        match masking(&model.identity) {
            None => self.run_causal(model, plan, observer),
            Some(masking) => self.run_masked_lm(masking, model, plan, observer),
        }
    }

    /// What [`run`](Self::run) would do. Of windows no tokens are read; pairs are made to be counted.
    ///
    /// # Errors
    ///
    /// When the data cannot be used.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        match masking(model) {
            None => self.causal_summary(model, plan),
            Some(_) => self.masked_lm_summary(model, plan),
        }
    }

    /// What the data says of its content, and by which weights it is divided.
    pub(crate) fn data_description(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<(String, SplitWeights), EvalError> {
        Ok((self.open(model, plan, &Silent)?.description(), Division::of(model, plan).weights))
    }

    fn open(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<DataPart, EvalError> {
        let division = Division::of(model, plan);
        let request = PartRequest {
            part: self.part,
            split: &division.weights,
            form: masking(model).map_or(SampleForm::Windows, SampleForm::SentencePairs),
            seq_length: model.seq_length(),
            tokenizer: &TokenizerIdentity::of(&*model.tokenizer),
        };
        Ok(DataPart::open(&self.data, &request, observer)?)
    }
}

/// How the samples of a model are masked; none where it predicts each token from those before it.
pub(crate) fn masking(model: &ModelIdentity) -> Option<MaskedLmConfig> {
    let is_masked = matches!(model.architecture, Architecture::Bert(_));
    is_masked.then(|| model.masked_lm.unwrap_or_default())
}

impl Division {
    /// That of the plan, else that of the model's training, else the paper's.
    fn of(model: &ModelIdentity, plan: &EvalPlan) -> Self {
        match (&plan.split_weights, &model.split_weights) {
            (Some(weights), _) => Self { weights: weights.clone(), from: "configuration" },
            (None, Some(weights)) => Self { weights: weights.clone(), from: "checkpoint" },
            (None, None) => Self { weights: SplitWeights::default(), from: "default" },
        }
    }
}
