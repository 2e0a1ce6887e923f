//! What can go wrong when a model continues a text.

use crate::error::gibibytes;

/// A reason why a text cannot be continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerationError {
    /// A text that should be gone on with is longer than the model sees.
    #[error(
        "the prompt has {tokens} tokens, and the model sees {seq_length} at most; shorten it, or \
         give its last part"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the model sees.
        seq_length: usize,
    },

    /// A token of a text that should be gone on with is none of the model's.
    #[error("the prompt has token {token}, and the model has {vocab_size} tokens")]
    PromptToken {
        /// The first such token.
        token: u32,
        /// Tokens of the model's vocabulary.
        vocab_size: usize,
    },

    /// The machine cannot hold the model with what it keeps of the texts that it writes.
    #[error(
        "the weights take {}, and what is kept of {samples} text{} of {capacity} tokens {}; this \
         machine has {}; ask for fewer samples or tokens",
        gibibytes(*weights),
        if *samples == 1 { "" } else { "s" },
        gibibytes(*kept),
        gibibytes(*present)
    )]
    GenerationTooLarge {
        /// Bytes of the weights.
        weights: u64,
        /// Bytes of keys and values.
        kept: u64,
        /// Texts side by side.
        samples: usize,
        /// Tokens of each that are kept.
        capacity: usize,
        /// Bytes of memory.
        present: u64,
    },

    /// The model gives logits from which no token can be drawn.
    #[error("the model's logits at position {position} are no numbers; its weights are not usable")]
    Logits {
        /// The place of the token that should be drawn, counted from 0.
        position: usize,
    },
}
