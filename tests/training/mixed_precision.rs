//! Training in `bf16` and `f16`: how near it stays to `f32`, what an overflow does, and what ends a
//! run.

use std::fs;
use std::path::Path;

use serde_json::Value;
use training::backend::{CpuAutodiff, Precision};
use training::checkpoint::Checkpoint;
use training::config::TrainConfig;
use training::optim::{AdamW, DynamicLossScaler, LossScaleConfig, Moments};
use training::parallel::{ParallelDims, launch};
use training::state::{Injected, StepSettings, TrainState};
use training::train;
use training::{Fault, TrainError};

use corpus::Silent;

use super::data_parallel::{batch, config as model_config, model};
use super::{
    StopAfter, Workbench, logged, logged_samples, micro, number, relative_difference, set_dropout,
    set_layout, steps, timers,
};

/// A run of 12 steps in `precision`, with dropout and two micro-batches per step.
fn config(precision: Precision) -> TrainConfig {
    micro(|config| {
        config.precision = precision;
        config.batch.micro_batch_size = number(2);
        config.schedule.train_steps = Some(steps(12));
        config.checkpoint.interval_steps = Some(steps(4));
        set_dropout(config, 0.1);
        if precision == Precision::F16 {
            // Rises and falls within a dozen steps.
            let scale = LossScaleConfig {
                initial: 65_536.0,
                window: steps(3),
                ..LossScaleConfig::default()
            };
            config.loss_scale = Some(scale);
        }
    })
}

/// Trains into `out` until `stop` steps are done in this call, with faults on purpose.
fn run(workbench: &Workbench, out: &Path, config: TrainConfig, stop: u64, faults: &[&str]) {
    let mut options = workbench.options(out);
    options.faults =
        faults.iter().map(|fault| fault.parse::<Fault>().unwrap()).collect::<Vec<_>>().into();
    train(&config.validate(options).unwrap(), &StopAfter::new(stop)).unwrap();
}

/// The whole lines of the steps in a run's metrics.
fn lines(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn losses_stay_near_those_of_f32_and_are_not_the_same() {
    let workbench = Workbench::new(101);
    for layout in [(1, 1), (2, 2)] {
        let losses = |precision, train_steps| {
            let mut config = config(precision);
            config.schedule.train_steps = Some(steps(train_steps));
            config.optimizer.lr = 1e-2;
            // A scale that rises into an overflow every few steps would skip those.
            config.loss_scale = config
                .loss_scale
                .map(|_| LossScaleConfig { initial: 65_536.0, ..LossScaleConfig::default() });
            config.batch.global_batch_size = number(4);
            set_layout(&mut config, layout);
            workbench.losses(config)
        };
        let exact = losses(Precision::F32, 40);
        assert!(exact[39] < 0.9 * exact[0], "it learns: {exact:?}");
        // 8 bits and 11 bits of precision; the curves come apart as they go on.
        for (precision, tolerance) in [(Precision::Bf16, 5e-2), (Precision::F16, 1e-2)] {
            let rounded = losses(precision, 40);
            let difference = relative_difference(&rounded, &exact);
            assert!(difference < tolerance, "{precision:?} {layout:?}: {difference:e}");
            assert!(difference > 1e-7, "{precision:?} {layout:?}: nothing was rounded");
        }
    }
}

#[test]
fn checkpoint_holds_parameters_that_no_half_precision_has() {
    let workbench = Workbench::new(101);
    let (report, _) = workbench.train(config(Precision::Bf16));
    let bytes = fs::read(report.checkpoint.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let weight = tensors.tensor("transformer.h.0.mlp.c_fc.weight").unwrap();
    assert_eq!(weight.dtype(), safetensors::Dtype::F32);
    let finer = weight.data().chunks_exact(4).filter(|bytes| bytes[0] != 0 || bytes[1] != 0);
    assert!(finer.count() > weight.data().len() / 8, "most weights have more than 8 bits");
}

#[test]
fn overflow_on_one_rank_leaves_every_rank_as_it_was() {
    for (tensor, data) in [(1, 1), (2, 1), (2, 2)] {
        let all_as_before = launch(ParallelDims { tensor, data }, |rank| {
            let (specs, group) = (model_config().parameters(), &rank.tensor_parallel);
            let moments = Moments::start(&specs, group.rank(), group.size());
            let optimizer = training::optim::AdamWConfig {
                lr: 1e-2,
                min_lr: 0.0,
                weight_decay: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                clip_grad: 1.0,
            };
            let optimizer = AdamW::new(optimizer, &specs, moments, 0);
            let scale = LossScaleConfig { initial: 256.0, ..LossScaleConfig::default() };
            let model = model(&rank)?.with_precision(Precision::F16);
            let mut state = TrainState::<CpuAutodiff, _>::new(model, optimizer, specs, 0)
                .with_loss_scaler(Some(DynamicLossScaler::new(scale)));
            let mut outcome;
            let settings = StepSettings::new(1e-2, 1.0, 5);
            // Moments that are not zero, then two overflows on the last rank.
            (state, outcome) = state.optimizer_step(
                [Ok(batch(&rank))].into_iter(),
                &settings,
                &rank,
                &mut timers(&rank),
            )?;
            assert!(!outcome.skipped && state.updates() == 1);
            let (weights, moments) = (state.weights()?, moments_of(&state));
            let mut scales = Vec::new();
            for _ in 0..2 {
                let inf_gradient = rank.index() + 1 == tensor * data;
                let injected = Injected { inf_gradient, ..Injected::default() };
                let settings = StepSettings { injected, ..settings };
                (state, outcome) = state.optimizer_step(
                    [Ok(batch(&rank))].into_iter(),
                    &settings,
                    &rank,
                    &mut timers(&rank),
                )?;
                assert!(outcome.skipped && !outcome.grad_norm.is_finite());
                scales.push(state.loss_scaler.as_ref().unwrap().scale());
            }
            // One overflow lowers the hysteresis counter, the second the scale.
            assert_eq!(scales, [256.0, 128.0]);
            assert_eq!((state.step, state.updates()), (3, 1));
            Ok(state.weights()? == weights && moments_of(&state) == moments)
        });
        assert_eq!(all_as_before.unwrap(), vec![true; tensor * data]);
    }
}

fn moments_of<M>(state: &TrainState<CpuAutodiff, M>) -> Vec<Moments> {
    state.optimizer.moments().cloned().collect()
}

#[test]
fn skipped_step_is_counted_and_the_schedule_waits_for_it() {
    let workbench = Workbench::new(101);
    let config = || {
        let mut config = config(Precision::F16);
        config.loss_scale.as_mut().unwrap().window = steps(1000);
        set_layout(&mut config, (2, 1));
        config
    };
    let (clean, one, two) = (workbench.new_run(), workbench.new_run(), workbench.new_run());
    run(&workbench, &clean, config(), 99, &[]);
    run(&workbench, &one, config(), 99, &["inf@7:rank1"]);
    run(&workbench, &two, config(), 99, &["inf@7-8"]);

    let (scale, half) = (65_536.0, 32_768.0);
    assert_eq!(logged(&clean, "loss_scale"), [scale; 12]);
    assert_eq!(logged(&one, "loss_scale"), [scale; 12]);
    let after = |step: usize| if step < 8 { scale } else { half };
    assert_eq!(logged(&two, "loss_scale"), (0..12).map(after).collect::<Vec<_>>());
    let skipped = |step: f64, last: f64| (step - 6.0).clamp(0.0, last);
    for (out, last) in [(&clean, 0.0), (&one, 1.0), (&two, 2.0)] {
        let expected: Vec<f64> = (1..=12).map(|step| skipped(f64::from(step), last)).collect();
        assert_eq!(logged(out, "skipped"), expected);
        // The learning rates of the updates are those of the clean run, without a gap.
        let rates = lines(out);
        let rates = rates.iter().filter(|line| !line["grad_norm"].is_null());
        let rates: Vec<f64> = rates.map(|line| line["learning_rate"].as_f64().unwrap()).collect();
        assert_eq!(rates, logged(&clean, "learning_rate")[..12 - last as usize]);
        // Data goes on: the samples of a skipped step are not taken again.
        assert_eq!(logged_samples(out), logged_samples(&clean));
    }
    assert_eq!(logged(&one, "loss")[..7], logged(&clean, "loss")[..7]);
    assert_ne!(logged(&one, "loss")[7..], logged(&clean, "loss")[7..]);
}

#[test]
fn run_with_skipped_steps_goes_on_bit_for_bit_wherever_it_stopped() {
    let workbench = Workbench::new(101);
    let faults = ["inf@5-7", "inf@11"];
    let config = |layout| {
        let mut config = config(Precision::F16);
        set_layout(&mut config, layout);
        config
    };
    let unbroken = workbench.new_run();
    run(&workbench, &unbroken, config((1, 1)), 99, &faults);
    let scales = logged(&unbroken, "loss_scale");
    let (least, most) = scales
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), &scale| (least.min(scale), most.max(scale)));
    assert!(most > 65_536.0 && least < 65_536.0, "the scale rises and falls: {scales:?}");
    let same = |out: &Path, unbroken: &Path, what: &str| {
        for key in ["loss", "grad_norm", "learning_rate", "loss_scale", "skipped"] {
            assert_eq!(logged(out, key), logged(unbroken, key), "{key}, {what}");
        }
        assert_eq!(logged_samples(out), logged_samples(unbroken));
    };
    for stop in 1..12 {
        let out = workbench.new_run();
        run(&workbench, &out, config((1, 1)), stop, &faults);
        run(&workbench, &out, config((1, 1)), 99, &faults);
        same(&out, &unbroken, &format!("stopped at {stop}"));
    }
    for layout in [(2, 1), (1, 2)] {
        let (unbroken, out) = (workbench.new_run(), workbench.new_run());
        run(&workbench, &unbroken, config(layout), 99, &faults);
        for stop in [5, 1, 2, 99] {
            run(&workbench, &out, config(layout), stop, &faults);
        }
        same(&out, &unbroken, &format!("stopped in {layout:?}"));
        // Scale and counters do not depend on the layout, and go on in another one.
        let moved = workbench.new_run();
        run(&workbench, &moved, config((1, 1)), 6, &faults);
        run(&workbench, &moved, config(layout), 99, &faults);
        assert_eq!(logged(&moved, "loss_scale"), logged(&unbroken, "loss_scale"));
        assert!(relative_difference(&logged(&moved, "loss"), &logged(&unbroken, "loss")) < 1e-2);
    }
}

/// What the run's dump of step `step` says.
fn dump(run: &Path, step: u64) -> Value {
    let path = run.join(format!("non-finite-step-{step}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Trains into `out` with faults, in a grid of 2 x 2, to the error that ends it.
fn failure(workbench: &Workbench, out: &Path, config: TrainConfig, fault: &str) -> TrainError {
    let mut config = config;
    set_layout(&mut config, (2, 2));
    config.batch.micro_batch_size = number(1);
    let mut options = workbench.options(out);
    options.faults = vec![fault.parse::<Fault>().unwrap()].into();
    train(&config.validate(options).unwrap(), &Silent).unwrap_err()
}

#[test]
fn steps_that_overflow_at_the_floor_end_the_run_with_what_is_known() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let mut config = config(Precision::F16);
    let scale = config.loss_scale.as_mut().unwrap();
    (scale.initial, scale.window, scale.max_skipped) = (2.0, steps(1000), steps(3));
    // Every step is due to be saved, and one checkpoint kept.
    (config.checkpoint.interval_steps, config.checkpoint.keep_last) =
        (Some(steps(1)), Some(number(1)));
    // Step 7 takes the hysteresis, step 8 the scale to its floor; 9, 10 and 11 are stuck there.
    let error = failure(&workbench, &out, config, "inf@7-").to_string();
    assert!(
        error.contains("step 11: the last 3 steps overflowed at the smallest loss scale, 1"),
        "{error}"
    );
    let dump = dump(&out, 11);
    assert_eq!(dump["sample_ids"], serde_json::json!(logged_samples(&out)[10]));
    assert_eq!(dump["loss_scale"], 1.0);
    assert_eq!(dump["first_layer"], Value::Null, "the forward pass was sound");
    assert_eq!(dump["first_gradient"], "embedding.word_embeddings.weight");
    assert_eq!(dump["first_weight"], Value::Null);
    // The checkpoint from before the trouble is still there.
    assert_eq!(Checkpoint::open(&out).unwrap().step(), 6);
    assert_eq!(lines(&out).len(), 11);
}

#[test]
fn loss_that_is_no_number_ends_a_run_that_has_no_scale_to_lower() {
    let workbench = Workbench::new(101);
    for precision in [Precision::F32, Precision::Bf16] {
        let out = workbench.new_run();
        let error = failure(&workbench, &out, config(precision), "nan@7");
        let TrainError::NonFinite { step: 7, dump: path, .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains("step 7: loss NaN"), "{error}");
        assert_eq!(path, &Some(out.join("non-finite-step-7.json")));
        assert_eq!(dump(&out, 7)["sample_ids"], serde_json::json!(logged_samples(&out)[6]));
        assert_eq!(Checkpoint::open(&out).unwrap().step(), 4);
    }
}

#[test]
fn dump_names_the_first_layer_that_returned_no_number() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let mut config = config(Precision::F32);
    // The first update makes weights so large that their products overflow in the second step.
    (config.optimizer.lr, config.optimizer.min_lr) = (1e25, 1e25);
    config.schedule.warmup_steps = Some(0);
    config.checkpoint.interval_steps = None;
    let error = failure(&workbench, &out, config, "die@12:rank1");
    assert!(matches!(error, TrainError::NonFinite { step: 2, .. }), "{error}");
    let dump = dump(&out, 2);
    assert_eq!(dump["first_layer"], "layers.0");
    assert_eq!(dump["first_weight"], Value::Null, "the weights themselves are numbers");
}

#[test]
fn loss_scale_without_f16_and_impossible_scales_are_refused() {
    let workbench = Workbench::new(101);
    let refused = |change: fn(&mut TrainConfig)| {
        let config = micro(|config| {
            config.precision = Precision::F16;
            config.loss_scale = Some(LossScaleConfig::default());
            change(config);
        });
        workbench.validate(config).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|config| config.precision = Precision::Bf16),
        "[loss_scale] is for precision = \"f16\", and this run's is \"bf16\"; remove the section"
    );
    assert_eq!(
        refused(|config| config.loss_scale.as_mut().unwrap().min = 0.0),
        "loss_scale.min = 0: must be above 0"
    );
    assert_eq!(
        refused(|config| config.loss_scale.as_mut().unwrap().initial = 0.5),
        "loss_scale.initial = 0.5: must lie between min and 2^100"
    );
}
