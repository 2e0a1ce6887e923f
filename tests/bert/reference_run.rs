//! Twenty steps of both arrangements against the same steps in PyTorch.

use std::fs;

use serde_json::Value;
use training::backend::{CpuAutodiff, Recompute};
use training::model::{Arrangement, Bert, ParameterSource, ParameterSpec};
use training::optim::{AdamW, AdamWConfig, Decay, LrSchedule, Moments, ScheduleRule};
use training::parallel::{ParallelDims, launch};
use training::state::{StepOutcome, StepSettings, TrainState};

use super::folder::{Tensors, file_prefix, initial_weights, opened};
use super::{ARRANGEMENTS, model, part, reference_batch, tiny};
use crate::micro_gpt2;
use crate::training::timers;

/// What twenty steps measured, and the parameters that they left, by rank and parameter.
struct Run {
    outcomes: Vec<StepOutcome>,
    weights: Vec<Vec<Vec<f32>>>,
}

fn train_20_steps(arrangement: Arrangement, dims: ParallelDims, recompute: Recompute) -> Run {
    let (config, initial) = (tiny(arrangement), initial_weights());
    let batches: Vec<_> = (0..4)
        .map(|i| reference_batch(&Tensors::read(&format!("batch{i}.safetensors")), ""))
        .collect();
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
        let (group, specs) = (&rank.tensor_parallel, config.parameters());
        let moments = Moments::start(&specs, group.rank(), group.size());
        let optimizer = AdamW::new(optimizer.clone(), &specs, moments, 0);
        let model = model(&config, &initial, &rank)?;
        let mut state =
            TrainState::<CpuAutodiff, Bert<CpuAutodiff>>::new(model, optimizer, specs, 0);
        let mut outcomes = Vec::new();
        for step in 0..20 {
            let batch = &batches[step % 4];
            let share = rank.data_parallel.share(batch.num_samples as u64);
            let own = part(batch, share.start as usize..share.end as usize);
            let learning_rate = schedule.for_update(state.step + 1);
            let settings = StepSettings { recompute, ..StepSettings::new(learning_rate, 1.0, 1) };
            let outcome;
            (state, outcome) = state.optimizer_step(
                [Ok(own)].into_iter(),
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

/// This rank's part against the reference. The key's bias is left out: its true gradient is zero,
/// and Adam makes steps of rounding noise.
fn compare(spec: &ParameterSpec, (rank, size): (usize, usize), weights: &[f32], whole: &[f32]) {
    for run in spec.local_runs(rank, size) {
        for offset in 0..run.len {
            let (local, logical) = (run.local_offset + offset, run.logical_offset + offset);
            if spec.name.ends_with("query_key_value.bias") && (32..64).contains(&logical) {
                continue;
            }
            let difference = (weights[local] - whole[logical]).abs();
            // A hundredth of one full step of 3e-3, after twenty.
            assert!(difference < 3e-5, "{} at {logical}: off by {difference}", spec.name);
        }
    }
}

#[test]
fn twenty_steps_of_both_arrangements_equal_pytorch_s() {
    let expected = fs::read_to_string(micro_gpt2::path("bert_tiny", "expect.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let (none, layer) = (Recompute::None, Recompute::Layer);
    for arrangement in ARRANGEMENTS {
        let prefix = file_prefix(arrangement);
        let finals = Tensors::read(&format!("{prefix}_final20.safetensors"));
        let finals = opened(&finals.with_prefix("final."), arrangement);
        let column = |key: &str| -> Vec<f64> {
            let values = expected[format!("arrangement_{prefix}")][key].as_array().unwrap();
            values.iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let (losses, norms) = (column("loss_curve"), column("grad_norms_before_clip"));
        for (tensor, data, recompute) in [(1, 1, none), (4, 1, layer), (2, 3, none)] {
            let run = train_20_steps(arrangement, ParallelDims { tensor, data }, recompute);
            assert_eq!(run.outcomes.len(), losses.len());
            for (step, outcome) in run.outcomes.iter().enumerate() {
                let (loss, norm) = (losses[step], norms[step]);
                assert!((outcome.loss - loss).abs() < 1e-5 * loss, "{step}: {outcome:?}, {loss}");
                assert_eq!(outcome.loss, outcome.losses.total());
                let off = (outcome.grad_norm - norm).abs();
                assert!(off < 1e-4 * norm, "{step}: {outcome:?}, not {norm}");
            }
            for (rank, weights) in run.weights.iter().enumerate() {
                for (spec, weights) in tiny(arrangement).parameters().iter().zip(weights) {
                    let whole = finals.local(spec, 0, 1).unwrap();
                    compare(spec, (rank % tensor, tensor), weights, &whole);
                }
            }
        }
    }
}
