//! The reference model: a GPT-2 of two layers that PyTorch and transformers computed the values of,
//! in `fixtures/gpt2_micro` and `fixtures/gpt2_micro_gelu_new`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use training::TrainError;
use training::backend::Activation;
use training::model::{Gpt2Config, ParameterSource, ParameterSpec};

/// The file `name` of the reference model `fixture`.
pub(crate) fn path(fixture: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture).join(name)
}

/// Its sizes.
pub(crate) fn config(activation: Activation) -> Gpt2Config {
    Gpt2Config {
        num_layers: 2,
        hidden_size: 32,
        num_attention_heads: 4,
        seq_length: 64,
        vocab_size: 96,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    }
}

/// The tensors of one of its files, as `f32`, which holds the whole numbers among them exactly. As
/// a source of parameters they are the model's weights.
pub(crate) struct Tensors(HashMap<String, Vec<f32>>);

impl Tensors {
    pub(crate) fn read(fixture: &str, name: &str) -> Self {
        let bytes = std::fs::read(path(fixture, name)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let values = file.iter().map(|(name, tensor)| {
            let words = tensor.data().chunks_exact(4).map(|bytes| bytes.try_into().unwrap());
            let values = match tensor.dtype() {
                Dtype::I32 => words.map(|word| i32::from_le_bytes(word) as f32).collect(),
                _ => words.map(f32::from_le_bytes).collect(),
            };
            (name.to_owned(), values)
        });
        Self(values.collect())
    }

    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        &self.0[name]
    }

    pub(crate) fn tokens(&self, name: &str) -> Vec<u32> {
        self.0[name].iter().map(|&id| id as u32).collect()
    }
}

impl ParameterSource for Tensors {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(spec.slice(self.floats(&spec.name), rank, size))
    }
}
