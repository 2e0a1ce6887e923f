//! `config.json` in the form of Hugging Face's `GPT2Config`: written, so that `transformers` loads
//! a checkpoint folder as it is, and read.

use std::path::Path;

use corpus::TokenizerIdentity;
use serde_json::{Value, json};

use crate::TrainError;
use crate::backend::Activation;
use crate::checkpoint::CheckpointError;
use crate::model::Gpt2Config;

/// The fields that `GPT2LMHeadModel.from_pretrained` needs; the tied head has no tensor of its own.
pub(in crate::checkpoint) fn gpt2_config(
    model: &Gpt2Config,
    tokenizer: &TokenizerIdentity,
) -> Value {
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocab_size,
        "n_positions": model.seq_length,
        "n_embd": model.hidden_size,
        "n_layer": model.num_layers,
        "n_head": model.num_attention_heads,
        "n_inner": model.ffn_hidden_size,
        "activation_function": match model.activation {
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_new",
        },
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

/// The model that a `config.json` at `path` describes.
///
/// What the file does not say is as `GPT2Config` has it, but for what its tensors cannot confirm.
/// Choices that change the arithmetic and
/// that this model does not have are refused by name.
pub(in crate::checkpoint) fn read_gpt2_config(
    path: &Path,
    value: &Value,
) -> Result<Gpt2Config, TrainError> {
    let fields = Fields { path, value };
    fields.demand("model_type", "gpt2", &[json!("gpt2")])?;
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
        activation: match &value["activation_function"] {
            Value::Null => Activation::GeluTanh,
            name if name == "gelu" => Activation::Gelu,
            name if name == "gelu_new" || name == "gelu_pytorch_tanh" => Activation::GeluTanh,
            _ => return Err(fields.refusal("activation_function", "gelu or gelu_new is needed")),
        },
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

    fn refusal(&self, field: &str, expected: &str) -> TrainError {
        TrainError::from(CheckpointError::ForeignConfig {
            path: self.path.to_owned(),
            field: field.to_owned(),
            value: self.value[field].to_string(),
            expected: expected.to_owned(),
        })
    }
}
