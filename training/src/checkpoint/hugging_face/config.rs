//! `config.json` in the form of Hugging Face's `GPT2Config`, `BertConfig` and `MegatronBertConfig`,
//! written and read. A GPT-2's checkpoint folder `transformers` loads as it is. A BERT's it does not,
//! whose layers hold queries, keys and values apart: there the file has a `model_type` of its own,
//! which `transformers` refuses, and an export is needed.

use std::path::Path;

use corpus::TokenizerIdentity;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::TrainError;
use crate::architecture::Architecture;
use crate::backend::Activation;
use crate::checkpoint::CheckpointError;
use crate::model::{Arrangement, BertConfig, Gpt2Config};

/// `model_type` in a BERT's own checkpoints.
const OWN_BERT: &str = "megatron-lm-bert";
/// The same where it chooses among answers.
const OWN_BERT_CHOICE: &str = "megatron-lm-bert-choice";

/// What the classes of models that choose among answers end with.
const CHOICE: &str = "MultipleChoice";

/// The `config.json` of a checkpoint of this program.
pub(in crate::checkpoint) fn own_config(
    model: &Architecture,
    tokenizer: &TokenizerIdentity,
) -> Value {
    let mut config = exported_config(model, tokenizer);
    let own = match model {
        Architecture::Gpt2(_) => None,
        Architecture::Bert(bert) => Some((OWN_BERT, bert)),
        Architecture::BertChoice(bert) => Some((OWN_BERT_CHOICE, bert)),
    };
    if let Some((model_type, bert)) = own {
        config["model_type"] = model_type.into();
        config["architectures"] = json!([]);
        config["arrangement"] = json!(bert.arrangement);
        config["eos_token_id"] = tokenizer.eod.into();
    }
    config
}

/// The `config.json` of a folder that `transformers` loads.
pub(super) fn exported_config(model: &Architecture, tokenizer: &TokenizerIdentity) -> Value {
    match model {
        Architecture::Gpt2(model) => gpt2_config(model, tokenizer),
        Architecture::Bert(model) => bert_config(model, "PreTraining"),
        Architecture::BertChoice(model) => bert_config(model, CHOICE),
    }
}

/// The model that a `config.json` at `path` describes.
///
/// What the file does not say is as `transformers` has it. Choices that change the arithmetic and
/// that this model does not have are refused by name.
pub(in crate::checkpoint) fn read_config(
    path: &Path,
    value: &Value,
) -> Result<Architecture, TrainError> {
    let fields = Fields { path, value };
    match value["model_type"].as_str() {
        Some("bert") => read_bert_config(&fields, Arrangement::PostNorm).map(fields.kind_of_bert()),
        Some("megatron-bert") => {
            read_bert_config(&fields, Arrangement::PreNorm).map(fields.kind_of_bert())
        }
        Some(own @ (OWN_BERT | OWN_BERT_CHOICE)) => {
            let arrangement = Arrangement::deserialize(&value["arrangement"])
                .map_err(|_| fields.refusal("arrangement", "pre-norm or post-norm is needed"))?;
            let bert = read_bert_config(&fields, arrangement)?;
            Ok(match own {
                OWN_BERT => Architecture::Bert(bert),
                _ => Architecture::BertChoice(bert),
            })
        }
        Some("gpt2") => read_gpt2_config(&fields).map(Architecture::Gpt2),
        _ => Err(fields.refusal(
            "model_type",
            "gpt2, bert or megatron-bert is needed: no other model is read",
        )),
    }
}

/// The fields that the classes `BertFor…` and `MegatronBertFor…` of `task` need.
fn bert_config(model: &BertConfig, task: &str) -> Value {
    let (model_type, class) = match model.arrangement {
        Arrangement::PostNorm => ("bert", "Bert"),
        Arrangement::PreNorm => ("megatron-bert", "MegatronBert"),
    };
    json!({
        "model_type": model_type,
        "architectures": [format!("{class}For{task}")],
        "vocab_size": model.vocab_size,
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_attention_heads,
        "intermediate_size": model.ffn_size(),
        "hidden_act": activation_name(model.activation),
        "hidden_dropout_prob": model.hidden_dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "max_position_embeddings": model.seq_length,
        "type_vocab_size": 2,
        "initializer_range": model.init_std,
        "layer_norm_eps": model.layer_norm_epsilon,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": true,
        "torch_dtype": "float32",
    })
}

fn read_bert_config(
    fields: &Fields<'_>,
    arrangement: Arrangement,
) -> Result<BertConfig, TrainError> {
    let (yes, no) = (json!(true), json!(false));
    fields.demand("tie_word_embeddings", "true", &[yes, Value::Null])?;
    fields.demand("is_decoder", "false", &[no.clone(), Value::Null])?;
    fields.demand("add_cross_attention", "false", &[no, Value::Null])?;
    fields.demand("type_vocab_size", "2", &[json!(2), Value::Null])?;
    let absolute = [json!("absolute"), Value::Null];
    fields.demand("position_embedding_type", "absolute", &absolute)?;
    // The sizes of BERT large, which `MegatronBertConfig` begins with, and of BERT base.
    let [layers, hidden, heads, ffn, vocabulary] = match arrangement {
        Arrangement::PreNorm => [24, 1024, 16, 4096, 29_056],
        Arrangement::PostNorm => [12, 768, 12, 3072, 30_522],
    };
    let hidden_size = fields.size("hidden_size")?.unwrap_or(hidden);
    let ffn_hidden_size = fields.size("intermediate_size")?.unwrap_or(ffn);
    let config = BertConfig {
        num_layers: fields.size("num_hidden_layers")?.unwrap_or(layers),
        hidden_size,
        num_attention_heads: fields.size("num_attention_heads")?.unwrap_or(heads),
        seq_length: fields.size("max_position_embeddings")?.unwrap_or(512),
        vocab_size: fields.size("vocab_size")?.unwrap_or(vocabulary),
        ffn_hidden_size: (ffn_hidden_size != 4 * hidden_size).then_some(ffn_hidden_size),
        hidden_dropout: fields.number("hidden_dropout_prob")?.unwrap_or(0.1),
        attention_dropout: fields.number("attention_probs_dropout_prob")?.unwrap_or(0.1),
        activation: fields.activation("hidden_act", Activation::Gelu)?,
        layer_norm_epsilon: fields.number("layer_norm_eps")?.unwrap_or(1e-12),
        init_std: fields.number("initializer_range")?.unwrap_or(0.02),
        arrangement,
    };
    config.validate()?;
    Ok(config)
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_new",
    }
}

/// The fields that `GPT2LMHeadModel.from_pretrained` needs; the tied head has no tensor of its own.
fn gpt2_config(model: &Gpt2Config, tokenizer: &TokenizerIdentity) -> Value {
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocab_size,
        "n_positions": model.seq_length,
        "n_embd": model.hidden_size,
        "n_layer": model.num_layers,
        "n_head": model.num_attention_heads,
        "n_inner": model.ffn_hidden_size,
        "activation_function": activation_name(model.activation),
        "resid_pdrop": model.hidden_dropout,
        "embd_pdrop": model.hidden_dropout,
        "attn_pdrop": model.attention_dropout,
        "layer_norm_epsilon": model.layer_norm_epsilon,
        "initializer_range": model.init_std,
        "scale_attn_weights": true,
        "tie_word_embeddings": true,
        "use_cache": true,
        "bos_token_id": tokenizer.eod,
        "eos_token_id": tokenizer.eod,
        "torch_dtype": "float32",
    })
}

fn read_gpt2_config(fields: &Fields<'_>) -> Result<Gpt2Config, TrainError> {
    let (yes, no) = (json!(true), json!(false));
    fields.demand("scale_attn_weights", "true", &[yes.clone(), Value::Null])?;
    fields.demand("scale_attn_by_inverse_layer_idx", "false", &[no.clone(), Value::Null])?;
    fields.demand("add_cross_attention", "false", &[no, Value::Null])?;
    fields.demand("tie_word_embeddings", "true", &[yes, Value::Null])?;
    let config = Gpt2Config {
        num_layers: fields.size("n_layer")?.unwrap_or(12),
        hidden_size: fields.size("n_embd")?.unwrap_or(768),
        // No tensor's shape tells it: with another number the losses would be wrong, and no error.
        num_attention_heads: fields.size("n_head")?.ok_or_else(|| {
            fields.refusal("n_head", "the number of attention heads is needed: no tensor tells it")
        })?,
        seq_length: fields.size("n_positions")?.unwrap_or(1024),
        vocab_size: fields.size("vocab_size")?.unwrap_or(50_257),
        ffn_hidden_size: fields.size("n_inner")?,
        hidden_dropout: fields.number("resid_pdrop")?.unwrap_or(0.1),
        attention_dropout: fields.number("attn_pdrop")?.unwrap_or(0.1),
        activation: fields.activation("activation_function", Activation::GeluTanh)?,
        layer_norm_epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5),
        init_std: fields.number("initializer_range")?.unwrap_or(0.02),
    };
    config.validate()?;
    Ok(config)
}

/// The fields of a `config.json`.
struct Fields<'a> {
    path: &'a Path,
    value: &'a Value,
}

impl Fields<'_> {
    /// Which BERT it is, by its class.
    fn kind_of_bert(&self) -> fn(BertConfig) -> Architecture {
        let class = self.value["architectures"][0].as_str().unwrap_or_default();
        match class.ends_with(CHOICE) {
            true => Architecture::BertChoice,
            false => Architecture::Bert,
        }
    }

    /// Refuses a field that is none of `allowed`.
    fn demand(&self, field: &str, expected: &str, allowed: &[Value]) -> Result<(), TrainError> {
        if allowed.contains(&self.value[field]) {
            return Ok(());
        }
        Err(self.refusal(field, &format!("{expected} is needed: no other model is read")))
    }

    /// A whole number above 0; none where the file has none.
    fn size(&self, field: &str) -> Result<Option<usize>, TrainError> {
        match &self.value[field] {
            Value::Null => Ok(None),
            value => match value.as_u64().and_then(|size| usize::try_from(size).ok()) {
                Some(size) if size > 0 => Ok(Some(size)),
                _ => Err(self.refusal(field, "a whole number of at least 1 is needed")),
            },
        }
    }

    fn number(&self, field: &str) -> Result<Option<f64>, TrainError> {
        match &self.value[field] {
            Value::Null => Ok(None),
            value => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.refusal(field, "a number is needed")),
            },
        }
    }

    /// A form of GELU; `default` where the file has none.
    fn activation(&self, field: &str, default: Activation) -> Result<Activation, TrainError> {
        match &self.value[field] {
            Value::Null => Ok(default),
            name if name == "gelu" => Ok(Activation::Gelu),
            name if name == "gelu_new" || name == "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
            _ => Err(self.refusal(field, "gelu or gelu_new is needed")),
        }
    }

    fn refusal(&self, field: &str, expected: &str) -> TrainError {
        TrainError::from(CheckpointError::ForeignConfig {
            path: self.path.to_owned(),
            field: field.to_owned(),
            value: self.value[field].to_string(),
            expected: expected.to_owned(),
        })
    }
}
