//! Sums of gradients over micro-batches and copies of the model.

use training::backend::{CpuAutodiff, Precision, Recompute};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::data_parallel::{batch, config, model};
use super::timers;

/// How passes are made.
#[derive(Debug, Clone, Copy)]
struct Setup {
    /// Ranks of tensor parallelism.
    ranks: usize,
    precision: Precision,
    loss_scale: f64,
    recompute: Recompute,
}

impl Setup {
    const PLAIN: Self =
        Self { ranks: 1, precision: Precision::F32, loss_scale: 1.0, recompute: Recompute::None };

    /// On each rank, the sums of the last of `global_batches`, one after the other in one buffer:
    /// over its passes, each with its own dropout, of which all lie where the first did.
    fn sums(self, global_batches: &[&[u64]]) -> Vec<Vec<Vec<f32>>> {
        let Self { ranks, precision, loss_scale, recompute } = self;
        launch(ParallelDims::one_replica(ranks), |rank| {
            let (model, specs, batch) = (model(&rank)?, config().parameters(), batch(&rank));
            let model = model.with_precision(precision);
            let group = &rank.tensor_parallel;
            let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
            let mut gradients =
                GradientBuffer::new(&specs, shapes.map(|shape| shape.iter().product()));
            for passes in global_batches {
                gradients.begin();
                let mut places: Vec<Vec<*const f32>> = Vec::new();
                for &step in *passes {
                    let dropout = DropoutKey { seed: 5, step, first_sample: 0 };
                    forward_backward::<CpuAutodiff, _>(
                        &model,
                        &batch,
                        &PassSettings { dropout, loss_scale, recompute },
                        &mut gradients,
                        &mut timers(&rank),
                    );
                    places.push(gradients.parameters().map(<[f32]>::as_ptr).collect());
                }
                assert!(places.windows(2).all(|two| two[0] == two[1]), "sums stay where they are");
            }
            Ok(gradients.parameters().map(<[f32]>::to_vec).collect::<Vec<_>>())
        })
        .unwrap()
    }

    /// Checks that the sums over `passes` are those of each of them, added up.
    fn assert_adds_up(self, passes: &[u64]) {
        let together = self.sums(&[passes]);
        let each: Vec<_> = passes.iter().map(|&step| self.sums(&[&[step]])).collect();
        for (rank, together) in together.iter().enumerate() {
            for (index, together) in together.iter().enumerate() {
                for (place, found) in together.iter().enumerate() {
                    let expected: f32 = each.iter().map(|one| one[rank][index][place]).sum();
                    // A few roundings of f32, in proportion to the larger gradients.
                    let least = 1e-2 * self.loss_scale as f32;
                    let close = (found - expected).abs() <= 1e-6 * expected.abs().max(least);
                    let what = format!("{self:?}, parameter {index} at {place} of rank {rank}");
                    assert!(close, "{what}: {found}, expected {expected}");
                }
            }
        }
    }
}

#[test]
fn micro_batches_add_up_in_the_memory_of_the_first() {
    for recompute in [Recompute::None, Recompute::Layer] {
        let setup = Setup { recompute, ..Setup::PLAIN };
        setup.assert_adds_up(&[1, 2]);
        setup.assert_adds_up(&[1, 2, 3]);
    }
}

#[test]
fn micro_batches_add_up_on_each_rank() {
    for recompute in [Recompute::None, Recompute::Layer] {
        Setup { ranks: 2, recompute, ..Setup::PLAIN }.assert_adds_up(&[1, 2, 3]);
    }
}

#[test]
fn micro_batches_in_half_precision_add_up_in_f32() {
    for (precision, loss_scale) in
        [(Precision::Bf16, 1.0), (Precision::Bf16, 1024.0), (Precision::F16, 1024.0)]
    {
        for (ranks, recompute) in [(1, Recompute::None), (2, Recompute::Layer)] {
            Setup { ranks, precision, loss_scale, recompute }.assert_adds_up(&[1, 2, 3]);
        }
    }
}

#[test]
fn next_global_batch_begins_anew() {
    let bits = |sums: Vec<Vec<Vec<f32>>>| {
        sums.into_iter().flatten().flatten().map(f32::to_bits).collect::<Vec<_>>()
    };
    for (ranks, precision, recompute) in [
        (1, Precision::F32, Recompute::None),
        (2, Precision::F32, Recompute::Layer),
        (1, Precision::F16, Recompute::Layer),
    ] {
        let setup = Setup { ranks, precision, loss_scale: 256.0, recompute };
        let [used, fresh, other] = [&[&[1, 2, 3][..], &[4, 5]][..], &[&[4, 5]], &[&[1, 2, 3]]]
            .map(|all| bits(setup.sums(all)));
        assert!(used == fresh, "{setup:?}");
        assert!(used != other, "{setup:?}: batches differ");
    }
}
