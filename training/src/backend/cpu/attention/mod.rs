//! Attention by heads, forward and backward, without the matrix of probabilities.
//!
//! For each sample and head, with `Q`, `K`, `V` of shape `[seq, head_size]`:
//! `P = softmax(scale · Q Kᵀ)` over the keys that a query sees, `O = (M ∘ P) V`, where `M` is the
//! dropout mask.
//!
//! Queries, keys and values stay where the projection left them, side by side for all heads in
//! `[batch, seq, 3 · heads · head_size]`: products read them as strided parts of it. Probabilities
//! exist for 64 queries of one head at a time, over the keys up to the last that one of them sees,
//! and are in cache while they are made, masked and multiplied. Kept for the backward pass are two
//! numbers for each row, a [`Normalizer`](super::softmax::Normalizer), from which it computes the
//! probabilities again (Dao et al., *FlashAttention*,
//! [arXiv 2205.14135](https://arxiv.org/abs/2205.14135), section 3.1, without its blocks of keys: a
//! row of scores is small enough for the cache).
//!
//! To compute them again costs the second pass over the scores' product and exponentials, 8% of both
//! passes where all probabilities are small enough for the third cache, and saves what grows with
//! the square of the sequence: for 6 layers of 6 heads at 4 × 256 tokens, on one core of a Zen 4,
//! 25 ms forward and 56 ms backward against 29 and 46, for 38 MB less; at 12 layers of 12 heads and
//! 1 × 1024 tokens what is not kept would be 604 MB, most of a step's memory.
//!
//! Nothing here depends on the number of threads: blocks and groups of them are cut by shape.

mod backward;
mod forward;

use std::ops::Range;

pub use self::backward::backward;
pub use self::forward::forward;
use super::dropout::multiply_by_mask;
use super::matrix::{Matrix, MatrixMut, Write, multiply_here};
use super::vector::{LANES, Vector};
use crate::backend::AttentionSettings;
use crate::parallel::random::DropoutMask;

/// Queries of a head that are computed together.
const QUERY_BLOCK: usize = 64;

/// A row is computed for a multiple of so many keys, as far as its block goes: keys beyond the last
/// visible one take less time in whole vectors than the last visible ones by themselves.
const KEY_BLOCK: usize = LANES;

/// Queries, keys and values, and how they are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    query_key_value: &'a [f32],
    batch: usize,
    seq: usize,
    head_size: usize,
    settings: &'a AttentionSettings,
}

/// Which of the three a number belongs to, in their order.
#[derive(Debug, Clone, Copy)]
enum Part {
    Query,
    Key,
    Value,
}

impl<'a> Attention<'a> {
    /// `query_key_value` is `[batch, seq, 3 · heads · head_size]`.
    ///
    /// # Panics
    ///
    /// When sizes disagree, there are no heads, or the scale is not positive.
    #[must_use]
    pub fn new(
        query_key_value: &'a [f32],
        [batch, seq, columns]: [usize; 3],
        settings: &'a AttentionSettings,
    ) -> Self {
        let heads = settings.heads;
        assert_eq!(query_key_value.len(), batch * seq * columns, "all rows and columns");
        assert!(columns.is_multiple_of(3 * heads), "{columns} columns for {heads} heads");
        assert!(settings.scale > 0.0, "a positive scale, not {}", settings.scale);
        settings.visible.check(batch, seq);
        Self { query_key_value, batch, seq, head_size: columns / (3 * heads), settings }
    }

    /// Numbers of all heads in a row of queries, and of the context.
    #[must_use]
    pub fn width(&self) -> usize {
        self.settings.heads * self.head_size
    }

    fn scale(&self) -> f32 {
        self.settings.scale as f32
    }

    /// `queries` of one head, with the keys that one of them sees.
    fn block(self, sample: usize, head: usize, queries: Range<usize>) -> Block<'a> {
        let keys = self.keys(sample, &queries);
        Block { attention: self, sample, head, queries, keys }
    }

    /// How many keys `queries` of a sample see between them: what the last of them sees.
    fn keys(&self, sample: usize, queries: &Range<usize>) -> usize {
        queries.clone().last().map_or(0, |last| self.settings.visible.of_query(sample, last))
    }
}

/// Some queries of one head, and the keys that one of them sees.
#[derive(Debug)]
struct Block<'a> {
    attention: Attention<'a>,
    sample: usize,
    head: usize,
    queries: Range<usize>,
    keys: usize,
}

impl<'a> Block<'a> {
    /// `[queries, head_size]`.
    fn query(&self) -> Matrix<'a> {
        self.matrix(Part::Query, self.queries.clone())
    }

    /// `[keys, head_size]`.
    fn key(&self) -> Matrix<'a> {
        self.matrix(Part::Key, 0..self.keys)
    }

    /// `[keys, head_size]`.
    fn value(&self) -> Matrix<'a> {
        self.matrix(Part::Value, 0..self.keys)
    }

    fn matrix(&self, part: Part, rows: Range<usize>) -> Matrix<'a> {
        let Attention { query_key_value, seq, head_size, .. } = self.attention;
        let width = self.attention.width();
        let first = (self.sample * seq + rows.start) * 3 * width
            + part as usize * width
            + self.head * head_size;
        Matrix::strided(&query_key_value[first..], rows.len(), head_size, 3 * width)
    }

    /// `scores` = `Q Kᵀ`, `[queries, keys]`.
    fn score(&self, scores: &mut [f32]) {
        let scores = MatrixMut::new(scores, self.keys);
        multiply_here(self.query(), self.key().transposed(), scores, Write::Replace);
    }

    /// How many keys a query sees, and for how many its row is computed.
    fn visible_and_computed(&self, query: usize) -> (usize, usize) {
        let visible = self.attention.settings.visible.of_query(self.sample, query);
        (visible, visible.next_multiple_of(KEY_BLOCK).min(self.keys))
    }

    /// Multiplies `row`, of the probabilities of `query` or what goes with them, by the mask.
    fn drop_out(&self, vector: Vector, mask: &DropoutMask, query: usize, row: &mut [f32]) {
        let first = query * self.attention.seq;
        multiply_by_mask(vector, mask, self.sample, self.head, first, row);
    }
}
