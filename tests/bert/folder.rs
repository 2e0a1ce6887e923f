//! Files of the reference, and folders in Hugging Face's form that are made of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use training::checkpoint::HuggingFaceModel;
use training::model::Arrangement;

use crate::micro_gpt2::path;

/// The tensors of a file as `f32`, with their shapes.
#[derive(Clone, Default)]
pub(crate) struct Tensors(pub(crate) BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Tensors {
    pub(crate) fn read(name: &str) -> Self {
        Self::at(&path("bert_tiny", name))
    }

    pub(crate) fn at(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let values = file.iter().map(|(name, tensor)| {
            let words = tensor.data().chunks_exact(4).map(|bytes| bytes.try_into().unwrap());
            let values = match tensor.dtype() {
                Dtype::I32 => words.map(|word| i32::from_le_bytes(word) as f32).collect(),
                _ => words.map(f32::from_le_bytes).collect(),
            };
            (name.to_owned(), (tensor.shape().to_vec(), values))
        });
        Self(values.collect())
    }

    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        &self.0[name].1
    }

    /// Those whose names begin with `prefix`, without it.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let own = self.0.iter().filter_map(|(name, tensor)| {
            Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone()))
        });
        Self(own.collect())
    }

    pub(crate) fn write(&self, path: &Path) {
        let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = self
            .0
            .iter()
            .map(|(name, (shape, values))| {
                let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                (name, shape, bytes)
            })
            .collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            (*name, TensorView::new(Dtype::F32, (*shape).clone(), bytes).unwrap())
        });
        fs::write(path, serialize(views, None).unwrap()).unwrap();
    }
}

/// A `config.json` of the reference's sizes.
pub(crate) fn config(arrangement: Arrangement) -> Value {
    json!({
        "model_type": match arrangement {
            Arrangement::PreNorm => "megatron-bert",
            Arrangement::PostNorm => "bert",
        },
        "vocab_size": 128,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-5,
    })
}

/// A folder of `tensors`, under the names of the class of `arrangement`.
pub(crate) fn write_folder(tensors: &Tensors, arrangement: Arrangement) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config(arrangement).to_string()).unwrap();
    tensors.write(&folder.path().join("model.safetensors"));
    folder
}

/// The parameters that `tensors` are, under the names of the class of `arrangement`. The files are
/// mapped and so may go.
pub(crate) fn opened(tensors: &Tensors, arrangement: Arrangement) -> HuggingFaceModel {
    let folder = write_folder(tensors, arrangement);
    HuggingFaceModel::open(folder.path()).unwrap()
}

/// The reference's initial weights, which serve both arrangements.
pub(crate) fn initial_weights() -> HuggingFaceModel {
    opened(&Tensors::read("model_megatron_names_hf.safetensors"), Arrangement::PreNorm)
}

/// What the reference's files of an arrangement begin with.
pub(crate) fn file_prefix(arrangement: Arrangement) -> &'static str {
    match arrangement {
        Arrangement::PreNorm => "b_preLN",
        Arrangement::PostNorm => "a_postLN",
    }
}
