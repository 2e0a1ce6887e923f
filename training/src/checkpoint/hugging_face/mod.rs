//! Models of Hugging Face's GPT-2 and BERT forms, both ways.
//!
//! Checkpoints hold a GPT-2's tensors under Hugging Face's names anyway, so that most of the work is to
//! say in each direction what the other side needs: `config.json`, the tokenizer's files, and the
//! true vocabulary with its one table for embedding and head.

mod bert;
mod config;
mod export;
mod import;
mod model;

pub(super) use config::{own_config, read_config};
pub use export::{ExportReport, export};
pub use import::import;
pub use model::HuggingFaceModel;
