//! Batches in which nothing is masked, and losses that are read without a graph.

use training::inference::MaskedLmScorer;
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

#[test]
fn scorer_s_mean_losses_are_those_of_training_without_dropout() {
    let batch = made_up_batch();
    let masked = batch.loss_weights.iter().filter(|&&weight| weight > 0.0).count() as u64;
    for arrangement in ARRANGEMENTS {
        let mut config = small(arrangement);
        (config.hidden_dropout, config.attention_dropout) = (0.0, 0.0);
        let source = KeyedInit { seed: 3 };
        let pass = Pass::new(ParallelDims::one_replica(1));
        let trained = gradients(&config, &source, &batch, pass).swap_remove(0).losses;
        for size in [1, 2] {
            let mut scorer =
                MaskedLmScorer::new(&config, source, size.try_into().unwrap()).unwrap();
            let scores = scorer.score(batch.clone()).unwrap();
            assert_eq!((scores.masked_lm.targets, scores.order.targets), (masked, 4));
            for ((name, expected), sum) in trained.parts().zip([scores.masked_lm, scores.order]) {
                let mean = sum.total / sum.targets as f64;
                assert!((mean - expected).abs() < 1e-5 * expected, "{name}: {mean}, {expected}");
            }
            let mut unmasked = batch.clone();
            unmasked.loss_weights.fill(0.0);
            let none = scorer.score(unmasked).unwrap().masked_lm;
            assert_eq!((none.total, none.targets), (0.0, 0));
        }
    }
}
