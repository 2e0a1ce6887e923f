//! Sums of gradients over micro-batches and copies of the model.

use training::backend::{CpuAutodiff, Precision, Recompute};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::data_parallel::{batch, config, model};
use super::timers;

/// The sums over `passes`, each with its own dropout, of which all lie where the first did.
fn sums(passes: &[u64], recompute: Recompute) -> Vec<Vec<f32>> {
    let mut ranks = launch(ParallelDims::one_replica(1), |rank| {
        let (model, specs, batch) = (model(&rank)?, config().parameters(), batch(&rank));
        let model = model.with_precision(Precision::F32);
        let sizes = specs.iter().map(|spec| spec.local_shape(0, 1).iter().product());
        let mut gradients = GradientBuffer::new(&specs, sizes);
        gradients.begin();
        let mut places: Vec<Vec<*const f32>> = Vec::new();
        for &step in passes {
            let dropout = DropoutKey { seed: 5, step, first_sample: 0 };
            let settings = PassSettings { dropout, loss_scale: 1.0, recompute };
            forward_backward::<CpuAutodiff, _>(
                &model,
                &batch,
                &settings,
                &mut gradients,
                &mut timers(&rank),
            );
            places.push(gradients.parameters().map(<[f32]>::as_ptr).collect());
        }
        assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "sums stay where they are");
        Ok(gradients.parameters().map(<[f32]>::to_vec).collect::<Vec<_>>())
    });
    ranks.as_mut().unwrap().remove(0)
}

#[test]
fn micro_batches_add_up_in_the_memory_of_the_first() {
    for recompute in [Recompute::None, Recompute::Layer] {
        let both = sums(&[1, 2], recompute);
        let each = [1, 2].map(|step| sums(&[step], recompute));
        for (index, both) in both.iter().enumerate() {
            for (place, found) in both.iter().enumerate() {
                let expected = each[0][index][place] + each[1][index][place];
                let close = (found - expected).abs() <= 1e-6 * expected.abs().max(1e-2);
                assert!(close, "parameter {index} at {place}: {found}, expected {expected}");
            }
        }
    }
}
