//! Twenty steps of a small GPT-2 against the same steps in PyTorch.

use std::fs;

use serde_json::Value;
use training::backend::{Activation, CpuAutodiff, Recompute};
use training::data::Batch;
use training::model::{Gpt2, Gpt2Config};
use training::optim::{AdamW, AdamWConfig, Decay, LrSchedule, Moments, ScheduleRule};
use training::parallel::{ParallelDims, launch};
use training::parameters::ParameterSpec;
use training::state::{StepOutcome, StepSettings, TrainState};

use super::timers;
use crate::micro_gpt2::{self, Tensors};

/// What twenty steps measured, and the parameters that they left, by rank and parameter.
struct Run {
    outcomes: Vec<StepOutcome>,
    weights: Vec<Vec<Vec<f32>>>,
}

/// The generator's settings: AdamW at 3e-3 after five steps of warm-up, clipping at 1.
fn train_20_steps(
    model: &str,
    config: &Gpt2Config,
    dims: ParallelDims,
    recompute: Recompute,
) -> Run {
    let initial = Tensors::read(model, "model.safetensors");
    let batches = Tensors::read(model, "train20.safetensors").tokens("in.batches");
    let (samples, seq_length) = (2, 24);
    let optimizer = AdamWConfig {
        lr: 3e-3,
        min_lr: 0.0,
        weight_decay: 0.01,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        clip_grad: 1.0,
    };
    let schedule = LrSchedule {
        peak: optimizer.lr,
        min: optimizer.min_lr,
        warmup_steps: 5,
        train_steps: 20,
        decay: Decay::Constant,
        rule: ScheduleRule::Paper,
    };
    let ranks = launch(dims, |rank| {
        let group = &rank.tensor_parallel;
        let specs = config.parameters();
        let moments = Moments::start(&specs, group.rank(), group.size());
        let optimizer = AdamW::new(optimizer.clone(), &specs, moments, 0);
        let model = Gpt2::<CpuAutodiff>::init(config, &initial, group, &Default::default())?;
        let mut state = TrainState::new(model, optimizer, specs, 0);
        let mut outcomes = Vec::new();
        for tokens in batches.chunks_exact(samples * (seq_length + 1)) {
            // Each copy takes its share of the two samples.
            let share = rank.data_parallel.share(samples as u64);
            let (first, end) = (share.start as usize, share.end as usize);
            let tokens = &tokens[first * (seq_length + 1)..end * (seq_length + 1)];
            let batch = Batch::of_samples(tokens, seq_length, first, samples * seq_length);
            let learning_rate = schedule.for_update(state.step + 1);
            let settings = StepSettings { recompute, ..StepSettings::new(learning_rate, 1.0, 1) };
            let outcome;
            (state, outcome) = state.optimizer_step(
                [Ok(batch)].into_iter(),
                &settings,
                &rank,
                &mut timers(&rank),
            )?;
            outcomes.push(outcome);
        }
        Ok((outcomes, state.weights()?))
    })
    .unwrap();
    let outcomes = ranks[0].0.clone();
    Run { outcomes, weights: ranks.into_iter().map(|(_, weights)| weights).collect() }
}

/// Curve, norms and final weights of `model` in each layout.
fn check(model: &str, activation: Activation) {
    let config = micro_gpt2::config(activation);
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(micro_gpt2::path(model, "expect.json")).unwrap())
            .unwrap();
    let finals = Tensors::read(model, "train20.safetensors");
    let column = |key: &str| -> Vec<f64> {
        expected[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let (losses, norms) = (column("loss_curve"), column("grad_norms_before_clip"));
    let (none, layer) = (Recompute::None, Recompute::Layer);
    for (tensor, data, recompute) in [(1, 1, none), (2, 1, none), (1, 2, layer), (2, 2, layer)] {
        let run = train_20_steps(model, &config, ParallelDims { tensor, data }, recompute);
        for (step, outcome) in run.outcomes.iter().enumerate() {
            // The reference itself drifts from its own f64 run by 1e-6.
            let (loss, norm) = (losses[step], norms[step]);
            assert!(
                (outcome.loss - loss).abs() < 1e-5 * loss,
                "step {step}: {outcome:?}, not {loss}"
            );
            assert!(
                (outcome.grad_norm - norm).abs() < 1e-4 * norm,
                "step {step}: {outcome:?}, not {norm}"
            );
        }
        for (rank, weights) in run.weights.iter().enumerate() {
            for (spec, weights) in config.parameters().iter().zip(weights) {
                let reference = finals.floats(&format!("final.{}", spec.name));
                compare(spec, rank % tensor, tensor, weights, reference);
            }
        }
    }
}

/// This rank's part against the reference. The key's bias is left out: its true gradient is zero,
/// and Adam makes steps of rounding noise.
fn compare(spec: &ParameterSpec, rank: usize, size: usize, weights: &[f32], reference: &[f32]) {
    let hidden = 32;
    for run in spec.local_runs(rank, size) {
        for offset in 0..run.len {
            let (local, logical) = (run.local_offset + offset, run.logical_offset + offset);
            if spec.name.ends_with("c_attn.bias") && (hidden..2 * hidden).contains(&logical) {
                continue;
            }
            let difference = (weights[local] - reference[logical]).abs();
            // A hundredth of one full step of 3e-3, after twenty.
            assert!(difference < 3e-5, "{} at {logical}: off by {difference}", spec.name);
        }
    }
}

#[test]
fn twenty_steps_with_exact_gelu_equal_pytorch_s() {
    check("gpt2_micro", Activation::Gelu);
}

#[test]
fn twenty_steps_with_tanh_gelu_equal_pytorch_s() {
    check("gpt2_micro_gelu_new", Activation::GeluTanh);
}
