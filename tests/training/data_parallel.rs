//! Copies of the model that share every global batch: the same run as one copy's, up to rounding.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use training::backend::{Activation, CpuAutodiff, Precision, Recompute};
use training::data::Batch;
use training::model::{Gpt2, Gpt2Config};
use training::objective::Objective;
use training::optim::{AdamW, AdamWConfig, GradientBuffer, Moments, grad_norm};
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, Rank, launch};
use training::parameters::{KeyedInit, Split};
use training::state::{StepSettings, TrainState};
use training::{TrainError, TrainReport};

use super::{
    Workbench, logged, logged_samples, micro, number, relative_difference, set_dropout, set_layout,
    steps, timers,
};

/// Samples of the global batch, and tokens of each.
const SAMPLES: usize = 4;
const SEQ_LENGTH: usize = 16;

/// What every step is done with.
const SETTINGS: StepSettings = StepSettings::new(1e-2, 1.0, 5);

/// Two layers, 32 wide, with dropout and a vocabulary that needs padding.
pub(super) fn config() -> Gpt2Config {
    Gpt2Config {
        num_layers: 2,
        hidden_size: 32,
        num_attention_heads: 4,
        seq_length: SEQ_LENGTH,
        vocab_size: 101,
        ffn_hidden_size: None,
        hidden_dropout: 0.1,
        attention_dropout: 0.1,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    }
}

pub(super) fn model(rank: &Rank) -> Result<Gpt2<CpuAutodiff>, TrainError> {
    Gpt2::init(&config(), &KeyedInit { seed: 5 }, &rank.tensor_parallel, &Default::default())
}

/// A model in training, before its first step.
fn state(rank: &Rank) -> Result<TrainState<CpuAutodiff, Gpt2<CpuAutodiff>>, TrainError> {
    let (specs, group) = (config().parameters(), &rank.tensor_parallel);
    let moments = Moments::start(&specs, group.rank(), group.size());
    let optimizer = AdamWConfig {
        lr: SETTINGS.learning_rate,
        min_lr: 0.0,
        weight_decay: 0.01,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        clip_grad: SETTINGS.clip_grad,
    };
    Ok(TrainState::new(model(rank)?, AdamW::new(optimizer, &specs, moments, 0), specs, 0))
}

/// This copy's share of a made-up global batch.
pub(super) fn batch(rank: &Rank) -> Batch {
    let share = rank.data_parallel.share(SAMPLES as u64);
    let (first, end) = (share.start as usize, share.end as usize);
    let width = SEQ_LENGTH + 1;
    let tokens: Vec<u32> = (0..SAMPLES * width).map(|place| (place * 7919 % 101) as u32).collect();
    let tokens = &tokens[first * width..end * width];
    Batch::of_samples(tokens, SEQ_LENGTH, first, SAMPLES * SEQ_LENGTH)
}

/// The gradients of the global batch on every rank, by parameter, and their norm.
fn gradients(dims: ParallelDims) -> Vec<(Vec<Vec<f32>>, f64)> {
    launch(dims, |rank| {
        let (model, specs, batch) = (model(&rank)?, config().parameters(), batch(&rank));
        let first_sample = batch.first_sample as u64;
        let dropout = DropoutKey { seed: 5, step: 1, first_sample };
        let group = &rank.tensor_parallel;
        let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
        let sizes = shapes.map(|shape| shape.iter().product());
        let mut gradients = GradientBuffer::new(&specs, sizes);
        let [loss] =
            Objective::<CpuAutodiff>::losses(&model, &batch, Some(&dropout)).try_into().unwrap();
        gradients.backward(&model, loss);
        gradients.all_reduce(&rank.data_parallel)?;
        let norm = grad_norm(gradients.parameters(), &specs, group)?;
        Ok((gradients.parameters().map(<[f32]>::to_vec).collect(), norm))
    })
    .unwrap()
}

#[test]
fn every_layout_has_the_same_gradients() {
    let (whole, whole_norm) = gradients(ParallelDims::one_replica(1)).swap_remove(0);
    let hidden = config().hidden_size;
    for (tensor, data) in [(1, 2), (1, 4), (2, 1), (2, 2), (4, 2)] {
        for (rank, (found, norm)) in gradients(ParallelDims { tensor, data }).iter().enumerate() {
            assert!((norm / whole_norm - 1.0).abs() < 1e-6, "{norm}, not {whole_norm}");
            for ((spec, whole), found) in config().parameters().iter().zip(&whole).zip(found) {
                // What pads the vocabulary is no part of the parameter.
                let whole = &whole[..spec.num_elements()];
                let largest = whole.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
                for run in spec.local_runs(rank % tensor, tensor) {
                    for offset in 0..run.len {
                        let place = run.logical_offset + offset;
                        // The key's bias has no gradient but rounding noise.
                        let is_key = (hidden..2 * hidden).contains(&place);
                        if spec.name.ends_with("c_attn.bias") && is_key {
                            continue;
                        }
                        let difference = (found[run.local_offset + offset] - whole[place]).abs();
                        assert!(
                            difference <= 1e-5 * largest,
                            "{} at {place}, rank {rank} of {tensor} x {data}: off by {difference:e}",
                            spec.name
                        );
                    }
                }
            }
        }
    }
}

/// Weights after updates in 16 bits, with layers that run again: what is replicated has to be the
/// same bits on all ranks that share a copy, or they come apart slowly.
#[test]
fn replicated_weights_stay_the_same_bits_within_a_copy() {
    for (precision, recompute) in
        [(Precision::F32, Recompute::None), (Precision::F16, Recompute::Layer)]
    {
        let weights = launch(ParallelDims { tensor: 4, data: 2 }, |rank| {
            let mut state = state(&rank)?;
            state.model = state.model.with_precision(precision);
            let settings = StepSettings { recompute, ..SETTINGS };
            for _ in 0..4 {
                let batches = [Ok(batch(&rank))].into_iter();
                let mut timers = timers(&rank);
                (state, _) = state.optimizer_step(batches, &settings, &rank, &mut timers)?;
            }
            state.weights()
        })
        .unwrap();
        for (index, spec) in config().parameters().iter().enumerate() {
            if spec.split == Split::Replicated {
                let first = &weights[0][index];
                assert!(weights.iter().all(|rank| rank[index] == *first), "{}", spec.path);
            }
        }
    }
}

#[test]
fn copies_of_the_model_stay_the_same_bits() {
    let dims = ParallelDims { tensor: 2, data: 3 };
    let weights = launch(dims, |rank| {
        let mut state = state(&rank)?;
        for _ in 0..5 {
            let batches = [Ok(batch(&rank))].into_iter();
            (state, _) = state.optimizer_step(batches, &SETTINGS, &rank, &mut timers(&rank))?;
        }
        let bits = |weights: Vec<f32>| weights.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        Ok(state.weights()?.into_iter().map(bits).collect::<Vec<_>>())
    })
    .unwrap();
    for (rank, weights_of_rank) in weights.iter().enumerate() {
        assert!(*weights_of_rank == weights[rank % dims.tensor], "rank {rank}");
    }
    assert!(weights[0] != weights[1], "and the parts of one copy differ");
}

/// A run of `train_steps` steps with dropout in micro-batches of `micro_batch_size`.
fn run(
    workbench: &Workbench,
    train_steps: u64,
    micro_batch_size: usize,
    layout: (usize, usize),
) -> (TrainReport, PathBuf) {
    workbench.train(micro(|config| {
        config.schedule.train_steps = Some(steps(train_steps));
        config.batch.micro_batch_size = number(micro_batch_size);
        set_layout(config, layout);
        set_dropout(config, 0.1);
    }))
}

#[test]
fn copies_of_the_model_train_as_one_in_any_micro_batches() {
    let workbench = Workbench::new(101);
    let (_, whole) = run(&workbench, 10, 4, (1, 1));
    // Copies alone, accumulation alone, and both: two copies with two micro-batches each.
    for (micro_batch_size, data) in [(2, 2), (1, 4), (1, 1), (1, 2)] {
        let (report, run) = run(&workbench, 10, micro_batch_size, (1, data));
        // The same sum in another order, over ten steps.
        let difference = relative_difference(&logged(&run, "loss"), &logged(&whole, "loss"));
        assert!(difference < 1e-6, "{micro_batch_size} and {data}: {difference:e}");
        assert_eq!(logged_samples(&run), logged_samples(&whole));
        assert_eq!(logged(&run, "tokens"), logged(&whole, "tokens"), "those of all copies");
        assert_eq!((report.tensor_parallel_size, report.data_parallel_size), (1, data));
    }
}

#[test]
fn grid_of_ranks_trains_as_one_rank() {
    let workbench = Workbench::new(101);
    let (_, whole) = run(&workbench, 20, 2, (1, 1));
    for layout in [(2, 2), (4, 2)] {
        let (_, run) = run(&workbench, 20, 2, layout);
        for (key, tolerance) in [("loss", 1e-5), ("grad_norm", 1e-4)] {
            // Sums over ranks round differently: f32, 20 steps of Adam.
            let difference = relative_difference(&logged(&run, key), &logged(&whole, key));
            assert!(difference < tolerance, "{key} of {layout:?}: {difference:e}");
        }
    }
}

#[test]
fn loss_that_is_no_number_on_one_copy_skips_the_step_on_all() {
    let are_skipped = launch(ParallelDims { tensor: 2, data: 2 }, |rank| {
        let state = state(&rank)?;
        let before = state.weights()?;
        let mut batch = batch(&rank);
        if rank.data_parallel.rank() == 1 {
            batch.loss_weights.fill(f32::NAN);
        }
        let (state, outcome) =
            state.optimizer_step([Ok(batch)].into_iter(), &SETTINGS, &rank, &mut timers(&rank))?;
        Ok(outcome.skipped && state.updates() == 0 && state.weights()? == before)
    });
    assert_eq!(are_skipped.unwrap(), [true; 4]);
}

#[test]
fn rank_that_cannot_read_its_batch_ends_the_grid_at_once() {
    let started = Instant::now();
    let result = launch(ParallelDims { tensor: 2, data: 2 }, |rank| {
        let state = state(&rank)?;
        // The others have done their passes and wait for this rank's gradients.
        let failure = || Err(TrainError::CorpusTooSmall { tokens: 0, needed_tokens: 17 });
        let then = (rank.index() == 3).then(failure);
        let batches = [Ok(batch(&rank))].into_iter().chain(then);
        state.optimizer_step(batches, &SETTINGS, &rank, &mut timers(&rank)).map(|_| ())
    });
    let message = result.unwrap_err().to_string();
    assert!(
        message.starts_with("rank 3 (tensor 1 of 2, data 1 of 2): corpus has 0 tokens"),
        "{message}"
    );
    // Far below the ten minutes for which ranks wait for each other.
    assert!(started.elapsed() < Duration::from_secs(60), "the others were not woken");
}

#[test]
fn only_the_first_copy_writes() {
    let workbench = Workbench::new(101);
    let (report, run) = run(&workbench, 3, 1, (2, 2));
    assert_eq!(logged(&run, "loss").len(), 3, "one line a step");
    let names: Vec<_> = fs::read_dir(run.join("checkpoints")).unwrap().collect();
    assert_eq!(names.len(), 2, "step-3 and latest");
    assert!(report.checkpoint.ends_with("checkpoints/step-3"));
}

#[test]
fn samples_that_are_logged_are_those_that_the_copies_take() {
    for (micro_batch_size, copies) in [(4, 1), (2, 2), (1, 2), (1, 4)] {
        let plan = Workbench::new(101)
            .validate(micro(|config| {
                config.batch.micro_batch_size = number(micro_batch_size);
                set_layout(config, (1, copies));
            }))
            .unwrap();
        // By copy and step, the tokens of its samples.
        let taken = launch(plan.parallel, |rank| {
            let tokens_of = |step| {
                let mut tokens = Vec::new();
                for batch in plan.micro_batches(step, &rank.data_parallel) {
                    let batch = batch?;
                    let inputs = batch.tokens.chunks_exact(batch.seq_length);
                    for (inputs, targets) in
                        inputs.zip(batch.targets.chunks_exact(batch.seq_length))
                    {
                        assert_eq!(inputs[1..], targets[..batch.seq_length - 1]);
                        tokens.push(inputs[0]);
                        tokens.extend_from_slice(targets);
                    }
                }
                Ok(tokens)
            };
            (1..=10).map(tokens_of).collect::<Result<Vec<_>, TrainError>>()
        })
        .unwrap();
        for (place, step) in (1..=10).enumerate() {
            let taken: Vec<u32> = taken.iter().flat_map(|copy| copy[place].clone()).collect();
            let mut logged = Vec::new();
            for sample in plan.sample_ids(step) {
                plan.train.samples.samples().read(sample, &mut logged).unwrap();
            }
            assert_eq!(taken, logged, "{copies} copies, step {step}");
        }
    }
}
