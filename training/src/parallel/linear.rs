//! Linear layers whose weight is split over the group: by column, and by row.
//!
//! A column-parallel layer followed by a row-parallel one needs a single all-reduce in each
//! direction, because what the first leaves split is what the second takes split. Shoeybi et al.,
//! *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 3 and figure 3.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::mappings::{Region, copy_to_region, reduce_from_region};
use super::random::DropoutMask;
use crate::backend::{
    IncrementalKernels, TpBackend, bias_add, bias_dropout_add, linear, row_product,
};
use crate::error::TrainError;
use crate::parameters::ParameterLoader;

/// The sizes of a [`ColumnParallelLinear`].
#[derive(Debug, Clone)]
pub struct ColumnParallelLinearConfig {
    /// The region that the layer opens, as collectives name it.
    pub region: &'static str,
    /// Width of the input.
    pub d_input: usize,
    /// Width of the output over all ranks.
    pub d_output: usize,
}

/// Linear layer whose weight is split by output column over the tensor-parallel group.
///
/// Computes `Y = XA + b` with `A = [A_1, …, A_p]`: rank `i` holds `A_i` and `b_i` and returns
/// `Y_i = X A_i + b_i`. The forward pass communicates nothing; the backward pass all-reduces the
/// gradient of `X`, which is the paper's operator *f*. Follow it with a [`RowParallelLinear`],
/// which takes the split output as it is.
///
/// # Shapes
///
/// `p` is the size of the group.
///
/// | tensor   | shape                        | across ranks  |
/// |----------|------------------------------|---------------|
/// | `input`  | `[batch, seq, d_input]`      | replicated    |
/// | `weight` | `[d_input, d_output / p]`    | split, dim 1  |
/// | `bias`   | `[d_output / p]`             | split, dim 0  |
/// | output   | `[batch, seq, d_output / p]` | split, dim 2  |
///
/// # Source
///
/// Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 3
/// and figure 3.
#[derive(Module, Debug)]
pub struct ColumnParallelLinear<B: TpBackend> {
    /// This rank's columns `A_i`, `[d_input, d_output / p]`.
    pub weight: Param<Tensor<B, 2>>,
    /// This rank's part `b_i`, `[d_output / p]`.
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    region: Region,
}

impl ColumnParallelLinearConfig {
    /// A layer from `d_input` to `d_output` that opens the region `region`.
    #[must_use]
    pub fn new(region: &'static str, d_input: usize, d_output: usize) -> Self {
        Self { region, d_input, d_output }
    }

    /// Builds this rank's part of the layer.
    ///
    /// # Errors
    ///
    /// [`TrainError::Indivisible`] when `d_output` is no multiple of the group's size, and
    /// whatever loading the parameters answers.
    pub fn init<B: TpBackend>(
        &self,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<ColumnParallelLinear<B>, TrainError> {
        let d_output = parameters.part_of("d_output", self.d_output)?;
        Ok(ColumnParallelLinear {
            weight: parameters.load("weight", [self.d_input, d_output])?,
            bias: parameters.load("bias", [d_output])?,
            region: Region::new(parameters.group(), self.region),
        })
    }
}

impl<B: TpBackend> ColumnParallelLinear<B> {
    /// `input` `[batch, seq, d_input]` → `[batch, seq, d_output / p]`.
    ///
    /// # Panics
    ///
    /// When shapes disagree, or in the backward pass when another rank of the group has failed.
    pub fn forward(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        let input = copy_to_region(input, &self.region);
        linear(input, self.weight.val(), Some(self.bias.val()))
    }

    /// `X A_i` without the bias, for a following operation that adds it on the way.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn product(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        linear(copy_to_region(input, &self.region), self.weight.val(), None)
    }
}

impl<B: IncrementalKernels> ColumnParallelLinear<B> {
    /// [`product`](Self::product), each position by itself and without a graph.
    ///
    /// # Panics
    ///
    /// When shapes disagree.
    pub fn product_by_row(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        row_product(input, self.weight.val())
    }

    /// [`forward`](Self::forward), each position by itself and without a graph.
    ///
    /// # Panics
    ///
    /// When shapes disagree.
    pub fn forward_by_row(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        self.product_by_row(input) + self.bias.val().unsqueeze()
    }
}

/// The sizes of a [`RowParallelLinear`].
#[derive(Debug, Clone)]
pub struct RowParallelLinearConfig {
    /// The region that the layer closes, as collectives name it.
    pub region: &'static str,
    /// Width of the input over all ranks.
    pub d_input: usize,
    /// Width of the output.
    pub d_output: usize,
}

/// Linear layer whose weight is split by input row over the tensor-parallel group.
///
/// Computes `Y = XA + b` with the rows of `A` and the columns of `X` cut alike: rank `i` computes
/// the partial sum `X_i A_i`, and the all-reduce of the paper's operator *g* adds them up. The
/// bias is added once, after the sum, and is not split. The backward pass communicates nothing.
///
/// # Shapes
///
/// `p` is the size of the group.
///
/// | tensor   | shape                       | across ranks |
/// |----------|-----------------------------|--------------|
/// | `input`  | `[batch, seq, d_input / p]` | split, dim 2 |
/// | `weight` | `[d_input / p, d_output]`   | split, dim 0 |
/// | `bias`   | `[d_output]`                | replicated   |
/// | output   | `[batch, seq, d_output]`    | replicated   |
///
/// # Source
///
/// Shoeybi et al., *Megatron-LM*, [arXiv 1909.08053](https://arxiv.org/abs/1909.08053), section 3
/// and figure 3.
#[derive(Module, Debug)]
pub struct RowParallelLinear<B: TpBackend> {
    /// This rank's rows `A_i`, `[d_input / p, d_output]`.
    pub weight: Param<Tensor<B, 2>>,
    /// The bias `b`, `[d_output]`, the same on every rank.
    pub bias: Param<Tensor<B, 1>>,
    #[module(skip)]
    region: Region,
}

impl RowParallelLinearConfig {
    /// A layer from `d_input` to `d_output` that closes the region `region`.
    #[must_use]
    pub fn new(region: &'static str, d_input: usize, d_output: usize) -> Self {
        Self { region, d_input, d_output }
    }

    /// Builds this rank's part of the layer.
    ///
    /// # Errors
    ///
    /// [`TrainError::Indivisible`] when `d_input` is no multiple of the group's size, and whatever
    /// loading the parameters answers.
    pub fn init<B: TpBackend>(
        &self,
        parameters: &ParameterLoader<'_, B>,
    ) -> Result<RowParallelLinear<B>, TrainError> {
        let d_input = parameters.part_of("d_input", self.d_input)?;
        Ok(RowParallelLinear {
            weight: parameters.load("weight", [d_input, self.d_output])?,
            bias: parameters.load("bias", [self.d_output])?,
            region: Region::new(parameters.group(), self.region),
        })
    }
}

impl<B: TpBackend> RowParallelLinear<B> {
    /// `input` `[batch, seq, d_input / p]` → `[batch, seq, d_output]`.
    ///
    /// # Panics
    ///
    /// When shapes disagree, or when another rank of the group has failed.
    pub fn forward(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        bias_add(self.reduced_product(input), self.bias.val())
    }

    /// `residual + dropout(forward(input))` in one pass after the sum over the ranks; without a
    /// mask nothing is dropped.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_onto(
        &self,
        residual: Tensor<B, 3>,
        input: Tensor<B, 3>,
        mask: Option<DropoutMask>,
    ) -> Tensor<B, 3> {
        let product = self.reduced_product(input);
        bias_dropout_add(product, self.bias.val(), residual, mask)
    }

    /// The sum of all ranks' `X_i A_i`.
    fn reduced_product(&self, input: Tensor<B, 3>) -> Tensor<B, 3> {
        reduce_from_region(linear(input, self.weight.val(), None), &self.region)
    }
}

impl<B: IncrementalKernels> RowParallelLinear<B> {
    /// `residual + forward(input)`, each position by itself and without a graph.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_onto_by_row(&self, residual: Tensor<B, 3>, input: Tensor<B, 3>) -> Tensor<B, 3> {
        let product = reduce_from_region(row_product(input, self.weight.val()), &self.region);
        bias_dropout_add(product, self.bias.val(), residual, None)
    }
}
