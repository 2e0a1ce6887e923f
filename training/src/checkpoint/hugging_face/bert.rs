//! The tensors of a BERT as Hugging Face's folders have them.
//!
//! `BertForPreTraining` is the original BERT, arrangement (a) of the paper's figure 7;
//! `MegatronBertForPreTraining` is arrangement (b), and so are the classes for multiple choice. Both hold linear weights as `[d_output, d_input]`
//! and queries, keys and values apart. Their norms are the same ones under other names: in (b) a norm
//! is named for the block that it stands before, in (a) for the block that it stands behind, so that
//! the first layer's first norm is that of the embeddings there, and the last norm the last layer's.

use super::super::linear_weight::{is_linear_weight, transposed};
use crate::model::{Arrangement, BertConfig};
use crate::parameters::{Init, ParameterSpec, Split};

/// The output layer's weight, where a file repeats the embedding.
pub(super) const DECODER: &str = "cls.predictions.decoder.weight";
/// The output layer's bias, where a file has it under this name, or under both.
pub(super) const DECODER_BIAS: &str = "cls.predictions.decoder.bias";
/// The output layer's bias.
pub(super) const BIAS: &str = "cls.predictions.bias";
/// The embedding, which is the output layer's weight as well.
pub(super) const EMBEDDING: &str = "bert.embeddings.word_embeddings.weight";

/// The tensors that hold the parameter `spec` in a folder of the model's class: one, or three for
/// queries, keys and values.
pub(super) fn tensors_of(spec: &ParameterSpec, model: &BertConfig) -> Vec<ParameterSpec> {
    let mut shape = spec.shape.clone();
    if is_linear_weight(spec) {
        shape.reverse();
    }
    const FUSED: &str = "query_key_value";
    if !spec.name.contains(FUSED) {
        return vec![tensor(file_name(&spec.name, model), shape)];
    }
    shape[0] /= 3;
    ["query", "key", "value"]
        .map(|part| tensor(spec.name.replace(FUSED, part), shape.clone()))
        .into()
}

/// The parameter `spec` from the numbers of its tensors.
pub(super) fn joined(spec: &ParameterSpec, parts: &[Vec<f32>]) -> Vec<f32> {
    if !is_linear_weight(spec) {
        return parts.concat();
    }
    // One after the other they are [d_output, d_input], whether one or three.
    transposed(&parts.concat(), spec.shape[1], spec.shape[0])
}

/// The numbers of the tensors of the parameter `spec`, one after the other: the inverse of
/// [`joined`].
pub(super) fn separated(spec: &ParameterSpec, values: Vec<f32>) -> Vec<f32> {
    if is_linear_weight(spec) { transposed(&values, spec.shape[0], spec.shape[1]) } else { values }
}

/// A whole tensor of a file.
fn tensor(name: String, shape: Vec<usize>) -> ParameterSpec {
    let (split, init) = (Split::Replicated, Init::Zeros);
    ParameterSpec { path: name.clone(), name, shape, split, init, weight_decay: false }
}

/// What the class of the model's arrangement calls a tensor.
fn file_name(name: &str, model: &BertConfig) -> String {
    if model.arrangement == Arrangement::PreNorm {
        return name.to_owned();
    }
    let behind =
        |layer: usize, kind: &str| format!("bert.encoder.layer.{layer}.output.LayerNorm.{kind}");
    if let Some(kind) = name.strip_prefix("bert.encoder.ln.") {
        return behind(model.num_layers - 1, kind);
    }
    let of_layer = name.strip_prefix("bert.encoder.layer.").and_then(|it| it.split_once('.'));
    let Some((layer, part)) = of_layer else { return name.to_owned() };
    let Ok(layer) = layer.parse::<usize>() else { return name.to_owned() };
    if let Some(kind) = part.strip_prefix("attention.ln.") {
        return match layer.checked_sub(1) {
            None => format!("bert.embeddings.LayerNorm.{kind}"),
            Some(before) => behind(before, kind),
        };
    }
    match part.strip_prefix("ln.") {
        Some(kind) => format!("bert.encoder.layer.{layer}.attention.output.LayerNorm.{kind}"),
        None => name.to_owned(),
    }
}

/// The name that this program knows a tensor by; none for buffers, which hold no weights.
pub(super) fn own_name(name: &str) -> Option<String> {
    if name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids") {
        return None;
    }
    // The first releases of BERT.
    let name = name.replace("LayerNorm.gamma", "LayerNorm.weight");
    Some(name.replace("LayerNorm.beta", "LayerNorm.bias"))
}
