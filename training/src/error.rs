//! What can go wrong in this crate, in the user's words.

use crate::parallel::collective::CollectiveError;

/// An error of the `training` crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A field of the model's configuration has a value that no model can have.
    #[error("{field} = {value}: {expected}")]
    InvalidField {
        /// The field as it is written in the configuration.
        field: &'static str,
        /// The value that was given.
        value: String,
        /// What would be right.
        expected: String,
    },

    /// The attention heads do not divide over the tensor-parallel ranks.
    #[error(
        "{heads} attention heads cannot be split over --tp {tensor_parallel_size}; allowed: {}",
        list(allowed)
    )]
    HeadsIndivisible {
        /// `num_attention_heads`.
        heads: usize,
        /// The size that was asked for.
        tensor_parallel_size: usize,
        /// Every size that this model can be split over.
        allowed: Vec<usize>,
    },

    /// The feed-forward width does not divide over the tensor-parallel ranks.
    #[error(
        "ffn_hidden_size = {ffn_hidden_size} cannot be split over --tp {tensor_parallel_size}; \
         allowed: {}",
        list(allowed)
    )]
    FfnIndivisible {
        /// `ffn_hidden_size`.
        ffn_hidden_size: usize,
        /// The size that was asked for.
        tensor_parallel_size: usize,
        /// Every size that this model can be split over.
        allowed: Vec<usize>,
    },

    /// A dimension of a layer does not divide over the ranks of its group.
    #[error("{what} = {size} does not split over {ranks} tensor-parallel ranks")]
    Indivisible {
        /// What is split.
        what: String,
        /// Its size.
        size: usize,
        /// The size of the group.
        ranks: usize,
    },

    /// A layer asks for a parameter that the model's table does not list.
    #[error("the model has no parameter {path}")]
    UnknownParameter {
        /// The parameter's path in the model.
        path: String,
    },

    /// A parameter's values do not fill the shape that the model gives it.
    #[error("parameter {name}: the model needs shape {expected:?}, found {found:?}")]
    ParameterShape {
        /// The parameter's name in files.
        name: String,
        /// The shape that the model needs.
        expected: Vec<usize>,
        /// What was found instead.
        found: Vec<usize>,
    },

    /// The ranks of a group could not finish a collective.
    #[error(transparent)]
    Collective(#[from] CollectiveError),

    /// One rank failed; the others were stopped.
    #[error("rank {rank}: {source}")]
    Rank {
        /// The first rank that failed.
        rank: usize,
        /// Why.
        source: Box<TrainError>,
    },

    /// One rank panicked; the others were stopped.
    #[error("rank {rank} panicked: {message}")]
    RankPanicked {
        /// The first rank that failed.
        rank: usize,
        /// The panic's message.
        message: String,
    },

    /// The operating system refused a thread for a rank.
    #[error("cannot start the thread of rank {rank}")]
    RankNotStarted {
        /// The rank without a thread.
        rank: usize,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

/// `1, 5, 25`.
fn list(values: &[usize]) -> String {
    values.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
