//! Layers that run again in the backward pass: the same bits, whatever else is on.

use training::backend::{CpuAutodiff, Precision, Recompute};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::data_parallel::{batch, config, model};
use super::{
    StopAfter, Workbench, logged, logged_samples, micro, number, set_dropout, set_layout, steps,
    timers,
};
use training::train;

/// Loss and gradients of two micro-batches on every rank, by parameter.
fn gradients(
    dims: ParallelDims,
    precision: Precision,
    recompute: Recompute,
) -> Vec<(Vec<f64>, Vec<Vec<f32>>)> {
    launch(dims, |rank| {
        let (model, specs, batch) = (model(&rank)?, config().parameters(), batch(&rank));
        let model = model.with_precision(precision);
        let group = &rank.tensor_parallel;
        let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
        let sizes = shapes.map(|shape| shape.iter().product());
        let mut gradients = GradientBuffer::new(&specs, sizes);
        gradients.begin();
        let losses = [1, 2].map(|step| {
            let first_sample = batch.first_sample as u64;
            let dropout = DropoutKey { seed: 5, step, first_sample };
            let loss_scale = if precision == Precision::F16 { 1024.0 } else { 1.0 };
            let settings = PassSettings { dropout, loss_scale, recompute };
            let mut timers = timers(&rank);
            forward_backward::<CpuAutodiff, _>(
                &model,
                &batch,
                &settings,
                &mut gradients,
                &mut timers,
            )
            .total()
        });
        Ok((losses.to_vec(), gradients.parameters().map(<[f32]>::to_vec).collect()))
    })
    .unwrap()
}

#[test]
fn gradients_are_the_same_bits_as_with_everything_kept() {
    assert!(config().hidden_dropout > 0.0 && config().attention_dropout > 0.0);
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        for (tensor, data) in [(1, 1), (2, 1), (4, 1), (2, 2)] {
            let dims = ParallelDims { tensor, data };
            let kept = gradients(dims, precision, Recompute::None);
            let computed_again = gradients(dims, precision, Recompute::Layer);
            let first_rank = &kept[0].1;
            let has_gradients =
                first_rank.iter().all(|values| values.iter().any(|value| *value != 0.0));
            assert!(has_gradients, "{precision:?} {dims:?}");
            assert!(kept == computed_again, "{precision:?} {dims:?}");
        }
    }
}

#[test]
fn run_may_change_between_both_ways_when_it_goes_on() {
    let workbench = Workbench::new(101);
    for layout in [(1, 1), (2, 1)] {
        let config = |recompute| {
            micro(|config| {
                config.recompute = recompute;
                config.batch.micro_batch_size = number(2);
                config.schedule.train_steps = Some(steps(6));
                set_dropout(config, 0.1);
                set_layout(config, layout);
            })
        };
        let unbroken = workbench.train(config(Recompute::None)).1;
        let out = workbench.new_run();
        for (stop, recompute) in
            [(2, Recompute::Layer), (3, Recompute::None), (9, Recompute::Layer)]
        {
            let plan = config(recompute).validate(workbench.options(&out)).unwrap();
            train(&plan, &StopAfter::new(stop)).unwrap();
        }
        for key in ["loss", "grad_norm", "learning_rate"] {
            assert_eq!(logged(&out, key), logged(&unbroken, key), "{key} in {layout:?}");
        }
        assert_eq!(logged_samples(&out), logged_samples(&unbroken));
    }
}

/// burn frees graphs that no tensor holds when any thread has ended a backward pass: a pass must
/// not let go of its own before it is done.
#[test]
fn gradients_stay_whole_while_other_threads_take_theirs() {
    let dims = ParallelDims::one_replica(2);
    let expected = gradients(dims, Precision::F32, Recompute::None);
    std::thread::scope(|scope| {
        for recompute in [Recompute::Layer, Recompute::Layer, Recompute::None] {
            let expected = &expected;
            scope.spawn(move || {
                for round in 0..25 {
                    let found = gradients(dims, Precision::F32, recompute);
                    assert!(found == *expected, "{recompute:?}, round {round}");
                }
            });
        }
    });
}
