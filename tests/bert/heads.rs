//! Batches in which nothing is masked.

use training::model::KeyedInit;
use training::parallel::ParallelDims;

use super::layouts::{Pass, gradients};
use super::{ARRANGEMENTS, made_up_batch, small};

#[test]
fn batch_without_masked_tokens_has_a_loss_of_0_and_gradients_of_its_order_alone() {
    let mut batch = made_up_batch();
    batch.loss_weights.fill(0.0);
    for arrangement in ARRANGEMENTS {
        let config = small(arrangement);
        for size in [1, 2] {
            let pass = Pass::new(ParallelDims::one_replica(size));
            for found in gradients(&config, &KeyedInit { seed: 3 }, &batch, pass) {
                let parts: Vec<_> = found.losses.parts().collect();
                assert_eq!(parts[0], ("mlm_loss", 0.0));
                assert!(parts[1].1 > 0.0);
                for (spec, gradient) in config.parameters().iter().zip(&found.gradients) {
                    let is_zero = gradient.iter().all(|&number| number == 0.0);
                    assert!(gradient.iter().all(|number| number.is_finite()), "{}", spec.path);
                    assert_eq!(is_zero, spec.path.starts_with("lm_head."), "{}", spec.path);
                }
            }
        }
    }
}
