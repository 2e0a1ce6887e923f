//! The same losses and gradients in every layout, and to the bit where layers run again.

use training::backend::{CpuAutodiff, Precision, Recompute};
use training::data::Batch;
use training::losses::Losses;
use training::model::{BertConfig, KeyedInit, ParameterSource};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::{ARRANGEMENTS, SAMPLES, made_up_batch, model, part, small};
use crate::training::timers;

/// How a global batch is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) dims: ParallelDims,
    pub(super) precision: Precision,
    pub(super) recompute: Recompute,
    /// Samples per forward pass.
    pub(super) micro_batch: usize,
}

impl Pass {
    /// All samples of a copy at once, in `f32`, with everything kept.
    pub(super) fn new(dims: ParallelDims) -> Self {
        let (precision, recompute) = (Precision::F32, Recompute::None);
        Self { dims, precision, recompute, micro_batch: usize::MAX }
    }
}

/// What a rank got of a global batch.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// Those of the rank's own copy.
    pub(super) losses: Losses,
    /// Summed over the copies, by parameter.
    pub(super) gradients: Vec<Vec<f32>>,
}

/// Losses and gradients of one global batch on every rank.
pub(super) fn gradients(
    config: &BertConfig,
    source: &dyn ParameterSource,
    batch: &Batch,
    pass: Pass,
) -> Vec<Found> {
    launch(pass.dims, |rank| {
        let model = model(config, source, &rank)?.with_precision(pass.precision);
        let (specs, group) = (config.parameters(), &rank.tensor_parallel);
        let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
        let sizes = shapes.map(|shape| shape.iter().product());
        let mut gradients = GradientBuffer::new(&specs, sizes);
        gradients.begin();
        let share = rank.data_parallel.share(batch.num_samples as u64);
        let (mut place, end) = (share.start as usize, share.end as usize);
        let mut parts = [0.0; 2];
        while place < end {
            let next = end.min(place.saturating_add(pass.micro_batch));
            let micro_batch = part(batch, place..next);
            let dropout = DropoutKey { seed: 5, step: 1, first_sample: place as u64 };
            let recompute = pass.recompute;
            let settings = PassSettings { dropout, loss_scale: 1.0, recompute };
            let mut timers = timers(&rank);
            let losses = forward_backward::<CpuAutodiff, _>(
                &model,
                &micro_batch,
                &settings,
                &mut gradients,
                &mut timers,
            );
            for (sum, (_, loss)) in parts.iter_mut().zip(losses.parts()) {
                *sum += loss;
            }
            place = next;
        }
        gradients.all_reduce(&rank.data_parallel)?;
        let losses = Losses::new(&["mlm_loss", "sop_loss"], &parts);
        Ok(Found { losses, gradients: gradients.parameters().map(<[f32]>::to_vec).collect() })
    })
    .unwrap()
}

/// Checks that every rank's gradients are its part of `whole`, within `tolerance` of each tensor's
/// largest number.
fn assert_parts_of(
    config: &BertConfig,
    whole: &Found,
    ranks: &[Found],
    pass: Pass,
    tolerance: f32,
) {
    let size = pass.dims.tensor;
    for (rank, found) in ranks.iter().enumerate() {
        for (index, spec) in config.parameters().iter().enumerate() {
            let all = &whole.gradients[index];
            let largest = all.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
            assert!(largest > 0.0, "{}", spec.path);
            let own = spec.slice(all, rank % size, size);
            for (at, (found, own)) in found.gradients[index].iter().zip(&own).enumerate() {
                assert!(
                    (found - own).abs() <= tolerance * largest,
                    "{} at {at} on rank {rank}, {pass:?}: {found}, not {own} of at most {largest}",
                    spec.path
                );
            }
        }
    }
}

#[test]
fn every_layout_and_micro_batch_size_gives_the_same_losses_and_gradients() {
    let (source, batch) = (KeyedInit { seed: 11 }, made_up_batch());
    for arrangement in ARRANGEMENTS {
        let config = small(arrangement);
        let one = Pass::new(ParallelDims::one_replica(1));
        let whole = gradients(&config, &source, &batch, one).swap_remove(0);
        for (tensor, data, micro_batch) in
            [(2, 1, SAMPLES), (4, 1, SAMPLES), (1, 1, 1), (1, 2, 2), (1, 4, 1), (2, 2, 1)]
        {
            let pass = Pass { micro_batch, ..Pass::new(ParallelDims { tensor, data }) };
            let ranks = gradients(&config, &source, &batch, pass);
            let total: f64 = ranks.iter().step_by(tensor).map(|found| found.losses.total()).sum();
            let expected = whole.losses.total();
            assert!((total - expected).abs() < 1e-6 * expected, "{total}, not {expected}");
            assert_parts_of(&config, &whole, &ranks, pass, 2e-5);
        }
    }
}

#[test]
fn layers_that_run_again_give_the_same_bits() {
    let (source, batch) = (KeyedInit { seed: 11 }, made_up_batch());
    for arrangement in ARRANGEMENTS {
        let config = small(arrangement);
        for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
            for (tensor, data) in [(1, 1), (2, 2)] {
                let dims = ParallelDims { tensor, data };
                let kept = Pass { precision, micro_batch: 1, ..Pass::new(dims) };
                let again = Pass { recompute: Recompute::Layer, ..kept };
                let [kept, again] =
                    [kept, again].map(|pass| gradients(&config, &source, &batch, pass));
                assert!(kept == again, "{arrangement:?}, {precision:?}, {dims:?}");
            }
        }
    }
}

#[test]
fn sixteen_bits_give_nearly_the_same_losses() {
    let (source, batch) = (KeyedInit { seed: 11 }, made_up_batch());
    for arrangement in ARRANGEMENTS {
        let config = small(arrangement);
        let pass = Pass::new(ParallelDims::one_replica(2));
        let exact = gradients(&config, &source, &batch, pass).swap_remove(0);
        for (precision, tolerance) in [(Precision::F16, 2e-3), (Precision::Bf16, 2e-2)] {
            let pass = Pass { precision, ..pass };
            let found = gradients(&config, &source, &batch, pass).swap_remove(0);
            assert_ne!(found.losses, exact.losses, "something is rounded");
            for ((name, found), (_, exact)) in found.losses.parts().zip(exact.losses.parts()) {
                assert!((found - exact).abs() < tolerance * exact, "{name}: {found}, {exact}");
            }
            assert!(found.gradients.iter().flatten().all(|number| number.is_finite()));
        }
    }
}
