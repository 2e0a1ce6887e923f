//! The kernels on each level of vector instructions: all against the portable code, AVX-512 against
//! AVX2 to the bit, and those that fuse nothing against a plain loop, to the bit as well.

use training::backend::cpu::column_sums::column_sums;
use training::backend::cpu::head::{Head, head};
use training::backend::cpu::vector::Vector;
use training::backend::cpu::{add, bias_add, bias_gelu, dropout, layer_norm, scale};
use training::backend::{Activation, HeadExtras};
use training::optim::clip::grad_norm_on;
use training::optim::{AdamWConfig, Moments, Parameter, Update};
use training::parallel::random::DropoutSite;
use training::parallel::{Targets, TensorParallelGroup, VocabularyRange};
use training::parameters::{Init, ParameterSpec, Split};

use super::{BATCH, SEQ, WIDTH, assert_near, made_up, mask, mask_values};

/// Blocks of 64 rows, the last of which is not whole.
const ROWS: usize = 3 * 64 + 5;
/// More than two tasks of the kernels that take all numbers alike, and no whole vectors.
const NUMBERS: usize = (2 << 16) + 77;

/// Named results of a kernel.
type Results = Vec<(&'static str, Vec<f32>)>;

/// Runs kernels on each level: they agree with the portable code within `tolerance`, and AVX-512
/// gives the bits of AVX2.
pub(super) fn assert_levels_agree(tolerance: f32, run: impl Fn(Vector) -> Results) {
    let levels: Vec<Results> = Vector::all().into_iter().map(run).collect();
    for level in &levels {
        for ((what, found), (_, portable)) in level.iter().zip(&levels[0]) {
            assert_near(found, portable, tolerance, what);
        }
    }
    // From the portable code to the best: the processor has AVX-512 if there are three.
    if let [_, avx2, avx512] = &levels[..] {
        for ((what, avx2), (_, avx512)) in avx2.iter().zip(avx512) {
            assert_same_bits(avx512, avx2, what);
        }
    }
}

fn assert_same_bits(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differing = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
    assert_eq!(differing, None, "{what}: the first number of other bits");
}

/// Checks each level's results against plain ones, to the bit.
fn assert_levels_equal(expected: &Results, run: impl Fn(Vector) -> Results) {
    for vector in Vector::all() {
        for ((what, found), (_, expected)) in run(vector).iter().zip(expected) {
            assert_same_bits(found, expected, &format!("{what}, {}", vector.name()));
        }
    }
}

#[test]
fn vector_and_portable_kernels_agree() {
    assert_levels_agree(1e-5, |vector| {
        [norm(vector), gelu(vector, Activation::Gelu), gelu(vector, Activation::GeluTanh)]
            .into_iter()
            .chain([head_of(vector)])
            .flatten()
            .collect()
    });
}

fn norm(vector: Vector) -> Results {
    let (input, gain, bias) = (made_up(1, ROWS * WIDTH), made_up(2, WIDTH), made_up(3, WIDTH));
    let mut output = vec![0.0; input.len()];
    layer_norm::forward(vector, &input, &gain, &bias, 1e-5, &mut output);
    let mut gradient = made_up(4, input.len());
    let [dgain, dbias] = layer_norm::backward(vector, &input, &gain, 1e-5, &mut gradient);
    vec![
        ("layer norm", output),
        ("layer norm, input", gradient),
        ("layer norm, gain", dgain.into_vec()),
        ("layer norm, bias", dbias.into_vec()),
    ]
}

fn gelu(vector: Vector, activation: Activation) -> Results {
    let (input, bias) = (made_up(1, ROWS * WIDTH), made_up(3, WIDTH));
    let mut output = vec![0.0; input.len()];
    bias_gelu::forward(vector, &input, &bias, activation, &mut output);
    let mut gradient = made_up(4, input.len());
    let dbias = bias_gelu::backward(vector, &input, &bias, activation, &mut gradient);
    vec![("GELU", output), ("GELU, input", gradient), ("GELU, bias", dbias.into_vec())]
}

fn head_of(vector: Vector) -> Results {
    let tokens: Vec<u32> = (0..ROWS as u32).map(|i| i % 130).collect();
    let targets = Targets::new(&tokens, &made_up(8, ROWS));
    let vocabulary = VocabularyRange { first: 0, rows: 256, tokens: 130 };
    let input = Head {
        hidden: &made_up(1, ROWS * WIDTH),
        table: &made_up(9, 256 * WIDTH),
        bias: Some(&made_up(3, 256)),
        width: WIDTH,
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
    vec![
        ("head", result.row_losses),
        ("head, hidden states", result.hidden_gradient.unwrap().into_vec()),
        ("head, table", result.table_gradient.unwrap().into_vec()),
        ("head, bias", result.bias_gradient.unwrap().into_vec()),
    ]
}

#[test]
fn kernels_that_fuse_nothing_equal_plain_loops() {
    let (values, addends) = (made_up(1, NUMBERS), made_up(2, NUMBERS));
    let sums = values.iter().zip(&addends).map(|(a, b)| a + b).collect();
    let scaled = values.iter().map(|a| a * 0.3).collect();
    assert_levels_equal(&vec![("add", sums), ("scale", scaled)], |vector| {
        let [mut sums, mut scaled] = [values.clone(), values.clone()];
        add::add(vector, &mut sums, &addends);
        scale::scale(vector, &mut scaled, 0.3);
        vec![("add", sums), ("scale", scaled)]
    });
}

#[test]
fn kernels_of_rows_equal_plain_loops() {
    let (values, bias) = (made_up(1, ROWS * WIDTH), made_up(2, WIDTH));
    let biased = values.iter().zip(bias.iter().cycle()).map(|(x, bias)| x + bias).collect();
    let sums = plain_column_sums(&values);
    assert_levels_equal(&vec![("bias add", biased), ("column sums", sums)], |vector| {
        let mut biased = values.clone();
        bias_add::forward(vector, &mut biased, &bias);
        let sums = column_sums(vector, &values, WIDTH).into_vec();
        vec![("bias add", biased), ("column sums", sums)]
    });
}

/// Sums over blocks of 64 rows, and over those.
fn plain_column_sums(values: &[f32]) -> Vec<f32> {
    let mut total = vec![0.0; WIDTH];
    for block in values.chunks(64 * WIDTH) {
        for (column, total) in total.iter_mut().enumerate() {
            let mut sum = 0.0;
            for row in block.chunks(WIDTH) {
                sum += row[column];
            }
            *total += sum;
        }
    }
    total
}

#[test]
fn dropout_equals_a_plain_loop() {
    let mask = mask(DropoutSite::MlpOutput);
    let len = BATCH * SEQ * WIDTH;
    let factors = mask_values(&mask, BATCH, 1, SEQ * WIDTH);
    let (values, residual, bias) = (made_up(5, len), made_up(6, len), made_up(7, WIDTH));
    let place = |i: usize| (values[i] + bias[i % WIDTH], residual[i]);
    let masked = |values: &[f32]| values.iter().zip(&factors).map(|(x, m)| x * m).collect();
    let with_mask = (0..len).map(|i| place(i).0 * factors[i] + place(i).1).collect();
    let without = (0..len).map(|i| place(i).0 + place(i).1).collect();
    let gradient: Vec<f32> = masked(&values);
    let bias_gradient = plain_column_sums(&gradient);
    let expected = vec![
        ("dropout", masked(&values)),
        ("bias, dropout, add", with_mask),
        ("bias, add", without),
        ("bias, dropout, add, input", gradient),
        ("bias, dropout, add, bias", bias_gradient),
    ];
    assert_levels_equal(&expected, |vector| {
        let [mut dropped, mut with_mask, mut without, mut gradient] =
            [0; 4].map(|_| values.clone());
        dropout::apply(vector, &mut dropped, SEQ * WIDTH, &mask);
        dropout::bias_dropout_add(vector, &mut with_mask, &bias, &residual, SEQ, Some(&mask));
        dropout::bias_dropout_add(vector, &mut without, &bias, &residual, SEQ, None);
        let sums =
            dropout::bias_dropout_add_backward(vector, &mut gradient, WIDTH, SEQ, Some(&mask));
        vec![
            ("dropout", dropped),
            ("bias, dropout, add", with_mask),
            ("bias, add", without),
            ("bias, dropout, add, input", gradient),
            ("bias, dropout, add, bias", sums.into_vec()),
        ]
    });
}

#[test]
fn gradient_norm_equals_a_plain_sum_and_has_one_value() {
    let spec = |len: usize, split| ParameterSpec {
        path: "weight".to_owned(),
        name: "weight".to_owned(),
        shape: vec![len],
        split,
        init: Init::Zeros,
        weight_decay: true,
    };
    let gradients = [made_up(1, NUMBERS), made_up(2, 45)];
    let specs = [spec(NUMBERS, Split::Dim { dim: 0, blocks: 1 }), spec(45, Split::Replicated)];
    let plain: f64 = gradients.iter().flatten().map(|&x| f64::from(x) * f64::from(x)).sum();
    let norms = Vector::all().into_iter().map(|vector| {
        let slices = gradients.iter().map(Vec::as_slice);
        grad_norm_on(vector, slices, &specs, &TensorParallelGroup::single()).unwrap()
    });
    let norms: Vec<f64> = norms.collect();
    assert!(norms.iter().all(|norm| norm.to_bits() == norms[0].to_bits()), "{norms:?}");
    // f64 in another order: 130,000 additions.
    assert!((norms[0] / plain.sqrt() - 1.0).abs() < 1e-13, "{norms:?}, not {}", plain.sqrt());
}

#[test]
fn adamw_equals_a_plain_loop() {
    let config = AdamWConfig {
        lr: 0.1,
        min_lr: 0.0,
        weight_decay: 0.5,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        clip_grad: 1.0,
    };
    let (before, gradient) = (made_up(1, NUMBERS), made_up(2, NUMBERS));
    let (mut weights, mut m, mut v) =
        (before.clone(), vec![0.0_f32; NUMBERS], vec![0.0_f32; NUMBERS]);
    for step in 1..=2 {
        let [correction1, correction2] =
            [config.beta1, config.beta2].map(|beta: f64| 1.0 - beta.powf(f64::from(step)));
        let (step_size, scale) = (0.1 / correction1, 1.0 / correction2.sqrt());
        let [rate1, rate2] = [config.beta1, config.beta2].map(|beta| (1.0 - beta) as f32);
        for i in 0..NUMBERS {
            let g = gradient[i] * 0.3;
            m[i] += (g - m[i]) * rate1;
            v[i] = v[i] * config.beta2 as f32 + g * g * rate2;
            let denominator = v[i].sqrt() * scale as f32 + config.eps as f32;
            let kept = weights[i] * (1.0 - 0.1 * config.weight_decay) as f32;
            weights[i] = kept - step_size as f32 * (m[i] / denominator);
        }
    }
    assert_levels_equal(&vec![("weights", weights), ("mean", m), ("square", v)], |vector| {
        let (mut weights, mut moments) = (before.clone(), Moments::zeros(NUMBERS));
        for step in 1..=2 {
            let (weights, moments) = (&mut weights[..], &mut moments);
            let parameter = Parameter { weights, gradient: &gradient, moments, decays: true };
            Update::new(&config, 0.1, 0.3, step).apply_all_on(vector, [parameter]);
        }
        vec![("weights", weights), ("mean", moments.exp_avg), ("square", moments.exp_avg_sq)]
    });
}
