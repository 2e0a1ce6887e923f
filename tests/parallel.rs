//! The paper's section 3: worked numbers, operators, layers and loss.

mod cross_entropy;
mod layers;
mod paper;
mod random;

use burn::tensor::{Tensor, TensorData};
use training::backend::CpuAutodiff;

/// A leaf whose gradient is asked for.
fn leaf<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<CpuAutodiff, D> {
    constant(values, shape).require_grad()
}

fn constant<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<CpuAutodiff, D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Default::default())
}

fn values<const D: usize>(tensor: Tensor<impl burn::tensor::backend::Backend, D>) -> Vec<f32> {
    tensor.into_data().to_vec().unwrap()
}

/// `count` numbers that look random, between -1 and 1.
fn made_up(seed: u32, count: usize) -> Vec<f32> {
    let draw = |i| training::parallel::random::philox4x32([seed, 0], [i as u32, 0, 0, 0])[0];
    (0..count).map(|i| (f64::from(draw(i)) / 2_147_483_648.0 - 1.0) as f32).collect()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= tolerance;
        assert!(close, "at {i}: {found}, expected {expected} ± {tolerance}");
    }
}
