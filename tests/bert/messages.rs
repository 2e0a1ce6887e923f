//! What ranks send each other in a step: of the head, for masked positions alone.

use training::backend::{CpuAutodiff, Recompute};
use training::model::KeyedInit;
use training::optim::GradientBuffer;
use training::parallel::collective::{CallTotal, CallTotals};
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::{ARRANGEMENTS, made_up_batch, model, small};
use crate::training::timers;

#[test]
fn pass_all_reduces_four_activations_per_layer_and_of_the_head_what_is_masked() {
    let batch = made_up_batch();
    let masked = batch.loss_weights.iter().filter(|&&weight| weight > 0.0).count();
    let activation = batch.tokens.len() * 32;
    assert!(masked > 0 && masked < batch.tokens.len() / 4);
    for arrangement in ARRANGEMENTS {
        for (size, recompute, forward) in [(2, Recompute::None, 2), (4, Recompute::Layer, 4)] {
            let expected: CallTotals = [
                ("layer.attention.g", forward, activation),
                ("layer.mlp.g", forward, activation),
                ("layer.attention.f", 2, activation),
                ("layer.mlp.f", 2, activation),
                ("embedding.g", 1, activation),
                ("head.f", 1, masked * 32),
                ("loss.max", 1, masked),
                ("loss.target", 1, masked),
                ("loss.sum", 1, masked),
            ]
            .into_iter()
            .map(|(name, calls, numbers)| {
                let numbers = (calls * numbers) as u64;
                (name.to_owned(), CallTotal { calls: calls as u64, numbers, bytes: 4 * numbers })
            })
            .collect();
            let sent = launch(ParallelDims::one_replica(size), |rank| {
                let config = small(arrangement);
                let model = model(&config, &KeyedInit { seed: 1 }, &rank)?;
                let (specs, group) = (config.parameters(), &rank.tensor_parallel);
                let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
                let mut gradients =
                    GradientBuffer::new(&specs, shapes.map(|shape| shape.iter().product()));
                gradients.begin();
                let dropout = DropoutKey { seed: 1, step: 1, first_sample: 0 };
                let settings = PassSettings { dropout, loss_scale: 1.0, recompute };
                forward_backward::<CpuAutodiff, _>(
                    &model,
                    &batch,
                    &settings,
                    &mut gradients,
                    &mut timers(&rank),
                );
                Ok(rank.calls.take_totals())
            });
            for sent in sent.unwrap() {
                assert_eq!(sent, expected, "{arrangement:?} on {size} ranks");
            }
        }
    }
}
