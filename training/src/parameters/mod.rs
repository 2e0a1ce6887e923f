//! One table of a model's parameters: what each is called, how it is shaped, split and started.
//!
//! The same [`ParameterSpec`] drives initialization, checkpoints, weight decay and the counting of
//! the gradient norm, so that these cannot disagree about a parameter. A model lists its table
//! (`Gpt2Config::parameters`); where the values come from is a [`ParameterSource`]: a seed
//! ([`KeyedInit`]) or a checkpoint.

mod loader;
mod source;
mod split;

pub use loader::{HeadRange, ParameterLoader};
pub use source::{KeyedInit, ParameterSource};
pub use split::{Run, Split, padded_vocab_size};

/// One parameter of a model, as the whole group of ranks holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterSpec {
    /// Path in the module tree, in Megatron's names: `layers.0.attention.query_key_value.weight`.
    pub path: String,
    /// Name in files, in Hugging Face's GPT-2 names: `transformer.h.0.attn.c_attn.weight`.
    pub name: String,
    /// Shape of the whole parameter, with the true (unpadded) vocabulary. Weights of linear layers
    /// are `[d_input, d_output]`.
    pub shape: Vec<usize>,
    /// How the ranks of a tensor-parallel group share it.
    pub split: Split,
    /// What it holds before the first step.
    pub init: Init,
    /// Whether AdamW's weight decay applies: not for biases and layer norms.
    pub weight_decay: bool,
}

/// What a parameter holds before the first step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Independent draws from the normal distribution around 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// All zeros: biases.
    Zeros,
    /// All ones: gains of layer norms.
    Ones,
}

impl ParameterSpec {
    /// How many numbers the whole parameter holds.
    #[must_use]
    pub fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many numbers the whole parameter holds on a group of `size` ranks, counting the rows
    /// that pad the vocabulary.
    #[must_use]
    pub fn num_padded_elements(&self, size: usize) -> usize {
        match self.split {
            Split::Vocabulary => {
                padded_vocab_size(self.shape[0], size) * self.shape[1..].iter().product::<usize>()
            }
            Split::Replicated | Split::Dim { .. } => self.num_elements(),
        }
    }

    /// The shape of the part that `rank` of `size` holds, padded vocabulary rows included.
    ///
    /// # Panics
    ///
    /// When the split dimension is no multiple of the number of ranks; a validated configuration
    /// has none.
    #[must_use]
    pub fn local_shape(&self, rank: usize, size: usize) -> Vec<usize> {
        self.split.local_shape(&self.shape, rank, size)
    }

    /// The runs of consecutive numbers that `rank` of `size` holds.
    ///
    /// Rows that pad the vocabulary belong to no run: they are zero in memory and absent in files.
    ///
    /// # Panics
    ///
    /// As [`local_shape`](Self::local_shape).
    pub fn local_runs(&self, rank: usize, size: usize) -> impl Iterator<Item = Run> + use<> {
        self.split.local_runs(&self.shape, rank, size)
    }

    /// This rank's part of the whole parameter's values `full`; padding is zero.
    ///
    /// # Panics
    ///
    /// When `full` is shorter than the parameter, or as [`local_shape`](Self::local_shape).
    #[must_use]
    pub fn slice(&self, full: &[f32], rank: usize, size: usize) -> Vec<f32> {
        let mut local = vec![0.0; self.local_shape(rank, size).iter().product()];
        for run in self.local_runs(rank, size) {
            local[run.local_range()].copy_from_slice(&full[run.logical_range()]);
        }
        local
    }
}
