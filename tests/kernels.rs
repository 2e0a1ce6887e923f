//! The fused operations against plain ones, and their vector code against the portable.

mod attention;
mod buffers;
mod half;
mod levels;
mod linear;
mod matrix;

use burn::tensor::Tensor;
use training::backend::cpu::bias_gelu as gelu_kernel;
use training::backend::cpu::head::{Head, head};
use training::backend::cpu::layer_norm as norm_kernel;
use training::backend::cpu::vector::Vector;
use training::backend::{Activation, CpuAutodiff, HeadExtras};
use training::backend::{bias_dropout_add, bias_gelu, dropout, layer_norm};
use training::parallel::random::{DropoutKey, DropoutMask, DropoutSite};
use training::parallel::{Targets, TensorParallelGroup, VocabularyRange};

use crate::tensors::{self, constant, values};

type T<const D: usize> = Tensor<CpuAutodiff, D>;

/// Odd sizes, so that no loop ends on a whole vector.
const BATCH: usize = 3;
const SEQ: usize = 29;
const WIDTH: usize = 45;

/// Numbers between -2 and 2: where GELU bends.
fn made_up(seed: u32, count: usize) -> Vec<f32> {
    tensors::made_up(seed, count).into_iter().map(|x| 2.0 * x).collect()
}

fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> T<D> {
    tensors::leaf(&made_up(seed, shape.iter().product()), shape)
}

/// Checks numbers against expected ones; `tolerance` is relative for those above 1.
fn assert_near(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
        assert!(close, "{what} at {i}: {found}, expected {expected}");
    }
}

/// Checks that `fused` and `plain` return the same and have the same gradients; both take the
/// same leaves. Tolerances are a few roundings of f32 in sums of 87 rows.
fn assert_same<const D: usize, const N: usize>(
    leaves: impl Fn() -> (T<D>, [T<1>; N]),
    fused: impl Fn(T<D>, [T<1>; N]) -> T<D>,
    plain: impl Fn(T<D>, [T<1>; N]) -> T<D>,
) {
    let run = |operation: &dyn Fn(T<D>, [T<1>; N]) -> T<D>| {
        let (input, vectors) = leaves();
        let output = operation(input.clone(), vectors.clone());
        let weights = made_up(99, output.shape().num_elements());
        let shape = output.dims();
        let grads = (output.clone() * constant(&weights, shape)).sum().backward();
        let mut found = vec![values(output), values(input.grad(&grads).unwrap())];
        found.extend(vectors.map(|vector| values(vector.grad(&grads).unwrap())));
        found
    };
    for (i, (found, expected)) in run(&fused).iter().zip(run(&plain)).enumerate() {
        assert_near(found, &expected, 2e-5, &format!("result {i}"));
    }
}

const SHAPE: [usize; 3] = [BATCH, SEQ, WIDTH];

#[test]
fn layer_norm_equals_plain_operations() {
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH]), leaf(3, [WIDTH])]),
        |x, [gain, bias]| layer_norm(x, gain, bias, 1e-5),
        |x, [gain, bias]| {
            let centered = x.clone() - x.mean_dim(2);
            let variance = centered.clone().powf_scalar(2.0).mean_dim(2);
            let normed = centered / (variance + 1e-5).sqrt();
            normed * gain.unsqueeze() + bias.unsqueeze()
        },
    );
}

#[test]
fn bias_gelu_equals_plain_operations() {
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH])]),
        |x, [bias]| bias_gelu(x, bias, Activation::Gelu),
        |x, [bias]| {
            let u: T<3> = x + bias.unsqueeze();
            u.clone() * ((u / 2_f32.sqrt()).erf() + 1.0) * 0.5
        },
    );
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH])]),
        |x, [bias]| bias_gelu(x, bias, Activation::GeluTanh),
        |x, [bias]| {
            let u: T<3> = x + bias.unsqueeze();
            let k = (2.0 / std::f32::consts::PI).sqrt();
            let inner = (u.clone() + u.clone().powf_scalar(3.0) * 0.044_715) * k;
            u * (inner.tanh() + 1.0) * 0.5
        },
    );
}

fn mask(site: DropoutSite) -> DropoutMask {
    DropoutMask::new(&DropoutKey { seed: 1, step: 2, first_sample: 3 }, site, 4, 0.3)
}

/// The mask as numbers, `len` for each sample and head.
fn mask_values(mask: &DropoutMask, samples: usize, heads: usize, len: usize) -> Vec<f32> {
    let one = |sample, head| {
        let blocks =
            (0..len.div_ceil(4)).flat_map(|block| mask.factors(sample, head, block as u32));
        blocks.take(len).collect::<Vec<_>>()
    };
    (0..samples).flat_map(|sample| (0..heads).flat_map(move |head| one(sample, head))).collect()
}

#[test]
fn dropout_multiplies_by_the_keyed_mask() {
    let mask = mask(DropoutSite::Embedding);
    let plain_mask = mask_values(&mask, BATCH, 1, SEQ * WIDTH);
    assert_same(
        || (leaf(1, SHAPE), []),
        |x, []| dropout(x, Some(mask)),
        |x, []| x * constant(&plain_mask, SHAPE),
    );
    let residual = leaf::<3>(7, SHAPE);
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH])]),
        |x, [bias]| bias_dropout_add(x, bias, residual.clone(), Some(mask)),
        |x, [bias]| (x + bias.unsqueeze()) * constant(&plain_mask, SHAPE) + residual.clone(),
    );
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH])]),
        |residual, [bias]| bias_dropout_add(leaf(7, SHAPE), bias, residual, Some(mask)),
        |residual, [bias]| {
            (leaf::<3>(7, SHAPE) + bias.unsqueeze()) * constant(&plain_mask, SHAPE) + residual
        },
    );
    assert_same(
        || (leaf(1, SHAPE), [leaf(2, [WIDTH])]),
        |x, [bias]| bias_dropout_add(x, bias, residual.clone(), None),
        |x, [bias]| x + bias.unsqueeze() + residual.clone(),
    );
}

/// `erf` in f64 by its series, for |x| up to 3.
fn erf(x: f64) -> f64 {
    let terms = (0..80).scan(x, |power, n| {
        let term = *power / f64::from(2 * n + 1);
        *power *= -x * x / f64::from(n + 1);
        Some(term)
    });
    terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn gelu_is_accurate_over_its_whole_range() {
    for vector in Vector::all() {
        let inputs: Vec<f32> = (-4200..=4200).map(|i| i as f32 * 1e-3).collect();
        let mut outputs = vec![0.0; inputs.len()];
        let bias = vec![0.0; inputs.len()];
        gelu_kernel::forward(vector, &inputs, &bias, Activation::Gelu, &mut outputs);
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let exact = f64::from(x) * 0.5 * (1.0 + erf(f64::from(x) / 2_f64.sqrt()));
            let error = (f64::from(y) - exact).abs();
            // 3e-7 of Φ, times x, and a rounding of the result.
            assert!(error <= 3e-7 * f64::from(x.abs()) + 1.2e-7 * exact.abs(), "{x}: {y}");
        }
        let (extremes, mut outputs) = ([-1e30, -50.0, 50.0, 1e30], [0.0; 4]);
        gelu_kernel::forward(vector, &extremes, &[0.0; 4], Activation::Gelu, &mut outputs);
        assert!(outputs[0].abs() < 1e-7 && outputs[1].abs() < 1e-7);
        assert_eq!(outputs[2..], [50.0, 1e30]);
    }
}

/// What an operation makes that is no number, and what came from elsewhere with bits of its own.
const NO_NUMBERS: [f32; 2] = [f32::NAN, f32::from_bits(0x7fc0_0001)];

#[test]
fn what_is_not_a_number_stays_so() {
    let levels = Vector::all();
    // In a whole vector, and in what is left after whole vectors.
    let places = NO_NUMBERS.iter().flat_map(|&number| [(number, 3), (number, WIDTH - 1)]);
    for (&vector, (no_number, at)) in
        levels.iter().flat_map(|v| places.clone().map(move |p| (v, p)))
    {
        let mut values = made_up(1, WIDTH);
        values[at] = no_number;
        let mut output = vec![0.0; WIDTH];
        let (ones, zeros) = (vec![1.0; WIDTH], vec![0.0; WIDTH]);
        norm_kernel::forward(vector, &values, &ones, &zeros, 1e-5, &mut output);
        assert!(output.iter().all(|x| x.is_nan()));

        for activation in [Activation::Gelu, Activation::GeluTanh] {
            gelu_kernel::forward(vector, &values, &zeros, activation, &mut output);
            let mut gradient = ones.clone();
            let sums = gelu_kernel::backward(vector, &values, &zeros, activation, &mut gradient);
            for found in [&output, &gradient, &*sums] {
                let lost = found.iter().enumerate().filter(|(_, x)| x.is_nan());
                assert!(lost.map(|(place, _)| place).eq([at]), "{activation:?}: {found:?}");
            }
        }

        let vocabulary = VocabularyRange { first: 0, rows: WIDTH, tokens: WIDTH };
        let targets = Targets::new(&[0], &[1.0]);
        let input = Head {
            hidden: &[1.0],
            table: &values,
            bias: None,
            width: 1,
            targets: &targets,
            vocabulary: &vocabulary,
        };
        let extras = HeadExtras {
            hidden_gradient: true,
            weight_gradient: true,
            bias_gradient: true,
            predictions: true,
        };
        let result = head(vector, input, &TensorParallelGroup::single(), extras);
        assert!(result.row_losses[0].is_nan());
        assert!(result.hidden_gradient.unwrap().iter().all(|x| x.is_nan()));
        assert!(result.table_gradient.unwrap().iter().all(|x| x.is_nan()));
        assert!(result.bias_gradient.unwrap().iter().all(|x| x.is_nan()));
    }
}
