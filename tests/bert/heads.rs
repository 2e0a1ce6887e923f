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
            assert_eq!(scores.len(), 4);
            assert_eq!(scores.iter().map(|it| it.masked_lm.targets).sum::<u64>(), masked);
            let masked_lm: f64 = scores.iter().map(|it| it.masked_lm.total).sum();
            let order: f64 = scores.iter().map(|it| f64::from(it.order_loss)).sum();
            let means = [masked_lm / masked as f64, order / 4.0];
            for score in &scores {
                // Of two classes the right one is the likelier where its loss is below ln 2.
                let is_likelier = f64::from(score.order_loss) < std::f64::consts::LN_2;
                assert_eq!(score.is_order_right, is_likelier, "{score:?}");
            }
            for ((name, expected), mean) in trained.parts().zip(means) {
                assert!((mean - expected).abs() < 1e-5 * expected, "{name}: {mean}, {expected}");
            }
            let mut unmasked = batch.clone();
            unmasked.loss_weights.fill(0.0);
            for score in scorer.score(unmasked).unwrap() {
                assert_eq!((score.masked_lm.total, score.masked_lm.targets), (0.0, 0));
            }
        }
    }
}
