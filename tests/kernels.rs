//! The fused operations against plain ones, and their vector code against the portable.

mod attention;
mod buffers;
mod half;
mod linear;
mod matrix;

use burn::tensor::Tensor;
use training::backend::cpu::bias_gelu as gelu_kernel;
use training::backend::cpu::head::{Head, head};
use training::backend::cpu::vector::Vector;
use training::backend::cpu::{dropout as dropout_kernel, layer_norm as norm_kernel};
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
        let mut outputs = inputs.clone();
        gelu_kernel::forward(vector, &mut outputs, &vec![0.0; inputs.len()], Activation::Gelu);
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let exact = f64::from(x) * 0.5 * (1.0 + erf(f64::from(x) / 2_f64.sqrt()));
            let error = (f64::from(y) - exact).abs();
            // 3e-7 of Φ, times x, and a rounding of the result.
            assert!(error <= 3e-7 * f64::from(x.abs()) + 1.2e-7 * exact.abs(), "{x}: {y}");
        }
        let mut extremes = [-1e30, -50.0, 50.0, 1e30, f32::NAN];
        gelu_kernel::forward(vector, &mut extremes, &[0.0; 5], Activation::Gelu);
        assert!(extremes[0].abs() < 1e-7 && extremes[1].abs() < 1e-7);
        assert_eq!(extremes[2..4], [50.0, 1e30]);
        assert!(extremes[4].is_nan());
    }
}

#[test]
fn vector_and_portable_kernels_agree() {
    for vector in Vector::all() {
        kernels_agree([vector, Vector::portable()]);
    }
}

fn kernels_agree(both: [Vector; 2]) {
    let rows = 3 * 64 + 5;
    let (input, gain, bias) = (made_up(1, rows * WIDTH), made_up(2, WIDTH), made_up(3, WIDTH));

    let [fast, slow] = both.map(|vector| {
        let mut output = vec![0.0; input.len()];
        norm_kernel::forward(vector, &input, &gain, &bias, 1e-5, &mut output);
        let mut gradient = made_up(4, input.len());
        let (dgain, dbias) = norm_kernel::backward(vector, &input, &gain, 1e-5, &mut gradient);
        [output, gradient, dgain, dbias]
    });
    assert_both("layer norm", &fast, &slow, 1e-5);

    for activation in [Activation::Gelu, Activation::GeluTanh] {
        let [fast, slow] = both.map(|vector| {
            let mut output = input.clone();
            gelu_kernel::forward(vector, &mut output, &bias, activation);
            let mut gradient = made_up(4, input.len());
            let dbias = gelu_kernel::backward(vector, &input, &bias, activation, &mut gradient);
            [output, gradient, dbias]
        });
        assert_both("gelu", &fast, &slow, 1e-5);
    }

    let mask = mask(DropoutSite::MlpOutput);
    let [fast, slow] = both.map(|vector| {
        let mut values = made_up(5, BATCH * SEQ * WIDTH);
        dropout_kernel::apply(vector, &mut values, SEQ * WIDTH, &mask);
        [values]
    });
    assert_both("dropout", &fast, &slow, 0.0);

    let tokens: Vec<u32> = (0..rows as u32).map(|i| i % 130).collect();
    let targets = Targets::new(&tokens, &made_up(8, rows));
    let vocabulary = VocabularyRange { first: 0, rows: 256, tokens: 130 };
    let table = made_up(9, 256 * WIDTH);
    let [fast, slow] = both.map(|vector| {
        let input = Head {
            hidden: &input,
            table: &table,
            width: WIDTH,
            targets: &targets,
            vocabulary: &vocabulary,
        };
        let extras = HeadExtras { hidden_gradient: true, weight_gradient: true, predictions: true };
        let result = head(vector, input, &TensorParallelGroup::single(), extras);
        let gradients = [result.hidden_gradient, result.table_gradient];
        let [hidden, table] = gradients.map(|gradient| gradient.unwrap().into_vec());
        [result.row_losses, hidden, table]
    });
    assert_both("head", &fast, &slow, 1e-5);
}

fn assert_both<const N: usize>(
    what: &str,
    fast: &[Vec<f32>; N],
    slow: &[Vec<f32>; N],
    tolerance: f32,
) {
    for (fast, slow) in fast.iter().zip(slow) {
        assert_near(fast, slow, tolerance, what);
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let with_nan = |len: usize, at: usize| {
        let mut values = made_up(1, len);
        values[at] = f32::NAN;
        values
    };
    for vector in Vector::all() {
        // In a whole vector, and in what is left after whole vectors.
        for at in [3, WIDTH - 1] {
            let mut output = vec![0.0; WIDTH];
            let (ones, zeros) = (vec![1.0; WIDTH], vec![0.0; WIDTH]);
            norm_kernel::forward(vector, &with_nan(WIDTH, at), &ones, &zeros, 1e-5, &mut output);
            assert!(output.iter().all(|x| x.is_nan()));

            let vocabulary = VocabularyRange { first: 0, rows: WIDTH, tokens: WIDTH };
            let targets = Targets::new(&[0], &[1.0]);
            let input = Head {
                hidden: &[1.0],
                table: &with_nan(WIDTH, at),
                width: 1,
                targets: &targets,
                vocabulary: &vocabulary,
            };
            let extras =
                HeadExtras { hidden_gradient: true, weight_gradient: true, predictions: true };
            let result = head(vector, input, &TensorParallelGroup::single(), extras);
            assert!(result.row_losses[0].is_nan());
        }
    }
}
