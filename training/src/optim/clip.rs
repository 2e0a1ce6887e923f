//! Clipping by the global norm: one norm over all gradients of the whole model, one factor for all
//! of them.
//!
//! The norm is that of the *unsplit* model. A replicated parameter has the same gradient on every
//! rank and counts once; a split one counts each rank's part, so that the group sums them. The tied
//! embedding is one parameter and counts once with the sum of its two gradients. Sums run in `f64`
//! over fixed blocks, so that every rank gets the same bits for any number of threads. Copies of
//! the model have summed their gradients before: each finds the same norm for itself.

use rayon::prelude::*;

use crate::TrainError;
use crate::backend::cpu::vector::{Vector, vectorized};
use crate::parallel::TensorParallelGroup;
use crate::parallel::collective::sum_exactly;
use crate::parameters::{ParameterSpec, Split};

/// Numbers per partial sum; fixed, because the order of summation is part of the result.
const BLOCK: usize = 1 << 16;

/// What the original implementation adds to the norm before it divides.
const NORM_EPSILON: f64 = 1e-6;

/// Norm of the gradient of the whole model, before clipping.
///
/// `gradients` are this rank's, in the order of `specs`. One exchange of a number per rank, named
/// `grad_norm`.
///
/// # Errors
///
/// When another rank of the group has failed.
pub fn grad_norm<'a>(
    gradients: impl Iterator<Item = &'a [f32]>,
    specs: &[ParameterSpec],
    group: &TensorParallelGroup,
) -> Result<f64, TrainError> {
    grad_norm_on(Vector::best(), gradients, specs, group)
}

/// [`grad_norm`] on instructions that the caller chooses.
///
/// # Errors
///
/// As [`grad_norm`].
pub fn grad_norm_on<'a>(
    vector: Vector,
    gradients: impl Iterator<Item = &'a [f32]>,
    specs: &[ParameterSpec],
    group: &TensorParallelGroup,
) -> Result<f64, TrainError> {
    let blocks: Vec<(&[f32], bool)> = gradients
        .zip(specs)
        .flat_map(|(gradient, spec)| {
            let is_split = spec.split != Split::Replicated;
            gradient.chunks(BLOCK).map(move |block| (block, is_split))
        })
        .collect();
    let sums: Vec<f64> =
        blocks.par_iter().map(|(block, _)| block_sum_of_squares(vector, block)).collect();
    let (mut replicated, mut split) = (0.0, 0.0);
    for ((_, is_split), sum) in blocks.into_iter().zip(sums) {
        *(if is_split { &mut split } else { &mut replicated }) += sum;
    }
    let [split] = sum_exactly(group.collective(), "grad_norm", [split])?;
    Ok((replicated + split).sqrt())
}

/// Factor that brings a gradient of norm `norm` down to `max_norm`: `max_norm / (norm + 1e-6)`, and
/// never above 1.
pub fn clip_coefficient(norm: f64, max_norm: f64) -> f64 {
    (max_norm / (norm + NORM_EPSILON)).min(1.0)
}

vectorized! {
    /// `Σ x²` in `f64`, always in the same order.
    fn block_sum_of_squares(block: &[f32]) -> f64 {
        /// Partial sums that do not wait for each other.
        const LANES: usize = 32;
        let mut lanes = [0.0; LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                let value = f64::from(value);
                *lane += value * value;
            }
        }
        let mut total = 0.0;
        for lane in lanes {
            total += lane;
        }
        for &value in rest {
            total += f64::from(value) * f64::from(value);
        }
        total
    }
}
