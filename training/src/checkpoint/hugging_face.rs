//! `config.json` in the form of Hugging Face's `GPT2Config`, so that `transformers` loads a
//! checkpoint folder as it is.

use corpus::TokenizerIdentity;
use serde_json::{Value, json};

use crate::backend::Activation;
use crate::model::Gpt2Config;

/// The fields that `GPT2LMHeadModel.from_pretrained` needs; the tied head has no tensor of its own.
pub(super) fn gpt2_config(model: &Gpt2Config, tokenizer: &TokenizerIdentity) -> Value {
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
