//! The model under evaluation: what is known of it without its weights, and with them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use corpus::tokenizer::Tokenizer;
use corpus::{Observer, TokenizerIdentity, Unit};
use training::checkpoint::Checkpoint;
use training::inference::{Scorer, Window};
use training::model::Gpt2Config;
use training::parallel::TokenScore;

use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::error::EvalError;

/// A model without its weights: all that is needed to prepare a test set for it.
#[derive(Clone)]
pub struct ModelIdentity {
    /// Folder of its checkpoint.
    pub checkpoint: PathBuf,
    /// Optimizer steps that the checkpoint has behind it.
    pub step: u64,
    /// Its sizes.
    pub config: Gpt2Config,
    /// The tokenizer it was trained with.
    pub tokenizer: Arc<dyn Tokenizer>,
}

/// A model that scores tokens.
pub struct EvaluatedModel {
    /// What it is.
    pub identity: ModelIdentity,
    /// Computes its losses and predictions.
    pub scorer: Scorer,
}

/// Windows that a task has scored in one go.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// What is scored: the task and, where it has several stages, which of them.
    pub name: &'a str,
    /// What a window is to the task.
    pub unit: Unit,
    /// The windows.
    pub windows: &'a [Window<'a>],
}

impl ModelIdentity {
    /// The model of `checkpoint`.
    ///
    /// # Errors
    ///
    /// When its tokenizer is not found or is not the one that the model was trained with.
    pub fn new(checkpoint: &Checkpoint) -> Result<Self, EvalError> {
        Ok(Self {
            checkpoint: checkpoint.folder().to_owned(),
            step: checkpoint.step(),
            config: checkpoint.model_config().clone(),
            tokenizer: open_tokenizer(&checkpoint.tokenizer()?)?,
        })
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    ///
    /// When the tokenizer has no tokens for the text, or one that the model does not have.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EvalError> {
        let mut tokens = Vec::new();
        self.tokenizer.encode(text, &mut tokens)?;
        let vocab_size = self.config.vocab_size;
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            None => Ok(tokens),
            Some(&token) => Err(self.unknown(token)),
        }
    }

    /// The token that ends documents.
    ///
    /// # Errors
    ///
    /// When the model does not have it.
    pub fn end_of_document(&self) -> Result<u32, EvalError> {
        let token = self.tokenizer.eod();
        if token as usize >= self.config.vocab_size {
            return Err(self.unknown(token));
        }
        Ok(token)
    }

    fn unknown(&self, token: u32) -> EvalError {
        let tokenizer = self.tokenizer.name().to_owned();
        EvalError::UnknownToken { tokenizer, token, vocab_size: self.config.vocab_size }
    }
}

impl EvaluatedModel {
    /// Opens the plan's checkpoint on as many ranks as it says.
    ///
    /// # Errors
    ///
    /// When the checkpoint cannot be read or does not split over the ranks, or its tokenizer is not
    /// found or is not the one that the model was trained with; when `observer`, which hears how far
    /// the reading is, asks to stop.
    pub fn open(plan: &EvalPlan, observer: &dyn Observer) -> Result<Self, EvalError> {
        let checkpoint = Checkpoint::open_observed(&plan.checkpoint, observer)?;
        let identity = ModelIdentity::new(&checkpoint)?;
        let scorer = Scorer::new(&identity.config, checkpoint, plan.tensor_parallel_size)?;
        Ok(Self { identity, scorer })
    }

    /// Scores every window of `stage`, at most `batch_size` in a forward pass: one list for each
    /// window, in the order of the stage, however they were batched.
    ///
    /// # Errors
    ///
    /// When the model fails or gives a loss that is no number, or `observer` asks to stop.
    pub fn score(
        &mut self,
        stage: &Stage<'_>,
        batch_size: NonZeroUsize,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<TokenScore>>, EvalError> {
        let batches = Batches::new(stage.windows, batch_size);
        let mut scores = vec![Vec::new(); batches.num_windows()];
        observer.begin(stage.name, Some(stage.windows.len() as u64), stage.unit);
        for batch in batches.iter() {
            if observer.stop_requested() {
                return Err(EvalError::Stopped);
            }
            for (&window, scored) in batch.indices.iter().zip(self.scorer.score(&batch.windows)?) {
                if let Some(score) = scored.iter().find(|score| !score.loss.is_finite()) {
                    return Err(EvalError::NonFinite { loss: score.loss, window });
                }
                scores[window] = scored;
            }
            observer.advance(batch.windows.len() as u64);
        }
        observer.finish();
        Ok(scores)
    }
}

/// The tokenizer of that name, if it still is the same.
fn open_tokenizer(expected: &TokenizerIdentity) -> Result<Arc<dyn Tokenizer>, EvalError> {
    let tokenizer = corpus::tokenizer::open(&expected.name)?;
    let found = tokenizer.fingerprint();
    if found != expected.fingerprint {
        return Err(EvalError::OtherTokenizer {
            name: expected.name.clone(),
            expected: expected.fingerprint.clone(),
            found,
        });
    }
    Ok(tokenizer)
}
