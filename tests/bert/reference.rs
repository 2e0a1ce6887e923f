//! The same logits, losses and gradients as PyTorch and transformers, in every split.

use burn::module::AutodiffModule;
use training::backend::VisibleKeys;
use training::model::ParameterSource;
use training::model::bert::BertInputs;
use training::parallel::{ParallelDims, launch};

use super::folder::{Tensors, file_prefix, initial_weights, opened};
use super::layouts::{Pass, gradients};
use super::{ARRANGEMENTS, model, reference_batch, tiny};
use crate::tensors::{assert_close, values};

/// A batch's tokens and segments as tensors.
fn inputs<B: training::backend::TpBackend>(batch: &training::data::Batch) -> BertInputs<B> {
    let segments = batch.segments.as_ref().unwrap();
    let tensor = |numbers: &[u32]| {
        let numbers: Vec<i64> = numbers.iter().map(|&number| i64::from(number)).collect();
        let shape = [batch.num_samples, batch.seq_length];
        burn::tensor::Tensor::from_data(
            burn::tensor::TensorData::new(numbers, shape),
            &Default::default(),
        )
    };
    BertInputs {
        tokens: tensor(&batch.tokens),
        token_types: tensor(&segments.token_types),
        visible: VisibleKeys::Padded(segments.lengths.clone()),
    }
}

#[test]
fn logits_are_those_of_the_reference_at_every_position_that_is_no_padding() {
    let weights = initial_weights();
    for arrangement in ARRANGEMENTS {
        let file =
            Tensors::read(&format!("{}_forward_backward.safetensors", file_prefix(arrangement)));
        let batch = reference_batch(&file, "in.");
        let lengths = batch.segments.as_ref().unwrap().lengths.clone();
        assert!(lengths.iter().any(|&length| length < batch.seq_length), "some are padded");
        for size in [1, 2, 4] {
            let results = launch(ParallelDims::one_replica(size), |rank| {
                let model = model(&tiny(arrangement), &weights, &rank)?.valid();
                let (masked_lm, order) = model.logits(inputs(&batch));
                Ok((values(masked_lm), values(order)))
            });
            for (masked_lm, order) in results.unwrap() {
                let expected = file.floats("out.mlm_logits");
                assert_eq!(masked_lm.len(), expected.len());
                for (sample, &length) in lengths.iter().enumerate() {
                    let first = sample * 24 * 128;
                    let real = first..first + length * 128;
                    // Aimed at; 1e-4 would do. The reference's two forms differ by 1.3e-6.
                    assert_close(&masked_lm[real.clone()], &expected[real], 1e-5);
                }
                assert_close(&order, file.floats("out.sop_logits"), 1e-5);
            }
        }
    }
}

#[test]
fn losses_and_every_gradient_are_those_of_the_reference() {
    let weights = initial_weights();
    for arrangement in ARRANGEMENTS {
        let config = tiny(arrangement);
        let file =
            Tensors::read(&format!("{}_forward_backward.safetensors", file_prefix(arrangement)));
        let batch = reference_batch(&file, "in.");
        // Under the names of the arrangement's own class.
        let expected = opened(&file.with_prefix("grad."), arrangement);
        for size in [1, 2, 4] {
            let pass = Pass::new(ParallelDims::one_replica(size));
            for (rank, found) in gradients(&config, &weights, &batch, pass).into_iter().enumerate()
            {
                let parts: Vec<(&str, f64)> = found.losses.parts().collect();
                let expected_of = |name: &str| f64::from(file.floats(name)[0]);
                for ((name, loss), (expected_name, expected)) in parts.into_iter().zip([
                    ("mlm_loss", expected_of("out.lm_loss")),
                    ("sop_loss", expected_of("out.sop_loss")),
                ]) {
                    assert_eq!(name, expected_name);
                    assert!((loss - expected).abs() < 1e-5, "{name} {loss}, expected {expected}");
                }
                for (spec, found) in config.parameters().iter().zip(&found.gradients) {
                    let whole = expected.local(spec, 0, 1).unwrap();
                    let largest = whole.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                    let own = spec.slice(&whole, rank, size);
                    // A bias of keys has no gradient but rounding noise.
                    let tolerance = 1e-5 * largest.max(1e-2);
                    assert_eq!(found.len(), own.len(), "{}", spec.path);
                    for (at, (found, own)) in found.iter().zip(&own).enumerate() {
                        assert!(
                            (found - own).abs() <= tolerance,
                            "{arrangement:?}, {} at {at} on rank {rank} of {size}: {found}, not {own}",
                            spec.path
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_stands_in_the_padding_changes_nothing() {
    let weights = initial_weights();
    for arrangement in ARRANGEMENTS {
        let file =
            Tensors::read(&format!("{}_forward_backward.safetensors", file_prefix(arrangement)));
        let batch = reference_batch(&file, "in.");
        let mut other = batch.clone();
        for (sample, &length) in batch.segments.as_ref().unwrap().lengths.iter().enumerate() {
            other.tokens[sample * 24 + length..(sample + 1) * 24].fill(77);
        }
        assert_ne!(batch.tokens, other.tokens);
        let config = tiny(arrangement);
        let pass = Pass::new(ParallelDims::one_replica(1));
        let [one, two] =
            [&batch, &other].map(|batch| gradients(&config, &weights, batch, pass).swap_remove(0));
        assert_eq!(one.losses, two.losses);
        for ((spec, one), two) in config.parameters().iter().zip(&one.gradients).zip(&two.gradients)
        {
            assert_eq!(one, two, "{}", spec.path);
        }
    }
}
