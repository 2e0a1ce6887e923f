//! `O = (M ∘ softmax(scale · Q Kᵀ)) V`: a task owns the rows of a block of queries, whole, and goes
//! from head to head.

use rayon::prelude::*;

use super::{Attention, Block, QUERY_BLOCK};
use crate::backend::cpu::buffers;
use crate::backend::cpu::matrix::{Matrix, MatrixMut, Write, multiply_here};
use crate::backend::cpu::softmax::{Normalizer, exponentials};
use crate::backend::cpu::vector::{Vector, scale_slice};

/// `context`, `[batch, seq, heads · head_size]`, and for each `[batch, seq, heads]` what
/// [`backward`](super::backward()) wants to know.
///
/// # Panics
///
/// When the outputs have other sizes.
pub fn forward(
    vector: Vector,
    attention: Attention<'_>,
    context: &mut [f32],
    normalizers: &mut [Normalizer],
) {
    let Attention { batch, seq, .. } = attention;
    let (width, heads) = (attention.width(), attention.settings.heads);
    assert_eq!(context.len(), batch * seq * width, "a context for each query");
    assert_eq!(normalizers.len(), batch * seq * heads, "a normalizer for each query and head");
    if context.is_empty() {
        return;
    }

    let samples = context.par_chunks_mut(seq * width).zip(normalizers.par_chunks_mut(seq * heads));
    samples.enumerate().for_each(|(sample, (context, normalizers))| {
        let blocks = context.par_chunks_mut(QUERY_BLOCK * width);
        let blocks = blocks.zip(normalizers.par_chunks_mut(QUERY_BLOCK * heads));
        blocks.enumerate().for_each(|(block, (context, normalizers))| {
            let first = block * QUERY_BLOCK;
            let queries = first..first + normalizers.len() / heads;
            let mut scores = buffers::take(queries.len() * attention.keys(sample, &queries));
            for head in 0..heads {
                let block = attention.block(sample, head, queries.clone());
                block.attend(vector, &mut scores, context, normalizers);
            }
        });
    });
}

impl Block<'_> {
    /// Writes this head's columns of `context`, `[queries, heads · head_size]`, and of
    /// `normalizers`, `[queries, heads]`.
    fn attend(
        &self,
        vector: Vector,
        scores: &mut [f32],
        context: &mut [f32],
        normalizers: &mut [Normalizer],
    ) {
        let Attention { head_size, settings, .. } = self.attention;
        let width = self.attention.width();
        let columns = self.head * head_size..(self.head + 1) * head_size;
        if self.keys == 0 {
            for row in context.chunks_exact_mut(width) {
                row[columns.clone()].fill(0.0);
            }
            return;
        }

        self.score(scores);
        let rows = scores.chunks_exact_mut(self.keys).zip(self.queries.clone());
        for ((row, query), normalizer) in
            rows.zip(normalizers.iter_mut().skip(self.head).step_by(settings.heads))
        {
            let (visible, computed) = self.visible_and_computed(query);
            row[visible..computed].fill(f32::NEG_INFINITY);
            *normalizer = exponentials(vector, &mut row[..computed], self.attention.scale());
            row[visible..].fill(0.0);
            if let Some(mask) = &settings.mask {
                self.drop_out(vector, mask, query, &mut row[..computed]);
            }
        }

        let probabilities = Matrix::new(scores, self.keys);
        let output = &mut context[columns.start..];
        let output = MatrixMut::strided(output, self.queries.len(), head_size, width);
        multiply_here(probabilities, self.value(), output, Write::Replace);
        // The sums are taken out last: there are fewer numbers here than probabilities.
        let normalizers = normalizers.iter().skip(self.head).step_by(settings.heads);
        for (row, [_, factor]) in context.chunks_exact_mut(width).zip(normalizers) {
            scale_slice(vector, &mut row[columns.clone()], *factor);
        }
    }
}
