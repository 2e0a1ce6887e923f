//! The parameters of the models, one row each: names, shapes, how they are split and started.
//!
//! Weights keep the layout of Hugging Face's GPT-2, `[d_input, d_output]` with the query, key and
//! value columns side by side, so that its files need no transposition.

use super::{Gpt2Config, LayerConfig};
use crate::parameters::{Init, ParameterSpec, Split};

pub(super) const REPLICATED: Split = Split::Replicated;
const COLUMNS: Split = Split::Dim { dim: 1, blocks: 1 };
const ROWS: Split = Split::Dim { dim: 0, blocks: 1 };
const QKV_COLUMNS: Split = Split::Dim { dim: 1, blocks: 3 };
const QKV_BIAS: Split = Split::Dim { dim: 0, blocks: 3 };

/// What the parts of a layer are called in files.
pub(super) struct LayerNames {
    /// What stands before the number of the layer.
    pub(super) prefix: &'static str,
    pub(super) input_layernorm: &'static str,
    pub(super) query_key_value: &'static str,
    pub(super) dense: &'static str,
    pub(super) post_attention_layernorm: &'static str,
    pub(super) dense_h_to_4h: &'static str,
    pub(super) dense_4h_to_h: &'static str,
}

const GPT2_NAMES: LayerNames = LayerNames {
    prefix: "transformer.h",
    input_layernorm: "ln_1",
    query_key_value: "attn.c_attn",
    dense: "attn.c_proj",
    post_attention_layernorm: "ln_2",
    dense_h_to_4h: "mlp.c_fc",
    dense_4h_to_h: "mlp.c_proj",
};

impl Gpt2Config {
    /// Every parameter of the model, in the order of the forward pass.
    ///
    /// The output layer is the word embedding and has no row of its own.
    #[must_use]
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let hidden = self.hidden_size;
        let normal = Init::Normal { std: self.init_std };
        let mut table = vec![
            weight(
                "embedding.word_embeddings",
                "transformer.wte",
                [self.vocab_size, hidden],
                Split::Vocabulary,
                normal,
            ),
            weight(
                "embedding.position_embeddings",
                "transformer.wpe",
                [self.seq_length, hidden],
                REPLICATED,
                normal,
            ),
        ];
        table.extend(self.layers().parameters(&GPT2_NAMES));
        table.extend(layer_norm("final_layernorm", "transformer.ln_f", hidden));
        table
    }
}

impl LayerConfig {
    /// The parameters of all layers, which files call `names`.
    pub(super) fn parameters(&self, names: &LayerNames) -> Vec<ParameterSpec> {
        (0..self.num_layers).flat_map(|layer| self.layer_parameters(layer, names)).collect()
    }

    fn layer_parameters(&self, layer: usize, names: &LayerNames) -> Vec<ParameterSpec> {
        let (hidden, ffn) = (self.hidden_size, self.ffn_hidden_size);
        let path = |name: &str| format!("layers.{layer}.{name}");
        let file = |name: &str| format!("{}.{layer}.{name}", names.prefix);
        let normal = Init::Normal { std: self.init_std };
        // What writes to the residual stream is scaled by the number of writes, two for each
        // layer (section 4.2 of the paper).
        let residual_std = self.init_std / (2.0 * self.num_layers as f64).sqrt();
        let residual = Init::Normal { std: residual_std };

        let projections = [
            (
                ["attention.query_key_value", names.query_key_value],
                [hidden, 3 * hidden],
                [QKV_COLUMNS, QKV_BIAS],
                normal,
            ),
            (["attention.dense", names.dense], [hidden, hidden], [ROWS, REPLICATED], residual),
            (["mlp.dense_h_to_4h", names.dense_h_to_4h], [hidden, ffn], [COLUMNS, ROWS], normal),
            (
                ["mlp.dense_4h_to_h", names.dense_4h_to_h],
                [ffn, hidden],
                [ROWS, REPLICATED],
                residual,
            ),
        ];
        let [query_key_value, dense, h_to_4h, four_h_to_h] =
            projections.map(|([module, name], shape, [split, bias_split], init)| {
                [
                    weight(&path(module), &file(name), shape, split, init),
                    vector(&path(module), &file(name), "bias", shape[1], bias_split, Init::Zeros),
                ]
            });
        let norm = |module: &str, name: &str| layer_norm(&path(module), &file(name), hidden);
        [
            norm("input_layernorm", names.input_layernorm),
            query_key_value,
            dense,
            norm("post_attention_layernorm", names.post_attention_layernorm),
            h_to_4h,
            four_h_to_h,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A matrix: weight decay applies.
pub(super) fn weight(
    module: &str,
    file: &str,
    shape: [usize; 2],
    split: Split,
    init: Init,
) -> ParameterSpec {
    ParameterSpec {
        path: format!("{module}.weight"),
        name: format!("{file}.weight"),
        shape: shape.to_vec(),
        split,
        init,
        weight_decay: true,
    }
}

/// A bias or a gain: no weight decay.
pub(super) fn vector(
    module: &str,
    file: &str,
    name: &str,
    len: usize,
    split: Split,
    init: Init,
) -> ParameterSpec {
    ParameterSpec {
        path: format!("{module}.{name}"),
        name: format!("{file}.{name}"),
        shape: vec![len],
        split,
        init,
        weight_decay: false,
    }
}

pub(super) fn layer_norm(module: &str, file: &str, width: usize) -> [ParameterSpec; 2] {
    [
        vector(module, file, "weight", width, REPLICATED, Init::Ones),
        vector(module, file, "bias", width, REPLICATED, Init::Zeros),
    ]
}
