//! What a sample of two segments has beside its tokens.

use std::sync::Arc;

/// The segments of a batch whose samples are `[CLS] A [SEP] B [SEP]`, padded at the end: which token
/// is of which segment, where the padding begins, and what is to be told of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct Segments {
    /// The segment of each token, `[num_samples, seq_length]` row by row: 0 for `[CLS] A [SEP]` and
    /// for padding, 1 for `B [SEP]`.
    pub token_types: Vec<u32>,
    /// Tokens of each sample before its padding.
    pub lengths: Arc<[usize]>,
    /// The class of each sample. Of sentence pairs, 1 where the two are swapped.
    pub labels: Vec<u32>,
    /// Weight of each label in the loss: 1 over the labels of the *global* batch.
    pub label_weights: Vec<f32>,
}
