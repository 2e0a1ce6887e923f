//! Softmax of one row: `p_k = e^(scale · (x_k - max)) / Σ`, and its gradient
//! `dx_k = scale · p_k · (g_k - Σ_j p_j g_j)`, where `g` is that of the probabilities.
//!
//! [`Normalizer`] is what a row needs to be computed again in one trip. It is two numbers and not
//! `max + ln Σ`, which would be rounded in proportion to the scores: at a score of 10,000 the
//! probabilities would be off by a thousandth.

use super::vector::{LANES, add, exp, exp_and_sum, fma, fold, max, vectorized};

/// What turns the scores of a row into probabilities: the largest of them and `1 / Σ`.
pub type Normalizer = [f32; 2];

vectorized! {
    /// `row` becomes probabilities.
    pub(super) fn softmax(row: &mut [f32], scale: f32) {
        let largest = max(row);
        let factor = 1.0 / exp_and_sum::<FMA>(row, largest, scale);
        for value in row {
            *value *= factor;
        }
    }
}

vectorized! {
    /// `row` becomes probabilities but for the [`Normalizer`]'s factor.
    pub(super) fn exponentials(row: &mut [f32], scale: f32) -> Normalizer {
        let largest = max(row);
        let factor = 1.0 / exp_and_sum::<FMA>(row, largest, scale);
        [largest, factor]
    }
}

vectorized! {
    /// `scores` become probabilities, and `gradient` of the probabilities becomes that of the
    /// scores.
    pub(super) fn backward(
        scores: &mut [f32],
        gradient: &mut [f32],
        normalizer: Normalizer,
        scale: f32,
    ) {
        let [largest, factor] = normalizer;
        let probability = |score: f32| exp::<FMA>((score - largest) * scale) * factor;

        let mut means = [0.0; LANES];
        let (scores_chunks, scores_rest) = scores.as_chunks_mut::<LANES>();
        let (gradient_chunks, gradient_rest) = gradient.as_chunks::<LANES>();
        for (scores, gradient) in scores_chunks.iter_mut().zip(gradient_chunks) {
            for lane in 0..LANES {
                scores[lane] = probability(scores[lane]);
                means[lane] = fma::<FMA>(scores[lane], gradient[lane], means[lane]);
            }
        }
        let mut mean = fold(means, add);
        for (score, gradient) in scores_rest.iter_mut().zip(gradient_rest) {
            *score = probability(*score);
            mean = fma::<FMA>(*score, *gradient, mean);
        }

        for (gradient, probability) in gradient.iter_mut().zip(scores) {
            *gradient = scale * *probability * (*gradient - mean);
        }
    }
}
