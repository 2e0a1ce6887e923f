//! What is known of a model without its weights.

use std::path::PathBuf;
use std::sync::Arc;

use corpus::TokenizerIdentity;
use corpus::tokenizer::Tokenizer;
use serde::Serialize;
use training::architecture::Architecture;
use training::checkpoint::Checkpoint;
use training::data::{MaskedLmConfig, SplitWeights};
use training::model::Gpt2Config;

use crate::error::EvalError;

/// A model without its weights: all that is needed to prepare a test set for it.
#[derive(Clone)]
pub struct ModelIdentity {
    /// Folder of its checkpoint.
    pub checkpoint: PathBuf,
    /// What that is.
    pub kind: CheckpointKind,
    /// Optimizer steps that the checkpoint has behind it; `None` where that is not known.
    pub step: Option<u64>,
    /// What it is, and its sizes.
    pub architecture: Architecture,
    /// How its training divided the documents of a data folder; `None` where that is not known.
    pub split_weights: Option<SplitWeights>,
    /// How a BERT's training masked its samples; `None` where that is not known.
    pub masked_lm: Option<MaskedLmConfig>,
    /// The tokenizer it was trained with.
    pub tokenizer: Arc<dyn Tokenizer>,
}

/// What a checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// Saved by a training of this program.
    Trained,
    /// Weights of another program, made a checkpoint by `pipeline checkpoint import`.
    Imported,
    /// A folder in Hugging Face's form.
    HuggingFace,
}

impl ModelIdentity {
    /// The model of `checkpoint`.
    ///
    /// # Errors
    ///
    /// When its tokenizer is not found or is not the one that the model was trained with.
    pub fn new(checkpoint: &Checkpoint) -> Result<Self, EvalError> {
        let is_trained = checkpoint.has_training_state();
        // What a model was fine-tuned on is no data folder.
        let is_pretrained = !matches!(checkpoint.architecture(), Architecture::BertChoice(_));
        let (split_weights, masked_lm) = match is_pretrained {
            true => (checkpoint.split_weights()?, checkpoint.masked_lm()?),
            false => (None, None),
        };
        Ok(Self {
            checkpoint: checkpoint.folder().to_owned(),
            kind: if is_trained { CheckpointKind::Trained } else { CheckpointKind::Imported },
            step: Some(checkpoint.step()),
            architecture: checkpoint.architecture().clone(),
            split_weights,
            masked_lm,
            tokenizer: open_tokenizer(&checkpoint.tokenizer()?)?,
        })
    }

    /// Tokens that it sees at most.
    #[must_use]
    pub fn seq_length(&self) -> usize {
        self.architecture.seq_length()
    }

    /// Tokens of its vocabulary, without padding.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.architecture.vocab_size()
    }

    /// The sizes of a GPT-2, which `task` asks for.
    ///
    /// # Errors
    ///
    /// [`EvalError::OtherModel`] when it is another model.
    pub fn gpt2_for(&self, task: &str) -> Result<&Gpt2Config, EvalError> {
        match &self.architecture {
            Architecture::Gpt2(config) => Ok(config),
            other => Err(EvalError::other_model(task, &self.checkpoint, other)),
        }
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    ///
    /// When the tokenizer has no tokens for the text, or one that the model does not have.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EvalError> {
        let mut tokens = Vec::new();
        self.tokenizer.encode(text, &mut tokens)?;
        self.check_tokens(&tokens)?;
        Ok(tokens)
    }

    /// Refuses tokens that the model does not have.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), EvalError> {
        let vocab_size = self.vocab_size();
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            None => Ok(()),
            Some(&token) => {
                let tokenizer = self.tokenizer.name().to_owned();
                Err(EvalError::UnknownToken { tokenizer, token, vocab_size })
            }
        }
    }

    /// The token that ends documents.
    ///
    /// # Errors
    ///
    /// When the model does not have it.
    pub fn end_of_document(&self) -> Result<u32, EvalError> {
        let token = self.tokenizer.eod();
        self.check_tokens(&[token])?;
        Ok(token)
    }
}

impl std::fmt::Debug for ModelIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ModelIdentity")
            .field("checkpoint", &self.checkpoint)
            .field("step", &self.step)
            .finish_non_exhaustive()
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
