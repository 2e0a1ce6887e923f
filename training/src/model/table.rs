//! The parameters of a GPT-2, one row each: names, shapes, how they are split and started.
//!
//! Weights keep Hugging Face's layout, `[d_input, d_output]` with the query, key and value columns
//! side by side, so that files need no transposition.

use super::Gpt2Config;
use crate::parameters::{Init, ParameterSpec, Split};

const REPLICATED: Split = Split::Replicated;
const COLUMNS: Split = Split::Dim { dim: 1, blocks: 1 };
const ROWS: Split = Split::Dim { dim: 0, blocks: 1 };
const QKV_COLUMNS: Split = Split::Dim { dim: 1, blocks: 3 };
const QKV_BIAS: Split = Split::Dim { dim: 0, blocks: 3 };

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
                "wte",
                [self.vocab_size, hidden],
                Split::Vocabulary,
                normal,
            ),
            weight(
                "embedding.position_embeddings",
                "wpe",
                [self.seq_length, hidden],
                REPLICATED,
                normal,
            ),
        ];
        for layer in 0..self.num_layers {
            table.extend(self.layer_parameters(layer));
        }
        table.extend(layer_norm("final_layernorm", "ln_f", hidden));
        table
    }

    fn layer_parameters(&self, layer: usize) -> Vec<ParameterSpec> {
        let (hidden, ffn) = (self.hidden_size, self.ffn_size());
        let path = |name: &str| format!("layers.{layer}.{name}");
        let file = |name: &str| format!("h.{layer}.{name}");
        let normal = Init::Normal { std: self.init_std };
        // What writes to the residual stream is scaled by the number of writes, two for each
        // layer (section 4.2 of the paper).
        let residual_std = self.init_std / (2.0 * self.num_layers as f64).sqrt();
        let residual = Init::Normal { std: residual_std };

        let projections = [
            (
                ["attention.query_key_value", "attn.c_attn"],
                [hidden, 3 * hidden],
                [QKV_COLUMNS, QKV_BIAS],
                normal,
            ),
            (["attention.dense", "attn.c_proj"], [hidden, hidden], [ROWS, REPLICATED], residual),
            (["mlp.dense_h_to_4h", "mlp.c_fc"], [hidden, ffn], [COLUMNS, ROWS], normal),
            (["mlp.dense_4h_to_h", "mlp.c_proj"], [ffn, hidden], [ROWS, REPLICATED], residual),
        ];
        let [query_key_value, dense, h_to_4h, four_h_to_h] =
            projections.map(|([module, name], shape, [split, bias_split], init)| {
                [
                    weight(&path(module), &file(name), shape, split, init),
                    vector(&path(module), &file(name), "bias", shape[1], bias_split, Init::Zeros),
                ]
            });
        [
            layer_norm(&path("input_layernorm"), &file("ln_1"), hidden),
            query_key_value,
            dense,
            layer_norm(&path("post_attention_layernorm"), &file("ln_2"), hidden),
            h_to_4h,
            four_h_to_h,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A matrix: weight decay applies.
fn weight(module: &str, file: &str, shape: [usize; 2], split: Split, init: Init) -> ParameterSpec {
    ParameterSpec {
        path: format!("{module}.weight"),
        name: format!("transformer.{file}.weight"),
        shape: shape.to_vec(),
        split,
        init,
        weight_decay: true,
    }
}

/// A bias or a gain: no weight decay.
fn vector(
    module: &str,
    file: &str,
    name: &str,
    len: usize,
    split: Split,
    init: Init,
) -> ParameterSpec {
    ParameterSpec {
        path: format!("{module}.{name}"),
        name: format!("transformer.{file}.{name}"),
        shape: vec![len],
        split,
        init,
        weight_decay: false,
    }
}

fn layer_norm(module: &str, file: &str, width: usize) -> [ParameterSpec; 2] {
    [
        vector(module, file, "weight", width, REPLICATED, Init::Ones),
        vector(module, file, "bias", width, REPLICATED, Init::Zeros),
    ]
}
