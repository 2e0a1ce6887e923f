//! Folders of Hugging Face's that are not quite a BERT.

use std::fs;

use serde_json::json;
use training::TrainError;
use training::checkpoint::HuggingFaceModel;
use training::model::{Arrangement, ParameterSource};

use super::folder::{Tensors, config, initial_weights, write_folder};
use super::tiny;

fn weights() -> Tensors {
    Tensors::read("model_megatron_names_hf.safetensors")
}

fn open(tensors: &Tensors) -> Result<HuggingFaceModel, TrainError> {
    HuggingFaceModel::open(write_folder(tensors, Arrangement::PreNorm).path())
}

#[track_caller]
fn assert_refused(tensors: &Tensors, parts: &[&str]) {
    let error = open(tensors).unwrap_err().to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn every_missing_and_every_superfluous_tensor_is_named() {
    let mut tensors = weights();
    tensors.0.retain(|name, _| !name.starts_with("bert.pooler."));
    assert_refused(&tensors, &["bert.pooler.dense.weight", "bert.pooler.dense.bias"]);
    let mut tensors = weights();
    for name in ["bert.pooler.extra", "cls.other"] {
        tensors.0.insert(name.to_owned(), (vec![1], vec![0.0]));
    }
    assert_refused(&tensors, &["bert.pooler.extra", "cls.other"]);
    // The names of the other arrangement's class.
    let folder = write_folder(&weights(), Arrangement::PostNorm);
    let error = HuggingFaceModel::open(folder.path()).unwrap_err().to_string();
    for name in ["bert.embeddings.LayerNorm.weight", "bert.encoder.layer.1.output.LayerNorm.bias"] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn repeated_output_layer_has_to_be_the_embedding_and_its_bias_has_two_names() {
    let spec_of = |path: &str| {
        let specs = tiny(Arrangement::PreNorm).parameters();
        specs.into_iter().find(|spec| spec.path == path).unwrap()
    };
    let bias = spec_of("lm_head.bias");
    let expected = initial_weights().local(&bias, 0, 1).unwrap();
    assert!(expected.iter().any(|&number| number != 0.0));

    let mut tensors = weights();
    let embedding = tensors.0["bert.embeddings.word_embeddings.weight"].clone();
    let own_bias = tensors.0["cls.predictions.bias"].clone();
    tensors.0.insert("cls.predictions.decoder.weight".to_owned(), embedding);
    tensors.0.insert("cls.predictions.decoder.bias".to_owned(), own_bias.clone());
    tensors.0.insert("bert.embeddings.position_ids".to_owned(), (vec![1, 64], vec![0.0; 64]));
    assert_eq!(open(&tensors).unwrap().local(&bias, 0, 1).unwrap(), expected);
    tensors.0.remove("cls.predictions.bias");
    assert_eq!(open(&tensors).unwrap().local(&bias, 0, 1).unwrap(), expected);

    for name in ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"] {
        let mut untied = tensors.clone();
        untied.0.insert("cls.predictions.bias".to_owned(), own_bias.clone());
        untied.0.get_mut(name).unwrap().1[5] += 1.0;
        assert!(open(&untied).is_err(), "{name} is another one");
    }
}

#[test]
fn gains_and_biases_of_norms_may_have_their_first_names() {
    let mut tensors = weights();
    let names: Vec<String> =
        tensors.0.keys().filter(|it| it.contains("LayerNorm")).cloned().collect();
    assert!(!names.is_empty());
    for name in names {
        let tensor = tensors.0.remove(&name).unwrap();
        let old = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        tensors.0.insert(old.replace("LayerNorm.bias", "LayerNorm.beta"), tensor);
    }
    assert!(open(&tensors).is_ok());
}

#[test]
fn choices_that_change_the_arithmetic_are_refused_by_name() {
    for (field, value) in [
        ("position_embedding_type", json!("relative_key")),
        ("hidden_act", json!("relu")),
        ("type_vocab_size", json!(4)),
        ("is_decoder", json!(true)),
        ("tie_word_embeddings", json!(false)),
        ("model_type", json!("roberta")),
    ] {
        let folder = write_folder(&weights(), Arrangement::PreNorm);
        let mut config = config(Arrangement::PreNorm);
        config[field] = value;
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let error = HuggingFaceModel::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}
