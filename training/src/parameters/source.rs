//! Where the values of parameters come from: a seed here, a checkpoint elsewhere.
//!
//! With a seed, every number of a weight is a pure function of (seed, parameter name, index in the
//! whole weight). A rank draws only the numbers that it holds, and still every tensor-parallel
//! size starts from the same model.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::{Init, ParameterSpec};
use crate::error::TrainError;
use crate::parallel::random::KeyedNormal;

/// Gives each rank its part of every parameter.
pub trait ParameterSource: Sync {
    /// The part of `spec` that `rank` of `size` holds, as [`ParameterSpec::local_shape`] orders
    /// it; rows that pad the vocabulary are zero.
    ///
    /// # Errors
    ///
    /// When the source does not hold the parameter, or holds it in another shape.
    fn local(&self, spec: &ParameterSpec, rank: usize, size: usize)
    -> Result<Vec<f32>, TrainError>;
}

/// Draws the initial values of a model from a seed.
#[derive(Debug, Clone, Copy)]
pub struct KeyedInit {
    /// The run's seed.
    pub seed: u64,
}

impl ParameterSource for KeyedInit {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let mut values = vec![0.0; spec.local_shape(rank, size).iter().product()];
        match spec.init {
            Init::Zeros => {}
            Init::Ones => values.fill(1.0),
            Init::Normal { std } => {
                let normal = KeyedNormal::new(self.seed, xxh3_64(spec.name.as_bytes()));
                for run in spec.local_runs(rank, size) {
                    draw(&normal, std, run.logical_offset, &mut values[run.local_range()]);
                }
            }
        }
        Ok(values)
    }
}

/// Fills `values` with the numbers `first..` of the weight, in parallel.
fn draw(normal: &KeyedNormal, std: f64, first: usize, values: &mut [f32]) {
    const NUMBERS_PER_TASK: usize = 1 << 16;
    values.par_chunks_mut(NUMBERS_PER_TASK).enumerate().for_each(|(task, chunk)| {
        let start = first + task * NUMBERS_PER_TASK;
        let drawn = (start as u64 / 4..).flat_map(|block| normal.block(block));
        for (value, drawn) in chunk.iter_mut().zip(drawn.skip(start % 4)) {
            *value = (drawn * std) as f32;
        }
    });
}
