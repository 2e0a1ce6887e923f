//! What is asked of a [`Generator`](super::Generator), and what comes of it.

use crate::generation::GenerationError;
use std::num::NonZeroUsize;

use serde::Serialize;

use super::Sampling;
use crate::error::TrainError;
use crate::model::Gpt2Config;

/// A text to go on with, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationRequest {
    /// The beginning of the text, at least one token. A document of its own begins behind the
    /// end-of-document token.
    pub prompt: Vec<u32>,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// New tokens at most.
    pub max_tokens: NonZeroUsize,
    /// How many texts go on from the prompt, each with draws of its own.
    pub num_samples: NonZeroUsize,
    /// The token that ends a text; `None` to go on whatever comes.
    pub end: Option<u32>,
    /// Whether keys and values are kept. Without, everything is computed anew for each token, with
    /// the same result.
    pub use_cache: bool,
}

impl GenerationRequest {
    /// One text of at most `max_tokens` from the model's own distribution.
    #[must_use]
    pub fn new(prompt: Vec<u32>, max_tokens: NonZeroUsize) -> Self {
        Self {
            prompt,
            sampling: Sampling::default(),
            max_tokens,
            num_samples: NonZeroUsize::MIN,
            end: None,
            use_cache: true,
        }
    }

    /// Positions of each text that are kept at most.
    #[must_use]
    pub fn capacity(&self, model: &Gpt2Config) -> usize {
        self.prompt.len().saturating_add(self.max_tokens.get()).min(model.seq_length)
    }

    /// Bytes of keys and values at most, on all ranks together.
    #[must_use]
    pub fn key_value_bytes(&self, model: &Gpt2Config) -> u64 {
        model.key_value_bytes(self.num_samples.get(), self.capacity(model))
    }

    /// Checks the request against the model and the memory of the machine in bytes, where that is
    /// known.
    ///
    /// # Errors
    ///
    /// When the prompt is longer than the model sees or has a token that it does not know, a
    /// setting makes no sense, or memory cannot hold the texts.
    ///
    /// # Panics
    ///
    /// When the prompt is empty.
    pub fn validate(&self, model: &Gpt2Config, memory: Option<u64>) -> Result<(), TrainError> {
        assert!(!self.prompt.is_empty(), "a text begins with a token");
        self.sampling.validate()?;
        let (tokens, seq_length) = (self.prompt.len(), model.seq_length);
        if tokens > seq_length {
            return Err(GenerationError::PromptTooLong { tokens, seq_length }.into());
        }
        let vocab_size = model.vocab_size;
        if let Some(&token) = self.prompt.iter().find(|&&token| token as usize >= vocab_size) {
            return Err(GenerationError::PromptToken { token, vocab_size }.into());
        }
        let weights = model.num_parameters(1) as u64 * size_of::<f32>() as u64;
        let kept = self.key_value_bytes(model);
        match memory {
            Some(present) if weights.saturating_add(kept) > present => {
                Err(GenerationError::GenerationTooLarge {
                    weights,
                    kept,
                    samples: self.num_samples.get(),
                    capacity: self.capacity(model),
                    present,
                }
                .into())
            }
            _ => Ok(()),
        }
    }
}

/// Why a text is at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended it.
    EndOfDocument,
    /// It has as many tokens as were asked for.
    MaxTokens,
    /// Nobody wanted more of it.
    Stopped,
}

/// What a text goes on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The new tokens, without the one that ends the text.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub finish: Finish,
}
