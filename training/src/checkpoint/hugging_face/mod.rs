//! Models of Hugging Face's GPT-2 form, both ways.
//!
//! Checkpoints hold the tensors under Hugging Face's names anyway, so that most of the work is to
//! say in each direction what the other side needs: `config.json`, the tokenizer's files, and the
//! true vocabulary with its one table for embedding and head.

mod config;
mod export;
mod import;
mod model;

pub(super) use config::{gpt2_config, read_gpt2_config};
pub use export::{ExportReport, export};
pub use import::import;
pub use model::HuggingFaceModel;
