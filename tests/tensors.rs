//! Small tensors for tests, and their comparison.

use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use training::backend::CpuAutodiff;
use training::parallel::random::philox4x32;

/// `values` as a tensor.
pub(crate) fn constant<const D: usize>(
    values: &[f32],
    shape: [usize; D],
) -> Tensor<CpuAutodiff, D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Default::default())
}

/// `values` as a leaf whose gradient is asked for.
pub(crate) fn leaf<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<CpuAutodiff, D> {
    constant(values, shape).require_grad()
}

/// The numbers of a tensor, by rows.
pub(crate) fn values<const D: usize>(tensor: Tensor<impl Backend, D>) -> Vec<f32> {
    tensor.into_data().to_vec().unwrap()
}

/// `count` numbers between -1 and 1 that look random and differ for each `seed`.
pub(crate) fn made_up(seed: u32, count: usize) -> Vec<f32> {
    let draw = |i| philox4x32([seed, 0], [i as u32, 0, 0, 0])[0];
    (0..count).map(|i| (f64::from(draw(i)) / 2_147_483_648.0 - 1.0) as f32).collect()
}

/// Checks that no number is further than `tolerance` from the expected one.
#[track_caller]
pub(crate) fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= tolerance;
        assert!(close, "at {i}: {found}, expected {expected} ± {tolerance}");
    }
}
