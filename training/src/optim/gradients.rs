//! The gradient of a global batch: summed over its micro-batches, then over the copies of the
//! model.
//!
//! Each micro-batch's loss is already divided by the scored tokens of the whole global batch, so
//! that a plain sum is the gradient of the mean. burn keeps gradients by tensor; here they lie in
//! the order of the model's parameter table, found by the parameter's path in the module. The first
//! micro-batch's gradients become the sums, in the memory that the backward pass wrote them to; the
//! next step's first ones take their place. Copies of the model exchange the sums in equal pieces,
//! whatever parameters these cut through.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, TensorData};

use crate::backend::cpu::add::add;
use crate::backend::cpu::vector::Vector;
use crate::backend::{TrainingBackend, lend_sum, reclaim_sum};
use crate::parallel::DataParallelGroup;
use crate::parallel::collective::{Collective, CollectiveError, ReduceOp};
use crate::parameter_walk::ParameterIndex;
use crate::parameters::ParameterSpec;

/// Numbers in one exchange between copies of the model: 1 MiB, so that what all of them bring stays
/// in the processor's cache until it is added.
const BUCKET: usize = 1 << 18;

/// Sum of gradients of this rank's part of the model.
#[derive(Debug)]
pub struct GradientBuffer {
    index: ParameterIndex,
    /// In the order of the parameter table; none before a parameter's first gradient in a global
    /// batch.
    sums: Vec<Option<TensorData>>,
    /// How many numbers of each parameter this rank holds.
    sizes: Vec<usize>,
    /// Whether a parameter has got a gradient in this micro-batch.
    is_seen: Vec<bool>,
}

impl GradientBuffer {
    /// A buffer for the parameters `specs`, of which this rank holds `sizes` numbers each.
    #[must_use]
    pub fn new(specs: &[ParameterSpec], sizes: impl IntoIterator<Item = usize>) -> Self {
        let sizes: Vec<usize> = sizes.into_iter().collect();
        Self {
            index: ParameterIndex::new(specs),
            sums: vec![None; sizes.len()],
            is_seen: vec![false; sizes.len()],
            sizes,
        }
    }

    /// Begins the sum of another global batch.
    pub fn begin(&mut self) {
        self.sums.fill(None);
    }

    /// Runs the backward pass of `loss` and adds the gradients of `model` that it finds; see
    /// [`add_found`](Self::add_found) for those that are wanted elsewhere.
    ///
    /// # Panics
    ///
    /// When the model and its table disagree about a parameter.
    pub fn backward<B, M>(&mut self, model: &M, loss: Tensor<B, 1>)
    where
        B: TrainingBackend,
        M: Module<B>,
    {
        self.lend(&[], model);
        self.add_found(&[], model, loss.backward());
    }

    /// Lends the sums of the part of the model that lies at `path` to the next backward pass on
    /// this thread; [`add_found`](Self::add_found) ends that.
    ///
    /// # Panics
    ///
    /// As [`backward`](Self::backward).
    pub fn lend<B, M>(&mut self, path: &[&str], part: &M)
    where
        B: TrainingBackend,
        M: Module<B>,
    {
        part.visit(&mut LendVisitor { buffer: self, path: owned(path) });
    }

    /// Adds the gradients that a backward pass has found for the part of the model that lies at
    /// `path`.
    ///
    /// # Panics
    ///
    /// As [`backward`](Self::backward).
    pub fn add_found<B, M>(&mut self, path: &[&str], part: &M, gradients: B::Gradients)
    where
        B: TrainingBackend,
        M: Module<B>,
    {
        part.visit(&mut AddVisitor::<B> { buffer: self, gradients, path: owned(path) });
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
        let first = self.sums.first_mut().and_then(Option::as_mut);
        if let Some(first) = first.and_then(|sum| numbers_mut(sum).first_mut()) {
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
        assert!(self.sums.iter().all(Option::is_some), "every parameter has a gradient");
        if group.size() == 1 {
            return Ok(());
        }
        let mut sums: Vec<&mut [f32]> = self.sums.iter_mut().flatten().map(numbers_mut).collect();
        let mut buckets = Buckets { pieces: Vec::new(), numbers: Vec::with_capacity(BUCKET) };
        for sum in sums.iter_mut() {
            let mut rest = &mut **sum;
            while !rest.is_empty() {
                let room = BUCKET - buckets.numbers.len();
                let (piece, later) = rest.split_at_mut(room.min(rest.len()));
                buckets.push(piece);
                if buckets.numbers.len() == BUCKET {
                    buckets.exchange(group.collective())?;
                }
                rest = later;
            }
        }
        buckets.exchange(group.collective())
    }

    /// The sums by parameter, in the order of the parameter table.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = &[f32]> + DoubleEndedIterator {
        (0..self.sums.len()).map(|index| self.parameter(index))
    }

    /// The sum of parameter number `index` of the table.
    ///
    /// # Panics
    ///
    /// When the table has no such parameter, or it got no gradient.
    #[must_use]
    pub fn parameter(&self, index: usize) -> &[f32] {
        numbers(self.sums[index].as_ref().expect("every parameter has a gradient"))
    }

    /// Takes what a backward pass has left of one parameter: the sum that was lent and not added
    /// to, the gradient that was found, which has the sum in it where it was added to, or both.
    fn add_to(&mut self, index: usize, unused: Option<TensorData>, found: Option<TensorData>) {
        if let Some(found) = &found {
            assert_eq!(found.num_elements(), self.sizes[index], "as many gradients as weights");
            self.is_seen[index] = true;
        }
        self.sums[index] = match (self.sums[index].take().or(unused), found) {
            (Some(mut sum), Some(found)) => {
                add(Vector::best(), numbers_mut(&mut sum), numbers(&found));
                Some(sum)
            }
            (sum, found) => sum.or(found),
        };
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&name| name.to_owned()).collect()
}

/// Pieces of the sums that copies of the model exchange together.
struct Buckets<'a> {
    pieces: Vec<&'a mut [f32]>,
    /// The numbers of the pieces, one after the other.
    numbers: Vec<f32>,
}

impl<'a> Buckets<'a> {
    fn push(&mut self, piece: &'a mut [f32]) {
        self.numbers.extend_from_slice(piece);
        self.pieces.push(piece);
    }

    /// Replaces the pieces by their sums, and begins with none.
    fn exchange(&mut self, collective: &dyn Collective) -> Result<(), CollectiveError> {
        if self.numbers.is_empty() {
            return Ok(());
        }
        collective.all_reduce("gradients".into(), (&mut self.numbers).into(), ReduceOp::Sum)?;
        let mut begin = 0;
        for piece in self.pieces.drain(..) {
            piece.copy_from_slice(&self.numbers[begin..][..piece.len()]);
            begin += piece.len();
        }
        self.numbers.clear();
        Ok(())
    }
}

fn numbers(sum: &TensorData) -> &[f32] {
    sum.as_slice().expect("gradients are f32")
}

fn numbers_mut(sum: &mut TensorData) -> &mut [f32] {
    sum.as_mut_slice().expect("gradients are f32")
}

struct LendVisitor<'a> {
    buffer: &'a mut GradientBuffer,
    path: Vec<String>,
}

impl<B: TrainingBackend> ModuleVisitor<B> for LendVisitor<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let index = self.buffer.index.of(&self.path);
        if let Some(sum) = self.buffer.sums[index].take() {
            let parameter = param.val();
            let sum = Tensor::from_data(sum, &parameter.device());
            lend_sum(parameter, sum);
        }
    }
}

struct AddVisitor<'a, B: AutodiffBackend> {
    buffer: &'a mut GradientBuffer,
    gradients: B::Gradients,
    path: Vec<String>,
}

impl<B: TrainingBackend> ModuleVisitor<B> for AddVisitor<'_, B> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let index = self.buffer.index.of(&self.path);
        let unused = reclaim_sum(param.val()).map(Tensor::into_data);
        let found = param.val().grad_remove(&mut self.gradients).map(Tensor::into_data);
        self.buffer.add_to(index, unused, found);
    }
}
