//! Schedule, clipping and AdamW on numbers worked out elsewhere.

use std::fs;
use std::path::Path;

use serde_json::Value;
use training::optim::{
    AdamWConfig, Decay, LrSchedule, Moments, Parameter, ScheduleRule, Update, clip_coefficient,
    grad_norm,
};
use training::parallel::TensorParallelGroup;
use training::parameters::{Init, ParameterSpec, Split};

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/training").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn check_schedule(goldens: &str, schedule: &LrSchedule) {
    for row in golden(goldens) {
        let step = row["t"].as_u64().unwrap();
        for (key, rule) in
            [("paper", ScheduleRule::Paper), ("megatron_v1", ScheduleRule::MegatronV1)]
        {
            let (expected, found) =
                (row[key].as_f64().unwrap(), LrSchedule { rule, ..schedule.clone() }.at(step));
            // Both sides are f64; a few rounding errors of the peak.
            assert!(
                (expected - found).abs() < 1e-18,
                "{goldens} {key} at {step}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn gpt2_schedule_equals_the_reference() {
    check_schedule(
        "lr_gpt2.json",
        &LrSchedule {
            peak: 1.5e-4,
            min: 1e-5,
            warmup_steps: 3_000,
            train_steps: 300_000,
            decay: Decay::Cosine,
            rule: ScheduleRule::Paper,
        },
    );
}

#[test]
fn original_rule_follows_the_original_where_the_warm_up_is_longer_than_half_the_run() {
    let schedule = |decay, warmup_steps| LrSchedule {
        peak: 1.0,
        min: 0.0,
        warmup_steps,
        train_steps: 10,
        decay,
        rule: ScheduleRule::MegatronV1,
    };
    // The counted step stops at 10 - 8 = 2; the warm-up lasts until step 8 all the same.
    let linear = schedule(Decay::Linear, 8);
    for (step, expected) in [(0, 0.0), (1, 0.125), (2, 0.25), (5, 0.25), (8, 0.25), (9, 1.6)] {
        assert!((linear.at(step) - expected).abs() < 1e-15, "step {step}: {}", linear.at(step));
    }
    let cosine = schedule(Decay::Cosine, 8).at(9);
    let expected = 0.5 * (1.0 + (-0.6 * std::f64::consts::PI).cos());
    assert!((cosine - expected).abs() < 1e-15, "{cosine}");
    assert_eq!(schedule(Decay::Cosine, 12).at(5), 0.0, "never negative");
}

#[test]
fn bert_schedule_equals_the_reference() {
    check_schedule(
        "lr_bert.json",
        &LrSchedule {
            peak: 1e-4,
            min: 0.0,
            warmup_steps: 10_000,
            train_steps: 2_000_000,
            decay: Decay::Linear,
            rule: ScheduleRule::Paper,
        },
    );
}

#[test]
fn first_update_uses_step_one_by_the_paper_and_step_zero_by_the_original() {
    let schedule = |rule| LrSchedule {
        peak: 1.0,
        min: 0.0,
        warmup_steps: 10,
        train_steps: 100,
        decay: Decay::Cosine,
        rule,
    };
    assert_eq!(schedule(ScheduleRule::Paper).for_update(1), 0.1);
    assert_eq!(schedule(ScheduleRule::MegatronV1).for_update(1), 0.0);
    assert_eq!(schedule(ScheduleRule::MegatronV1).for_update(2), 0.1);
}

#[test]
fn constant_schedule_stays_at_its_peak() {
    let schedule = LrSchedule {
        peak: 3e-3,
        min: 0.0,
        warmup_steps: 0,
        train_steps: 5,
        decay: Decay::Constant,
        rule: ScheduleRule::Paper,
    };
    assert!((1..=7).all(|step| schedule.for_update(step) == 3e-3));
}

#[test]
fn clipping_scales_down_and_never_up() {
    assert_eq!(clip_coefficient(0.5, 1.0), 1.0);
    assert_eq!(clip_coefficient(4.0, 1.0), 1.0 / 4.000_001);
    assert_eq!(clip_coefficient(0.0, 1.0), 1.0);
}

/// The norm of the gradient of one parameter.
fn norm(gradient: &[f32]) -> f64 {
    let split = ParameterSpec {
        path: "weight".to_owned(),
        name: "weight".to_owned(),
        shape: vec![gradient.len()],
        split: Split::Dim { dim: 0, blocks: 1 },
        init: Init::Zeros,
        weight_decay: true,
    };
    grad_norm([gradient].into_iter(), &[split], &TensorParallelGroup::single()).unwrap()
}

#[test]
fn norm_is_exact_where_a_sum_in_f32_would_lose_it() {
    // 2^24 ones: an f32 sum stops growing at 16,777,216 and one more block would vanish.
    let values = vec![1.0; (1 << 24) + 1_000];
    assert_eq!(norm(&values), (values.len() as f64).sqrt());
}

#[test]
fn norm_is_right_for_gradients_whose_squares_f32_cannot_hold() {
    let norm = norm(&[1e20; 4]);
    assert!((norm / 2e20 - 1.0).abs() < 1e-6, "{norm}");
}

fn adamw() -> AdamWConfig {
    AdamWConfig {
        lr: 0.1,
        min_lr: 0.0,
        weight_decay: 0.5,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        clip_grad: 1.0,
    }
}

#[test]
fn first_adamw_update_moves_by_the_learning_rate() {
    let mut weights = [1.0, -2.0, 0.25];
    let update = Update::new(&adamw(), 0.1, 1.0, 1);
    let (gradient, moments) = (&[0.3, -4.0, 1e-3], &mut Moments::zeros(3));
    update.apply(Parameter { weights: &mut weights, gradient, moments, decays: false });
    // m / (1 - β₁) = g and √v / √(1 - β₂) = |g|, so that each weight moves by the learning rate.
    for (weight, expected) in weights.into_iter().zip([0.9, -1.9, 0.15]) {
        assert!((weight - expected as f32).abs() < 2e-6, "{weight} is not {expected}");
    }
}

#[test]
fn weight_decay_is_decoupled_from_the_gradient() {
    let mut weights = [2.0];
    let update = Update::new(&adamw(), 0.1, 1.0, 1);
    let (gradient, moments) = (&[0.0], &mut Moments::zeros(1));
    update.apply(Parameter { weights: &mut weights, gradient, moments, decays: true });
    assert_eq!(weights, [2.0 * (1.0 - 0.1 * 0.5)]);
}

#[test]
fn adamw_follows_its_formula_in_f64_over_many_steps() {
    let config = adamw();
    let (mut weights, mut moments) = ([0.7_f32], Moments::zeros(1));
    let (mut weight, mut m, mut v) = (0.7_f64, 0.0, 0.0);
    for step in 1..=200 {
        let (lr, clip) = (0.01 / step as f64, 0.5);
        let gradient = (step as f64 * 0.37).sin() as f32;
        Update::new(&config, lr, clip, step).apply(Parameter {
            weights: &mut weights,
            gradient: &[gradient],
            moments: &mut moments,
            decays: true,
        });

        let g = f64::from(gradient) * clip;
        m = config.beta1 * m + (1.0 - config.beta1) * g;
        v = config.beta2 * v + (1.0 - config.beta2) * g * g;
        let m_hat = m / (1.0 - config.beta1.powi(step as i32));
        let v_hat = v / (1.0 - config.beta2.powi(step as i32));
        weight =
            weight * (1.0 - lr * config.weight_decay) - lr * m_hat / (v_hat.sqrt() + config.eps);
    }
    // 200 updates with f32 rounding of 6e-8 each.
    assert!((f64::from(weights[0]) - weight).abs() < 5e-6, "{} is not {weight}", weights[0]);
}

#[test]
fn parameters_updated_together_get_the_bits_of_numbers_updated_alone() {
    // Whole chunks and vectors, and rests of both.
    let lengths = [1, 45, 40_003];
    let number = |i: usize| (i as f32 * 0.731).sin();
    let mut weights = lengths.map(|len| (0..len).map(number).collect::<Vec<f32>>());
    let gradients = lengths.map(|len| (0..len).map(|i| number(i + 7)).collect::<Vec<f32>>());
    let mut moments = lengths.map(Moments::zeros);
    let before = weights.clone();
    let update = |step| Update::new(&adamw(), 0.1, 0.3, step);
    for step in 1..=2 {
        let slices = weights.iter_mut().zip(&gradients).zip(&mut moments);
        update(step).apply_all(slices.map(|((weights, gradient), moments)| {
            let decays = weights.len() != 45;
            Parameter { weights, gradient, moments, decays }
        }));
    }
    for ((before, weights), gradient) in before.iter().zip(&weights).zip(&gradients) {
        for (i, (&before, &found)) in before.iter().zip(weights).enumerate().step_by(97) {
            let (mut weight, mut moments) = ([before], Moments::zeros(1));
            let decays = weights.len() != 45;
            for step in 1..=2 {
                let (weights, gradient) = (&mut weight, &gradient[i..=i]);
                let moments = &mut moments;
                update(step).apply(Parameter { weights, gradient, moments, decays });
            }
            assert_eq!(weight, [found], "number {i} of {}", weights.len());
        }
    }
}
