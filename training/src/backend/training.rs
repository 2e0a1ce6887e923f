//! What a pass of training asks of a backend beside the operations of its layers.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::ops::FloatTensor;

use super::TpBackend;
use super::functions::{unwrap, wrap};

/// A backend that records gradients, takes up a backward pass where another one ended, and adds to
/// sums of gradients in place.
pub trait TrainingBackend: TpBackend + AutodiffBackend {
    /// Lends the sum of a parameter's gradients to the next backward pass on this thread, which may
    /// add to it in place: the gradient that it then finds is the new sum.
    fn lend_sum(parameter: FloatTensor<Self>, sum: FloatTensor<Self>);

    /// The sum that was lent for a parameter, where the backward pass has not added to it.
    fn reclaim_sum(parameter: FloatTensor<Self>) -> Option<FloatTensor<Self>>;

    /// A number, 0, whose gradient makes `gradients` those of `outputs`: where a backward pass
    /// begins that goes on with what another one found.
    fn with_gradients<const N: usize>(
        outputs: [FloatTensor<Self>; N],
        gradients: [FloatTensor<Self>; N],
    ) -> FloatTensor<Self>;
}

/// Lends the sum of a parameter's gradients to the next backward pass on this thread, which may add
/// to it in place: the gradient that it then finds is the new sum.
pub fn lend_sum<B: TrainingBackend, const D: usize>(parameter: Tensor<B, D>, sum: Tensor<B, D>) {
    B::lend_sum(unwrap(parameter), unwrap(sum));
}

/// The sum that was lent for a parameter, where the backward pass has not added to it.
pub fn reclaim_sum<B: TrainingBackend, const D: usize>(
    parameter: Tensor<B, D>,
) -> Option<Tensor<B, D>> {
    B::reclaim_sum(unwrap(parameter)).map(wrap)
}

/// A number, 0, whose backward pass begins with `gradient` at `output`: it goes on where another
/// one ended.
pub fn with_gradient<B: TrainingBackend, const D: usize>(
    output: Tensor<B, D>,
    gradient: Tensor<B, D>,
) -> Tensor<B, 1> {
    wrap(B::with_gradients([unwrap(output)], [unwrap(gradient)]))
}

/// [`with_gradient`] for two outputs, each beside its gradient; both have their gradients before
/// anything that led to them is asked for its own.
pub fn with_gradients<B: TrainingBackend, const D: usize, const E: usize>(
    (output, gradient): (Tensor<B, D>, Tensor<B, D>),
    (other, other_gradient): (Tensor<B, E>, Tensor<B, E>),
) -> Tensor<B, 1> {
    wrap(B::with_gradients(
        [unwrap(output), unwrap(other)],
        [unwrap(gradient), unwrap(other_gradient)],
    ))
}
