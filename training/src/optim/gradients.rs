//! The gradient of a global batch: summed over its micro-batches, then over the copies of the
//! model.
//!
//! Each micro-batch's loss is already divided by the scored tokens of the whole global batch, so
//! that a plain sum is the gradient of the mean. burn keeps gradients by tensor; here they lie in
//! one flat buffer in the order of the model's parameter table, found by the parameter's path in
//! the module. The buffer lives as long as the run, and copies of the model exchange it in equal
//! pieces, whatever parameters these cut through.

use std::ops::Range;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use rayon::prelude::*;

use crate::parallel::DataParallelGroup;
use crate::parallel::collective::{CollectiveError, ReduceOp};
use crate::parameter_walk::ParameterIndex;
use crate::parameters::ParameterSpec;

/// Numbers in one exchange between copies of the model: 1 MiB, so that what all of them bring stays
/// in the processor's cache until it is added.
const BUCKET: usize = 1 << 18;

/// Numbers in one task of a copy or a sum.
const CHUNK: usize = 1 << 16;

/// Sum of gradients of this rank's part of the model.
#[derive(Debug)]
pub struct GradientBuffer {
    index: ParameterIndex,
    values: Vec<f32>,
    /// Where each parameter's gradient lies in `values`, in the order of the parameter table.
    ranges: Vec<Range<usize>>,
    /// Whether a parameter has got a gradient in this global batch.
    is_filled: Vec<bool>,
    /// Whether a parameter has got a gradient in this micro-batch.
    is_seen: Vec<bool>,
}

impl GradientBuffer {
    /// A buffer for the parameters `specs`, of which this rank holds `sizes` numbers each.
    #[must_use]
    pub fn new(specs: &[ParameterSpec], sizes: impl IntoIterator<Item = usize>) -> Self {
        let mut end = 0;
        let mut place = |size| {
            let begin = end;
            end += size;
            begin..end
        };
        let ranges: Vec<Range<usize>> = sizes.into_iter().map(&mut place).collect();
        Self {
            index: ParameterIndex::new(specs),
            values: vec![0.0; end],
            is_filled: vec![false; ranges.len()],
            is_seen: vec![false; ranges.len()],
            ranges,
        }
    }

    /// Begins the sum of another global batch.
    pub fn begin(&mut self) {
        self.is_filled.fill(false);
    }

    /// Adds the gradients of one micro-batch, or those that one of its backward passes has found.
    ///
    /// # Panics
    ///
    /// When the model and its table disagree about a parameter.
    pub fn add<B: AutodiffBackend, M: Module<B>>(&mut self, model: &M, gradients: B::Gradients) {
        self.add_part(&[], model, gradients);
    }

    /// [`add`](Self::add) for the part of the model that lies at `path`.
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add).
    pub fn add_part<B, M>(&mut self, path: &[&str], part: &M, gradients: B::Gradients)
    where
        B: AutodiffBackend,
        M: Module<B>,
    {
        let path = path.iter().map(|&name| name.to_owned()).collect();
        part.visit(&mut AddVisitor::<B> { buffer: self, gradients, path });
    }

    /// Ends a micro-batch.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient from it: every parameter takes part in every loss, and one
    /// that a graph has lost must not pass for 0.
    pub fn end_micro_batch(&mut self) {
        assert!(self.is_seen.iter().all(|&seen| seen), "every parameter has a gradient");
        self.is_seen.fill(false);
    }

    /// Makes the first number infinite, as an overflow would: for tests.
    pub(crate) fn overflow(&mut self) {
        if let Some(first) = self.values.first_mut() {
            *first = f32::INFINITY;
        }
    }

    /// Replaces the sum by that over the copies of the model, added in their order: the same bits
    /// on each. The exchanges are called `gradients`.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient: every parameter takes part in the loss.
    pub fn all_reduce(&mut self, group: &DataParallelGroup) -> Result<(), CollectiveError> {
        assert!(self.is_filled.iter().all(|&filled| filled), "every parameter has a gradient");
        let collective = group.collective();
        self.values.chunks_mut(BUCKET).try_for_each(|bucket| {
            collective.all_reduce("gradients".into(), bucket.into(), ReduceOp::Sum)
        })
    }

    /// The sums by parameter, in the order of the parameter table.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = &[f32]> + DoubleEndedIterator {
        self.ranges.iter().map(|range| &self.values[range.clone()])
    }

    /// The sum of parameter number `index` of the table.
    ///
    /// # Panics
    ///
    /// When the table has no such parameter.
    #[must_use]
    pub fn parameter(&self, index: usize) -> &[f32] {
        &self.values[self.ranges[index].clone()]
    }

    /// Adds to the sum of one parameter; the first addend of a global batch takes the place of the
    /// last one's sum.
    fn add_to(&mut self, index: usize, addend: &[f32]) {
        let sum = &mut self.values[self.ranges[index].clone()];
        assert_eq!(sum.len(), addend.len(), "as many gradients as weights");
        self.is_seen[index] = true;
        let chunks = sum.par_chunks_mut(CHUNK).zip(addend.par_chunks(CHUNK));
        if self.is_filled[index] {
            chunks.for_each(|(sum, addend)| {
                for (sum, value) in sum.iter_mut().zip(addend) {
                    *sum += value;
                }
            });
        } else {
            chunks.for_each(|(sum, addend)| sum.copy_from_slice(addend));
            self.is_filled[index] = true;
        }
    }
}

struct AddVisitor<'a, B: AutodiffBackend> {
    buffer: &'a mut GradientBuffer,
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
        let index = self.buffer.index.of(&self.path);
        let Some(gradient) = param.val().grad_remove(&mut self.gradients) else { return };
        let gradient = gradient.into_data();
        self.buffer.add_to(index, gradient.as_slice().expect("gradients are f32"));
    }
}
