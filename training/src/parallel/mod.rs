//! Tensor parallelism, the paper's section 3 as layers, and the grid of ranks that it runs on.
//!
//! A transformer layer is two blocks, attention and MLP, and each is two matrix products with
//! something nonlinear between. The first weight is split by column, so that each rank computes
//! some of the hidden units completely and applies the nonlinearity on its own; the second by row,
//! so that each rank multiplies the units it has; one all-reduce adds the partial results.
//! Attention splits the same way by whole heads. Embedding and loss split by vocabulary.
//!
//! | file               | what                                                                |
//! |--------------------|---------------------------------------------------------------------|
//! | [`mappings`]       | the operators *f* and *g*: the only communication that has a gradient |
//! | [`linear`]         | [`ColumnParallelLinear`], [`RowParallelLinear`]                      |
//! | [`embedding`]      | [`VocabParallelEmbedding`]                                           |
//! | [`cross_entropy`]  | [`LmHead`], [`vocab_parallel_cross_entropy`]                         |
//! | [`random`]         | draws by key, the same in every layout                              |
//! | [`dims`]           | [`ParallelDims`]: the grid, ranks of a model by copies of it         |
//! | [`group`]          | [`TensorParallelGroup`]: who shares a layer; [`DataParallelGroup`]   |
//! | [`rank`]           | [`Rank`]: both groups of one rank                                   |
//! | [`collective`]     | what a group does together, without gradients                       |
//! | [`launch()`]       | one thread per rank; the first failure ends all                     |
//!
//! # Invariants
//!
//! - A group of one makes every operation the identity; there is one code path for every size.
//! - Ranks hold bit-identical replicated values: sums over ranks are added in rank order.
//! - A group is a value that layers get at construction; nothing here is global.
//! - Ranks of one process share no parameter and no graph.

pub mod collective;
pub mod cross_entropy;
pub mod dims;
pub mod embedding;
pub mod group;
mod launch;
pub mod linear;
pub mod mappings;
pub mod random;
pub mod rank;

pub use cross_entropy::{LmHead, Targets, TokenScore, vocab_parallel_cross_entropy};
pub use dims::{ParallelDims, RankPlace};
pub use embedding::{VocabParallelEmbedding, VocabParallelEmbeddingConfig, VocabularyRange};
pub use group::{DataParallelGroup, TensorParallelGroup};
pub(crate) use launch::hang_message;
pub use launch::{DEFAULT_TIMEOUT, Watch, launch, launch_watched, launch_with_timeout};
pub use linear::{
    ColumnParallelLinear, ColumnParallelLinearConfig, RowParallelLinear, RowParallelLinearConfig,
};
pub use mappings::{Region, copy_to_region, reduce_from_region};
pub use rank::Rank;
