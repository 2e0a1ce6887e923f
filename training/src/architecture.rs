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

    /// Floating-point operations that the model asks for to train on one token: those of its matrix
    /// products forward, and twice as many backward.
    ///
    /// With `h` the width, `f` the MLP's, `l` layers, `s` tokens in a sequence and `V` in the
    /// vocabulary, a forward pass takes `l (8h² + 4hf + 4sh) + 2hV` per token. Three times that is,
    /// for `f = 4h` and a batch of `B` sequences, `72 B s l h² (1 + s/6h + V/12lh)`. The usual `96 B
    /// s l h² (1 + s/6h + V/16lh)` counts the layers' forward pass once more, which recomputation
    /// does; that is work of the hardware, not of the model, and is left out here, recomputed or
    /// not. Rows that pad the vocabulary are not counted: they are never scored.
    #[must_use]
    pub fn flops_per_token(&self) -> f64 {
        let Self::Gpt2(model) = self;
        let [h, f, l, s, v] = [
            model.hidden_size,
            model.ffn_size(),
            model.num_layers,
            model.seq_length,
            model.vocab_size,
        ]
        .map(|size| size as f64);
        let forward = l * (8.0 * h * h + 4.0 * h * f + 4.0 * s * h) + 2.0 * h * v;
        3.0 * forward
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
