//! The sizes of a model, from the section that was written of it.

use std::num::NonZeroUsize;

use crate::architecture::Architecture;
use crate::config::{BertSection, Gpt2Section, ModelConfig};
use crate::model::{BertConfig, Gpt2Config};

impl ModelConfig {
    /// The tokens of the vocabulary that are written down.
    #[must_use]
    pub fn vocab_size(&self) -> Option<NonZeroUsize> {
        match self {
            Self::Gpt2(section) => section.vocab_size,
            Self::Bert(section) => section.vocab_size,
        }
    }

    /// The model's sizes with a vocabulary of `vocab_size` tokens, as it is pre-trained.
    #[must_use]
    pub fn with_vocab_size(&self, vocab_size: usize) -> Architecture {
        match self {
            Self::Gpt2(section) => Architecture::Gpt2(section.with_vocab_size(vocab_size)),
            Self::Bert(section) => Architecture::Bert(section.with_vocab_size(vocab_size)),
        }
    }
}

impl BertSection {
    /// The model's sizes with a vocabulary of `vocab_size` tokens.
    #[must_use]
    pub fn with_vocab_size(&self, vocab_size: usize) -> BertConfig {
        BertConfig {
            num_layers: self.num_layers.get(),
            hidden_size: self.hidden_size.get(),
            num_attention_heads: self.num_attention_heads.get(),
            seq_length: self.seq_length.get(),
            vocab_size,
            ffn_hidden_size: self.ffn_hidden_size.map(std::num::NonZero::get),
            hidden_dropout: self.hidden_dropout,
            attention_dropout: self.attention_dropout,
            activation: self.activation,
            layer_norm_epsilon: self.layer_norm_epsilon,
            init_std: self.init_std,
            arrangement: self.arrangement,
        }
    }
}

impl Gpt2Section {
    /// The model's sizes with a vocabulary of `vocab_size` tokens.
    #[must_use]
    pub fn with_vocab_size(&self, vocab_size: usize) -> Gpt2Config {
        Gpt2Config {
            num_layers: self.num_layers.get(),
            hidden_size: self.hidden_size.get(),
            num_attention_heads: self.num_attention_heads.get(),
            seq_length: self.seq_length.get(),
            vocab_size,
            ffn_hidden_size: self.ffn_hidden_size.map(std::num::NonZero::get),
            hidden_dropout: self.hidden_dropout,
            attention_dropout: self.attention_dropout,
            activation: self.activation,
            layer_norm_epsilon: self.layer_norm_epsilon,
            init_std: self.init_std,
        }
    }
}
