//! Which model it is, and how it splits over ranks.
//!
//! A model's own files know its sizes and nothing of ranks; what the two have to do with each other
//! is asked here, before anything is allocated.

use serde::{Deserialize, Serialize};

use crate::TrainError;
use crate::model::Gpt2Config;
use crate::parallel::TensorParallelGroup;
use crate::parameters::ParameterSpec;

/// A model and its sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A left-to-right language model.
    Gpt2(Gpt2Config),
}

impl Architecture {
    /// The parameter table.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let Self::Gpt2(model) = self;
        model.parameters()
    }

    /// Tokens per sample.
    pub fn seq_length(&self) -> usize {
        let Self::Gpt2(model) = self;
        model.seq_length
    }

    /// Tokens of the vocabulary, unpadded.
    pub fn vocab_size(&self) -> usize {
        let Self::Gpt2(model) = self;
        model.vocab_size
    }
}

impl Gpt2Config {
    /// How many parameters the model has, counting the rows that pad the vocabulary when it is
    /// split `tensor_parallel_size` ways.
    #[must_use]
    pub fn num_parameters(&self, tensor_parallel_size: usize) -> usize {
        self.parameters().iter().map(|spec| spec.num_padded_elements(tensor_parallel_size)).sum()
    }

    /// Checks that the model splits `tensor_parallel_size` ways. The vocabulary always does: it
    /// is padded.
    ///
    /// # Errors
    ///
    /// [`TrainError::HeadsIndivisible`] or [`TrainError::FfnIndivisible`], with the sizes that
    /// would do; whatever [`validate`](Self::validate) finds.
    pub fn check_tensor_parallel(&self, tensor_parallel_size: usize) -> Result<(), TrainError> {
        self.validate()?;
        let (heads, ffn_hidden_size) = (self.num_attention_heads, self.ffn_size());
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

    /// [`check_tensor_parallel`](Self::check_tensor_parallel) for the ranks of `group`.
    pub(crate) fn check_splits_over(&self, group: &TensorParallelGroup) -> Result<(), TrainError> {
        self.check_tensor_parallel(group.size())
    }
}
