//! The parameters of a BERT: those of pre-training, and those of its use for multiple choice.
//!
//! Files call them by the names of `transformers`' `MegatronBertForPreTraining`, in both
//! arrangements of figure 7: a norm's name says which block it stands before, so that one file
//! serves both. In the original BERT's names every norm moves up by one place: the first layer's is
//! that of the embeddings, and each other one that of the block before it. Weights are laid out as
//! in GPT-2's files, `[d_input, d_output]`, and queries, keys and values are one matrix.

use super::BertConfig;
use super::config::TOKEN_TYPES;
use crate::model::table::{LayerNames, REPLICATED, layer_norm, vector, weight};
use crate::parameters::{Init, ParameterSpec, Split};

const LAYER_NAMES: LayerNames = LayerNames {
    prefix: "bert.encoder.layer",
    input_layernorm: "attention.ln",
    query_key_value: "attention.self.query_key_value",
    dense: "attention.output.dense",
    post_attention_layernorm: "ln",
    dense_h_to_4h: "intermediate.dense",
    dense_4h_to_h: "output.dense",
};

impl BertConfig {
    /// Every parameter of the model as it is pre-trained, in the order of the forward pass.
    ///
    /// The output layer's weight is the word embedding and has no row of its own; its bias has.
    #[must_use]
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let hidden = self.hidden_size;
        let mut table = self.encoder_parameters();
        table.extend(self.dense("lm_head.dense", "cls.predictions.transform.dense", hidden));
        let norm = "cls.predictions.transform.LayerNorm";
        table.extend(layer_norm("lm_head.layernorm", norm, hidden));
        table.push(vector(
            "lm_head",
            "cls.predictions",
            "bias",
            self.vocab_size,
            Split::Vocabulary,
            Init::Zeros,
        ));
        table.extend(self.pooler_parameters());
        table.extend(self.dense("binary_head", "cls.seq_relationship", 2));
        table
    }

    /// Every parameter of the model with a head for multiple choice in place of those that it was
    /// pre-trained with.
    #[must_use]
    pub fn multiple_choice_parameters(&self) -> Vec<ParameterSpec> {
        let mut table = self.encoder_parameters();
        table.extend(self.pooler_parameters());
        table.extend(self.dense("classifier", "classifier", 1));
        table
    }

    /// Embeddings, layers and the norm behind them.
    fn encoder_parameters(&self) -> Vec<ParameterSpec> {
        let hidden = self.hidden_size;
        let normal = Init::Normal { std: self.init_std };
        let embedding = |name: &str, rows, split| {
            let (path, file) = (format!("embedding.{name}"), format!("bert.embeddings.{name}"));
            weight(&path, &file, [rows, hidden], split, normal)
        };
        let mut table = vec![
            embedding("word_embeddings", self.vocab_size, Split::Vocabulary),
            embedding("position_embeddings", self.seq_length, REPLICATED),
            embedding("token_type_embeddings", TOKEN_TYPES, REPLICATED),
        ];
        table.extend(self.layers().parameters(&LAYER_NAMES));
        table.extend(layer_norm("final_layernorm", "bert.encoder.ln", hidden));
        table
    }

    fn pooler_parameters(&self) -> [ParameterSpec; 2] {
        self.dense("pooler.dense", "bert.pooler.dense", self.hidden_size)
    }

    /// A layer from the width of the model to `d_output` that is not split.
    fn dense(&self, path: &str, file: &str, d_output: usize) -> [ParameterSpec; 2] {
        let normal = Init::Normal { std: self.init_std };
        [
            weight(path, file, [self.hidden_size, d_output], REPLICATED, normal),
            vector(path, file, "bias", d_output, REPLICATED, Init::Zeros),
        ]
    }
}
