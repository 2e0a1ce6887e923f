//! Which model it is, and how it splits over ranks.
//!
//! A model's own files know its sizes and nothing of ranks; what the two have to do with each other
//! is asked here, before anything is allocated.

use corpus::race::OPTIONS;
use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::model::{BertConfig, Gpt2Config, LayerConfig};
use crate::parallel::TensorParallelGroup;
use crate::parameters::ParameterSpec;

/// Share of BERT's tokens that is scored, where nothing says otherwise: those that are masked.
pub(crate) const MASKED_SHARE: f64 = 0.15;

/// A model and its sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A left-to-right language model.
    Gpt2(Gpt2Config),
    /// A masked language model.
    Bert(BertConfig),
    /// A BERT that chooses among answers: its encoder and pooler under one number for each sample,
    /// in place of the heads of pre-training.
    #[serde(rename = "bert_choice")]
    BertChoice(BertConfig),
}

impl Architecture {
    /// The parameter table.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        match self {
            Self::Gpt2(model) => model.parameters(),
            Self::Bert(model) => model.parameters(),
            Self::BertChoice(model) => model.multiple_choice_parameters(),
        }
    }

    /// Sequences per sample: a question has one for each of its answers.
    #[must_use]
    pub fn rows_per_sample(&self) -> usize {
        match self {
            Self::Gpt2(_) | Self::Bert(_) => 1,
            Self::BertChoice(_) => OPTIONS,
        }
    }

    /// Tokens per sample, those of all its sequences.
    #[must_use]
    pub fn tokens_per_sample(&self) -> usize {
        self.rows_per_sample().saturating_mul(self.seq_length())
    }

    /// Tokens per sequence.
    pub fn seq_length(&self) -> usize {
        match self {
            Self::Gpt2(model) => model.seq_length,
            Self::Bert(model) | Self::BertChoice(model) => model.seq_length,
        }
    }

    /// Tokens of the vocabulary, unpadded.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Gpt2(model) => model.vocab_size,
            Self::Bert(model) | Self::BertChoice(model) => model.vocab_size,
        }
    }

    /// The sizes of its layers.
    #[must_use]
    pub fn layers(&self) -> LayerConfig {
        match self {
            Self::Gpt2(model) => model.layers(),
            Self::Bert(model) | Self::BertChoice(model) => model.layers(),
        }
    }

    /// The name of its table in a manifest, and in a configuration where it has one.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gpt2(_) => "gpt2",
            Self::Bert(_) => "bert",
            Self::BertChoice(_) => "bert_choice",
        }
    }

    /// The sizes of a GPT-2.
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherArchitecture`] when it is another model.
    pub fn gpt2(&self) -> Result<&Gpt2Config, TrainError> {
        match self {
            Self::Gpt2(model) => Ok(model),
            other => Err(TrainError::OtherArchitecture { needed: "gpt2", found: other.name() }),
        }
    }

    /// The sizes of a BERT with the heads of pre-training.
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherArchitecture`] when it is another model.
    pub fn bert(&self) -> Result<&BertConfig, TrainError> {
        match self {
            Self::Bert(model) => Ok(model),
            other => Err(TrainError::OtherArchitecture { needed: "bert", found: other.name() }),
        }
    }

    /// The sizes of a BERT that chooses among answers.
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherArchitecture`] when it is another model.
    pub fn bert_choice(&self) -> Result<&BertConfig, TrainError> {
        match self {
            Self::BertChoice(model) => Ok(model),
            other => {
                Err(TrainError::OtherArchitecture { needed: "bert_choice", found: other.name() })
            }
        }
    }

    /// Checks what concerns the model alone.
    ///
    /// # Errors
    ///
    /// [`TrainError::InvalidField`] for the first field with an impossible value.
    pub fn validate(&self) -> Result<(), TrainError> {
        match self {
            Self::Gpt2(model) => model.validate(),
            Self::Bert(model) | Self::BertChoice(model) => model.validate(),
        }
    }

    /// Checks that the model splits `tensor_parallel_size` ways. The vocabulary always does: it is
    /// padded.
    ///
    /// # Errors
    ///
    /// [`TrainError::HeadsIndivisible`] or [`TrainError::FfnIndivisible`], with the sizes that
    /// would do; whatever [`validate`](Self::validate) finds.
    pub fn check_tensor_parallel(&self, tensor_parallel_size: usize) -> Result<(), TrainError> {
        self.validate()?;
        self.layers().check_split(tensor_parallel_size)
    }

    /// How many parameters the model has, counting the rows that pad the vocabulary when it is
    /// split `tensor_parallel_size` ways.
    #[must_use]
    pub fn num_parameters(&self, tensor_parallel_size: usize) -> usize {
        num_parameters(&self.parameters(), tensor_parallel_size)
    }

    /// Floating-point operations that the model asks for to train on one token: those of its matrix
    /// products forward, and twice as many backward.
    ///
    /// With `h` the width, `f` the MLP's, `l` layers, `s` tokens in a sequence and `V` in the
    /// vocabulary, a forward pass takes `l (8h² + 4hf + 4sh) + 2hV` per token. Three times that is,
    /// for `f = 4h` and a batch of `B` sequences, `72 B s l h² (1 + s/6h + V/12lh)`. The usual `96 B
    /// s l h² (1 + s/6h + V/16lh)` counts the layers' forward pass once more, which recomputation
    /// does; that is work of the hardware, not of the model, and is left out here, recomputed or
    /// not. Rows that pad the vocabulary are not counted: they are never scored.
    ///
    /// Of BERT's tokens only those that are masked are scored, 15 of 100 as the paper masks, by the
    /// head's `2h²` and `2hV`; the pooler's `2h²` is once per sequence. A BERT that chooses scores
    /// no token: beside the pooler it has `2h` per sequence.
    #[must_use]
    pub fn flops_per_token(&self) -> f64 {
        let LayerConfig { num_layers, hidden_size, ffn_hidden_size, .. } = self.layers();
        let [h, f, l, s, v] =
            [hidden_size, ffn_hidden_size, num_layers, self.seq_length(), self.vocab_size()]
                .map(|size| size as f64);
        let layers = l * (8.0 * h * h + 4.0 * h * f + 4.0 * s * h);
        let heads = match self {
            Self::Gpt2(_) => 2.0 * h * v,
            Self::Bert(_) => MASKED_SHARE * (2.0 * h * h + 2.0 * h * v) + 2.0 * h * h / s,
            Self::BertChoice(_) => (2.0 * h * h + 2.0 * h) / s,
        };
        3.0 * (layers + heads)
    }
}

impl Gpt2Config {
    /// How many parameters the model has, counting the rows that pad the vocabulary when it is
    /// split `tensor_parallel_size` ways.
    #[must_use]
    pub fn num_parameters(&self, tensor_parallel_size: usize) -> usize {
        num_parameters(&self.parameters(), tensor_parallel_size)
    }

    /// Checks that the model splits `tensor_parallel_size` ways. The vocabulary always does: it
    /// is padded.
    ///
    /// # Errors
    ///
    /// As [`Architecture::check_tensor_parallel`].
    pub fn check_tensor_parallel(&self, tensor_parallel_size: usize) -> Result<(), TrainError> {
        self.validate()?;
        self.layers().check_split(tensor_parallel_size)
    }

    /// [`check_tensor_parallel`](Self::check_tensor_parallel) for the ranks of `group`.
    pub(crate) fn check_splits_over(&self, group: &TensorParallelGroup) -> Result<(), TrainError> {
        self.check_tensor_parallel(group.size())
    }
}

impl BertConfig {
    /// Checks that the model splits `tensor_parallel_size` ways. The vocabulary always does: it
    /// is padded.
    ///
    /// # Errors
    ///
    /// As [`Architecture::check_tensor_parallel`].
    pub fn check_tensor_parallel(&self, tensor_parallel_size: usize) -> Result<(), TrainError> {
        self.validate()?;
        self.layers().check_split(tensor_parallel_size)
    }

    /// [`check_tensor_parallel`](Self::check_tensor_parallel) for the ranks of `group`.
    pub(crate) fn check_splits_over(&self, group: &TensorParallelGroup) -> Result<(), TrainError> {
        self.check_tensor_parallel(group.size())
    }
}

impl LayerConfig {
    /// Checks that heads and inner units divide over `tensor_parallel_size` ranks.
    fn check_split(&self, tensor_parallel_size: usize) -> Result<(), TrainError> {
        let (heads, ffn_hidden_size) = (self.num_attention_heads, self.ffn_hidden_size);
        let divides = |size: usize, whole: usize| size > 0 && whole.is_multiple_of(size);
        let allowed =
            || (1..=heads).filter(|&p| divides(p, heads) && divides(p, ffn_hidden_size)).collect();
        if !divides(tensor_parallel_size, heads) {
            return Err(TrainError::HeadsIndivisible {
                heads,
                tensor_parallel_size,
                allowed: allowed(),
            });
        }
        if !divides(tensor_parallel_size, ffn_hidden_size) {
            return Err(TrainError::FfnIndivisible {
                ffn_hidden_size,
                tensor_parallel_size,
                allowed: allowed(),
            });
        }
        Ok(())
    }
}

/// Parameters of a table, with the rows that pad the vocabulary.
fn num_parameters(specs: &[ParameterSpec], tensor_parallel_size: usize) -> usize {
    specs.iter().map(|spec| spec.num_padded_elements(tensor_parallel_size)).sum()
}
