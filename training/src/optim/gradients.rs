//! The gradient of a global batch, summed over its micro-batches in the order of the model's
//! parameter table.
//!
//! Each micro-batch's loss is already divided by the scored tokens of the whole global batch, so
//! that a plain sum is the gradient of the mean. burn keeps gradients by tensor; here they become
//! one flat slice per parameter, found by the parameter's path in the module.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use rayon::prelude::*;

use crate::parameter_walk::ParameterIndex;
use crate::parameters::ParameterSpec;

/// Sum of gradients, one slice per parameter of this rank.
#[derive(Debug)]
pub struct GradientAccumulator {
    index: ParameterIndex,
    sums: Vec<Option<Vec<f32>>>,
}

impl GradientAccumulator {
    /// An empty sum for the parameters `specs`.
    pub fn new(specs: &[ParameterSpec]) -> Self {
        Self { index: ParameterIndex::new(specs), sums: vec![None; specs.len()] }
    }

    /// Adds the gradients of one micro-batch.
    ///
    /// # Panics
    ///
    /// When the model has a parameter that its table does not name.
    pub fn add<B: AutodiffBackend, M: Module<B>>(&mut self, model: &M, gradients: B::Gradients) {
        model.visit(&mut AddVisitor::<B> { accumulator: self, gradients, path: Vec::new() });
    }

    /// The sums, in the order of the parameter table.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient: every parameter takes part in the loss.
    pub fn into_gradients(self) -> Vec<Vec<f32>> {
        self.sums
            .into_iter()
            .map(|sum| sum.expect("every parameter takes part in the loss"))
            .collect()
    }
}

struct AddVisitor<'a, B: AutodiffBackend> {
    accumulator: &'a mut GradientAccumulator,
    gradients: B::Gradients,
    path: Vec<String>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for AddVisitor<'_, B> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let index = self.accumulator.index.of(&self.path);
        let Some(gradient) = param.val().grad_remove(&mut self.gradients) else { return };
        let gradient = gradient.into_data();
        match &mut self.accumulator.sums[index] {
            Some(sum) => add_assign(sum, gradient.as_slice().expect("gradients are f32")),
            empty => *empty = Some(gradient.into_vec().expect("gradients are f32")),
        }
    }
}

fn add_assign(sum: &mut [f32], addend: &[f32]) {
    const CHUNK: usize = 1 << 16;
    sum.par_chunks_mut(CHUNK).zip(addend.par_chunks(CHUNK)).for_each(|(sum, addend)| {
        for (sum, value) in sum.iter_mut().zip(addend) {
            *sum += value;
        }
    });
}
