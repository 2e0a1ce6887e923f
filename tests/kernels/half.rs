//! Kernels on tensors of 16 bits: what they return is what they would in `f32`, rounded once.

use burn::tensor::{bf16, f16};
use training::backend::{Activation, AttentionSettings, Precision, VisibleKeys};
use training::backend::{
    attention, bias_add, bias_dropout_add, bias_gelu, convert, dropout, layer_norm, linear,
};
use training::parallel::random::{DropoutKey, DropoutMask, DropoutSite};

use super::{BATCH, SEQ, T, WIDTH, leaf, made_up};
use crate::tensors::{constant, values};

const HALVES: [Precision; 2] = [Precision::Bf16, Precision::F16];

/// `value` rounded to `precision`, by the reference of the number formats themselves.
fn rounded(value: f32, precision: Precision) -> f32 {
    match precision {
        Precision::F32 => value,
        Precision::Bf16 => bf16::from_f32(value).to_f32(),
        Precision::F16 => f16::from_f32(value).to_f32(),
    }
}

fn widened<const D: usize>(tensor: T<D>) -> Vec<f32> {
    values(convert(tensor, Precision::F32))
}

#[test]
fn conversion_rounds_to_nearest_and_half_to_even_and_keeps_what_is_no_number() {
    let mut numbers = made_up(3, 70_000);
    // Halfway cases of both formats, the ends of their ranges, and numbers below their smallest.
    numbers.extend([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0]);
    numbers.extend([65_504.0, 65_519.0, 65_520.0, 1e38, 3.4e38, 6e-8, 2e-8, 1e-40, 0.0, -0.0]);
    numbers.extend([f32::INFINITY, f32::NEG_INFINITY]);
    let len = numbers.len();
    for precision in HALVES {
        let found = widened(convert(constant::<1>(&numbers, [len]), precision));
        for (found, &number) in found.iter().zip(&numbers) {
            let expected = rounded(number, precision);
            assert_eq!(found.to_bits(), expected.to_bits(), "{number} in {precision:?}");
        }
        let nan = widened(convert(constant::<1>(&[f32::NAN], [1]), precision));
        assert!(nan[0].is_nan());
    }
}

/// Checks `operation` of a tensor and two vectors of `f32`: on a tensor of 16 bits it returns what it
/// returns on the same numbers in `f32`, rounded, and the vectors' gradients are the same bits, which
/// sums of 16 bits would not give.
fn check<const D: usize>(shape: [usize; D], operation: impl Fn(T<D>, [T<1>; 2]) -> T<D>) {
    let width = shape[D - 1];
    let weights = made_up(9, shape.iter().product());
    // Few enough bits for both formats, so that no gradient is rounded on its way in.
    let weights: Vec<f32> = weights.iter().map(|&w| rounded(w, Precision::Bf16)).collect();
    for precision in HALVES {
        let run = |computed_in: Precision| {
            let vectors = [leaf(2, [width]), leaf(3, [width])];
            let input = convert(convert(leaf(1, shape), precision), computed_in);
            let output = operation(input, vectors.clone());
            assert_eq!(Precision::of(output.dtype()), computed_in);
            let output = convert(output, Precision::F32);
            let grads = (output.clone() * constant(&weights, shape)).sum().backward();
            (values(output), vectors.map(|vector| vector.grad(&grads).map(values)))
        };
        let (found, gradients) = run(precision);
        let (exact, exact_gradients) = run(Precision::F32);
        let expected: Vec<f32> = exact.iter().map(|&value| rounded(value, precision)).collect();
        assert!(found == expected, "{precision:?}");
        assert!(found != exact, "{precision:?}: something was rounded");
        assert!(gradients == exact_gradients, "{precision:?}: gradients of the vectors");
    }
}

fn mask(site: DropoutSite) -> DropoutMask {
    DropoutMask::new(&DropoutKey { seed: 1, step: 2, first_sample: 3 }, site, 0, 0.3)
}

#[test]
fn fused_operations_compute_in_f32_and_round_once() {
    let shape = [BATCH, SEQ, WIDTH];
    check(shape, |input, [gain, bias]| layer_norm(input, gain, bias, 1e-5));
    check(shape, |input, [bias, _]| bias_add(input, bias));
    for activation in [Activation::Gelu, Activation::GeluTanh] {
        check(shape, |input, [bias, _]| bias_gelu(input, bias, activation));
    }
    for mask in [None, Some(mask(DropoutSite::MlpOutput))] {
        check(shape, |input, [bias, _]| {
            // The same numbers in every format.
            let residual = convert(leaf(4, shape), Precision::Bf16);
            let residual = convert(residual, Precision::of(input.dtype()));
            bias_dropout_add(input, bias, residual, mask)
        });
    }
    check(shape, |input, _| dropout(input, Some(mask(DropoutSite::Embedding))));
}

#[test]
fn attention_computes_in_f32_and_rounds_once_each_way() {
    let (heads, head_size) = (3, 5);
    let weights = made_up(9, BATCH * SEQ * heads * head_size);
    let weights: Vec<f32> = weights.iter().map(|&w| rounded(w, Precision::Bf16)).collect();
    for mask in [None, Some(mask(DropoutSite::AttentionProbabilities))] {
        for visible in [VisibleKeys::Causal, VisibleKeys::Padded([SEQ, 7, 1].into())] {
            let settings = AttentionSettings { heads, scale: 0.5, visible, mask };
            for precision in HALVES {
                let shape = [BATCH, SEQ, 3 * heads * head_size];
                let input = widened(convert(leaf(1, shape), precision));
                let run = |computed_in: Precision| {
                    let input = constant(&input, shape);
                    let leaf = convert(input, computed_in).require_grad();
                    let context = attention(leaf.clone(), settings.clone());
                    assert_eq!(Precision::of(context.dtype()), computed_in);
                    let context = convert(context, Precision::F32);
                    let weights = constant(&weights, context.dims());
                    let grads = (context.clone() * weights).sum().backward();
                    [values(context), widened(T::from_inner(leaf.grad(&grads).unwrap()))]
                };
                let exact = run(Precision::F32);
                for (found, exact) in run(precision).iter().zip(&exact) {
                    let rounded: Vec<f32> =
                        exact.iter().map(|&value| rounded(value, precision)).collect();
                    assert!(*found == rounded && found != exact, "{precision:?}, {settings:?}");
                }
            }
        }
    }
}

/// `rows × columns` numbers of `lhs · rhs` in f64.
fn product(lhs: &[f32], rhs: &[f32], depth: usize, columns: usize) -> Vec<f64> {
    lhs.chunks_exact(depth)
        .flat_map(|row| {
            (0..columns).map(move |column| {
                let terms = row.iter().zip(rhs[column..].iter().step_by(columns));
                terms.map(|(&left, &right)| f64::from(left) * f64::from(right)).sum()
            })
        })
        .collect()
}

/// Long sums whose partial sums no 16 bits hold: all terms are positive, and 4,096 of them.
#[test]
fn products_of_16_bits_are_added_up_in_f32_and_rounded_once() {
    let (rows, depth, columns) = (3, 4_096, 5);
    let positive = |seed: u32, count: usize| -> Vec<f32> {
        made_up(seed, count).iter().map(|value| value.abs() + 0.1).collect()
    };
    for precision in HALVES {
        let round = |values: Vec<f32>| -> Vec<f32> {
            values.into_iter().map(|value| rounded(value, precision)).collect()
        };
        let left = round(positive(1, rows * depth));
        let weight = positive(2, depth * columns);
        let lhs: T<3> = convert(crate::tensors::leaf(&left, [1, rows, depth]), precision);
        let rhs: T<2> = crate::tensors::leaf(&weight, [depth, columns]);
        let output = linear(lhs, rhs.clone(), None);
        let exact = product(&left, &round(weight), depth, columns);
        let unit = if precision == Precision::F16 { 2_f64.powi(-11) } else { 2_f64.powi(-8) };
        for (found, exact) in widened(output.clone()).iter().zip(&exact) {
            let error = (f64::from(*found) - exact).abs() / exact;
            assert!(error < 1.01 * unit, "{precision:?}: off by {error:e}, a rounding is {unit:e}");
        }
        // The weight's gradient adds up over the rows and stays f32.
        let upstream = round(positive(3, rows * columns));
        let weighted = convert(output, Precision::F32) * constant(&upstream, [1, rows, columns]);
        let grads = weighted.sum().backward();
        let found = values(rhs.grad(&grads).unwrap());
        for (place, found) in found.iter().enumerate() {
            let (input, column) = (place / columns, place % columns);
            let terms = (0..rows).map(|row| {
                f64::from(left[row * depth + input]) * f64::from(upstream[row * columns + column])
            });
            let exact = terms.sum::<f64>();
            assert!((f64::from(*found) - exact).abs() < 1e-6 * exact, "{precision:?} at {place}");
        }
    }
}
