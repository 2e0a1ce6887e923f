//! With `dO` the gradient of the context, for each sample and head:
//!
//! ```text
//! dV = (M ∘ P)ᵀ dO
//! dP = M ∘ (dO Vᵀ)
//! dS = scale · P ∘ (dP - rowsum(P ∘ dP))
//! dQ = dS K
//! dK = dSᵀ Q
//! ```
//!
//! `rowsum(P ∘ dP)` equals `rowsum(dO ∘ O)`, which would save a trip over a row in cache but need
//! the context; in a run of 16 bits that is rounded, and the gradients of a row's scores would no
//! longer add up to 0.
//!
//! `dK` and `dV` add up over the blocks of queries. A task owns a group of a head's queries and has
//! room of its own for what they add, rows of one head without gaps. A second step adds up the
//! groups in their order and puts the heads side by side; its tasks own whole rows of the result.

use std::ops::Range;

use rayon::prelude::*;

use super::{Attention, Block, QUERY_BLOCK};
use crate::backend::cpu::buffers::{self, Buffer};
use crate::backend::cpu::matrix::{Matrix, MatrixMut, Write, multiply_here};
use crate::backend::cpu::softmax::{self, Normalizer};
use crate::backend::cpu::vector::{Vector, add_slice, multiply_slice};

/// Heads of all samples are cut into groups of queries where they are fewer than this.
const TASKS: usize = 16;

/// Writes the gradient of queries, keys and values, laid out as they are, from what
/// [`forward`](super::forward()) found and the gradient of the context.
///
/// # Panics
///
/// When sizes disagree.
pub fn backward(
    vector: Vector,
    attention: Attention<'_>,
    normalizers: &[Normalizer],
    context_gradient: &[f32],
    gradient: &mut [f32],
) {
    let Attention { batch, seq, head_size, settings, .. } = attention;
    let (width, heads) = (attention.width(), settings.heads);
    assert_eq!(normalizers.len(), batch * seq * heads, "a normalizer for each query and head");
    assert_eq!(context_gradient.len(), batch * seq * width, "a gradient for each query");
    assert_eq!(gradient.len(), attention.query_key_value.len(), "a gradient for each input");
    if gradient.is_empty() {
        return;
    }

    let groups = Groups::of(attention);
    let mut sums = buffers::take(batch * heads * groups.head_len());
    sums.par_chunks_mut(groups.group_len()).enumerate().for_each(|(task, sums)| {
        let (matrix, group) = (task / groups.count, task % groups.count);
        let rows = Rows { normalizers, context_gradient };
        groups.add_up(vector, matrix / heads, matrix % heads, group, rows, sums);
    });

    let rows = gradient.par_chunks_mut(3 * width).with_min_len(QUERY_BLOCK);
    rows.enumerate().for_each(|(row, gradient)| {
        let (sample, position) = (row / seq, row % seq);
        for (place, gradient) in gradient.chunks_exact_mut(head_size).enumerate() {
            let (part, head) = (place / heads, place % heads);
            let sums = &sums[(sample * heads + head) * groups.head_len()..][..groups.head_len()];
            groups.gather(vector, sample, part, position, sums, gradient);
        }
    });
}

/// What is known of each row beside queries, keys and values.
#[derive(Debug, Clone, Copy)]
struct Rows<'a> {
    /// `[batch, seq, heads]`.
    normalizers: &'a [Normalizer],
    /// `[batch, seq, heads · head_size]`.
    context_gradient: &'a [f32],
}

/// How the queries of each head are cut into groups, one for each task.
///
/// A group's sums are rows of `head_size` numbers: one for each of its queries, for each key and
/// for each value. Those for keys and values that none of its queries sees are left as they were.
#[derive(Debug, Clone, Copy)]
struct Groups<'a> {
    attention: Attention<'a>,
    /// Groups of a head.
    count: usize,
    /// Queries of a group; the last may have fewer.
    queries: usize,
}

impl<'a> Groups<'a> {
    /// One for each head if there are heads enough, else several of whole blocks.
    fn of(attention: Attention<'a>) -> Self {
        let Attention { batch, seq, settings, .. } = attention;
        let wanted = TASKS.div_ceil(batch * settings.heads);
        let queries = seq.div_ceil(wanted).next_multiple_of(QUERY_BLOCK).min(seq);
        Self { attention, count: seq.div_ceil(queries), queries }
    }

    /// Numbers of a group's sums.
    fn group_len(&self) -> usize {
        (self.queries + 2 * self.attention.seq) * self.attention.head_size
    }

    /// Numbers of the sums of all groups of a head.
    fn head_len(&self) -> usize {
        self.count * self.group_len()
    }

    fn queries_of(&self, group: usize) -> Range<usize> {
        group * self.queries..self.attention.seq.min((group + 1) * self.queries)
    }

    /// Fills the sums of one group of a head.
    fn add_up(
        &self,
        vector: Vector,
        sample: usize,
        head: usize,
        group: usize,
        rows: Rows<'_>,
        sums: &mut [f32],
    ) {
        let Attention { seq, head_size, .. } = self.attention;
        let (query_sums, sums) = sums.split_at_mut(self.queries * head_size);
        let (key, value) = sums.split_at_mut(seq * head_size);

        let queries = self.queries_of(group);
        let mut scratch = Scratch::new(self.attention.keys(sample, &queries));
        // From the block that sees the most keys, which replaces what the memory held.
        let mut write = Write::Replace;
        for first in queries.clone().step_by(QUERY_BLOCK).rev() {
            let last = queries.end.min(first + QUERY_BLOCK);
            let query = &mut query_sums[(first - queries.start) * head_size..];
            let query = &mut query[..(last - first) * head_size];
            let block = self.attention.block(sample, head, first..last);
            block.add_gradients(vector, rows, &mut scratch, Sums { query, key, value, write });
            write = Write::Add;
        }
    }

    /// The gradient at one position of a head's queries (`part` 0), keys (1) or values (2) from
    /// the sums of the head's groups.
    fn gather(
        &self,
        vector: Vector,
        sample: usize,
        part: usize,
        position: usize,
        sums: &[f32],
        gradient: &mut [f32],
    ) {
        let head_size = self.attention.head_size;
        let row_of = |group: usize, row: usize| {
            &sums[group * self.group_len() + row * head_size..][..head_size]
        };
        if part == 0 {
            let group = position / self.queries;
            gradient.copy_from_slice(row_of(group, position - group * self.queries));
            return;
        }
        let row = self.queries + (part - 1) * self.attention.seq + position;
        let sees = |&group: &usize| self.attention.keys(sample, &self.queries_of(group)) > position;
        let mut found = (0..self.count).filter(sees).map(|group| row_of(group, row));
        match found.next() {
            Some(first) => gradient.copy_from_slice(first),
            None => gradient.fill(0.0),
        }
        found.for_each(|addends| add_slice(vector, gradient, addends));
    }
}

/// Where a task computes what is there for one block at a time.
struct Scratch {
    /// Scores, then probabilities: `[queries, keys]`.
    probabilities: Buffer,
    /// The gradient of the probabilities, then of the scores: `[queries, keys]`.
    gradient: Buffer,
    /// The dropout mask of a row.
    mask: Buffer,
}

impl Scratch {
    /// For blocks that see up to `keys` keys.
    fn new(keys: usize) -> Self {
        let [probabilities, gradient] = [0, 1].map(|_| buffers::take(QUERY_BLOCK * keys));
        Self { probabilities, gradient, mask: buffers::take(keys) }
    }
}

/// What the gradients of a block are added to.
struct Sums<'a> {
    /// `[queries, head_size]`; always replaced.
    query: &'a mut [f32],
    /// `[keys, head_size]` at least.
    key: &'a mut [f32],
    /// `[keys, head_size]` at least.
    value: &'a mut [f32],
    write: Write<'static>,
}

impl Block<'_> {
    fn add_gradients(&self, vector: Vector, rows: Rows<'_>, scratch: &mut Scratch, sums: Sums<'_>) {
        let Self { keys, .. } = *self;
        if keys == 0 {
            sums.query.fill(0.0);
            return;
        }
        let head_size = self.attention.head_size;
        let context_gradient = self.context_gradient(rows);
        let numbers = self.queries.len() * keys;
        let probabilities = &mut scratch.probabilities[..numbers];
        let gradient = &mut scratch.gradient[..numbers];

        self.score(probabilities);
        let output = MatrixMut::new(gradient, keys);
        multiply_here(context_gradient, self.value().transposed(), output, Write::Replace);
        self.through_softmax(vector, rows, probabilities, gradient, &mut scratch.mask);

        let probabilities = Matrix::new(probabilities, keys);
        let gradient = Matrix::new(gradient, keys);
        let value = MatrixMut::new(&mut sums.value[..keys * head_size], head_size);
        multiply_here(probabilities.transposed(), context_gradient, value, sums.write);
        let key = MatrixMut::new(&mut sums.key[..keys * head_size], head_size);
        multiply_here(gradient.transposed(), self.query(), key, sums.write);
        let query = MatrixMut::new(sums.query, head_size);
        multiply_here(gradient, self.key(), query, Write::Replace);
    }

    /// `[queries, head_size]`.
    fn context_gradient<'a>(&self, rows: Rows<'a>) -> Matrix<'a> {
        let Attention { seq, head_size, .. } = self.attention;
        let width = self.attention.width();
        let first = (self.sample * seq + self.queries.start) * width + self.head * head_size;
        let values = &rows.context_gradient[first..];
        Matrix::strided(values, self.queries.len(), head_size, width)
    }

    /// Scores become probabilities times the mask, and the gradient of those becomes that of the
    /// scores.
    fn through_softmax(
        &self,
        vector: Vector,
        rows: Rows<'_>,
        scores: &mut [f32],
        gradient: &mut [f32],
        mask_row: &mut [f32],
    ) {
        let block = scores.chunks_exact_mut(self.keys).zip(gradient.chunks_exact_mut(self.keys));
        for ((scores, gradient), query) in block.zip(self.queries.clone()) {
            let (visible, computed) = self.visible_and_computed(query);
            scores[visible..computed].fill(f32::NEG_INFINITY);
            gradient[visible..computed].fill(0.0);
            self.row_through_softmax(
                vector,
                rows,
                query,
                &mut scores[..computed],
                &mut gradient[..computed],
                &mut mask_row[..computed],
            );
            scores[visible..].fill(0.0);
            gradient[visible..].fill(0.0);
        }
    }

    fn row_through_softmax(
        &self,
        vector: Vector,
        rows: Rows<'_>,
        query: usize,
        scores: &mut [f32],
        gradient: &mut [f32],
        mask_row: &mut [f32],
    ) {
        let Attention { seq, settings, .. } = self.attention;
        let row = (self.sample * seq + query) * settings.heads + self.head;
        let (normalizer, scale) = (rows.normalizers[row], self.attention.scale());
        let Some(mask) = &settings.mask else {
            softmax::backward(vector, scores, gradient, normalizer, scale);
            return;
        };
        mask_row.fill(1.0);
        self.drop_out(vector, mask, query, mask_row);
        multiply_slice(vector, gradient, mask_row);
        softmax::backward(vector, scores, gradient, normalizer, scale);
        multiply_slice(vector, scores, mask_row);
    }
}
