//! GPT-2 and BERT, as models on one device would be written.
//!
//! The files here compose layers. What stays visible of the split is one choice for each
//! projection, column or row; everything else the layers know from how they were built.
//!
//! GPT-2 is pre-norm: each block normalizes its input and adds its output to the unnormalized stream.
//! Biases everywhere, exact GELU, learned positions, and an output layer tied to the embedding
//! (Radford et al. 2019, *Language models are unsupervised multitask learners*; Shoeybi et al.,
//! figure 2). [`bert`] has what BERT has beside such layers. Modules carry Megatron's names.

mod attention;
pub mod bert;
mod block;
mod config;
mod embedding;
mod gpt2;
mod key_value_cache;
mod layer_config;
mod layer_norm;
mod mlp;
mod table;

pub use attention::SelfAttention;
pub use bert::{Bert, BertConfig, BertMultipleChoice};
pub use block::TransformerBlock;
pub use config::Gpt2Config;
pub use embedding::{Embedding, PositionEmbedding};
pub use gpt2::Gpt2;
pub use key_value_cache::KeyValueCache;
pub use layer_config::{Arrangement, LayerConfig};
pub use layer_norm::LayerNorm;
pub use mlp::Mlp;

pub use crate::parameters::{Init, KeyedInit, ParameterSource, ParameterSpec, Split};
