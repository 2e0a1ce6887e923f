//! One kernel as this crate has it and as it is made of burn's own operations.

use burn::tensor::{Tensor, TensorData};
use training::backend::{CpuAutodiff, with_gradient};

use super::times::Times;
use crate::CALLS;

/// A tensor of the backend that trains.
pub(crate) type T<const D: usize> = Tensor<CpuAutodiff, D>;

/// A call of something, which takes note of its times.
pub(crate) type Call = Box<dyn Fn(&mut Times)>;

/// A kernel and the same work by burn's own operations.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) ours: Times,
    pub(crate) stock: Times,
    call_ours: Call,
    call_stock: Call,
    is_warm: bool,
}

impl Operation {
    pub(crate) fn new(name: &'static str, call_ours: Call, call_stock: Call) -> Self {
        let (ours, stock) = (Times::default(), Times::default());
        Self { name, ours, stock, call_ours, call_stock, is_warm: false }
    }

    /// A round: both in turn.
    pub(crate) fn run(&mut self) {
        if !self.is_warm {
            self.call();
            for times in [&mut self.ours, &mut self.stock] {
                times.forward.forget();
                times.backward.forget();
            }
            self.is_warm = true;
        }
        (0..CALLS).for_each(|_| self.call());
    }

    fn call(&mut self) {
        (self.call_ours)(&mut self.ours);
        (self.call_stock)(&mut self.stock);
    }
}

/// A call of `operation` on fresh `inputs`, and of its backward pass from a gradient of ones: as in
/// a model, where nothing else holds the tensors, so that they may be changed in place.
pub(crate) fn with_backward<I: 'static, const D: usize>(
    inputs: &(impl Fn() -> I + Clone + 'static),
    operation: impl Fn(I) -> T<D> + 'static,
) -> Call {
    let inputs = inputs.clone();
    Box::new(move |times| {
        let inputs = inputs();
        let output = times.forward.measure(|| operation(inputs));
        let gradient = T::ones(output.dims(), &Default::default());
        let gradients = times.backward.measure(|| with_gradient(output, gradient).backward());
        drop(gradients); // not in the time: they are the model's to keep
    })
}

/// Made-up numbers around 0, a bell without a tail.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let uniform = |i: u32| {
        let bits = (i ^ seed.rotate_left(16)).wrapping_mul(0x9E37_79B9);
        let bits = (bits ^ bits >> 15).wrapping_mul(0x85EB_CA6B);
        f64::from(bits ^ bits >> 13) / f64::from(u32::MAX) - 0.5
    };
    let number = |i: u32| (0..4).map(|j| uniform(4 * i + j)).sum::<f64>() as f32;
    (0..count as u32).map(number).collect()
}

/// A tensor that asks for its gradient.
pub(crate) fn leaf<const D: usize>(values: &[f32], shape: [usize; D]) -> T<D> {
    T::from_data(TensorData::new(values.to_vec(), shape), &Default::default()).require_grad()
}
