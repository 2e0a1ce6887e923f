//! The same logits, losses and gradients as PyTorch and transformers, in every split.

use training::backend::{Activation, Cpu};
use training::model::{Gpt2, ParameterSpec};
use training::parallel::{ParallelDims, launch};

use super::{GRADIENT_TOLERANCE, assert_parts_of, run, tokens, worst_difference};
use crate::micro_gpt2::{self, Tensors};

const FIXTURES: [(&str, Activation); 2] =
    [("gpt2_micro", Activation::Gelu), ("gpt2_micro_gelu_new", Activation::GeluTanh)];

/// Inputs and targets: two sequences of 25 tokens, all but the last and all but the first.
fn batch(expected: &Tensors) -> (Vec<u32>, Vec<u32>) {
    let tokens = expected.tokens("in.tokens");
    let (inputs, targets): (Vec<_>, Vec<_>) =
        tokens.chunks_exact(25).map(|sequence| (&sequence[..24], &sequence[1..])).unzip();
    (inputs.concat(), targets.concat())
}

/// The index of the largest number of each row.
fn largest_of_each(values: &[f32], width: usize) -> Vec<u32> {
    let largest = |row: &[f32]| (0..width).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
    values.chunks_exact(width).map(|row| largest(row) as u32).collect()
}

#[test]
fn logits_losses_and_predictions_are_those_of_the_reference() {
    for (fixture, activation) in FIXTURES {
        let weights = Tensors::read(fixture, "model.safetensors");
        let expected = Tensors::read(fixture, "forward_backward.safetensors");
        let (inputs, targets) = batch(&expected);
        let rows: Vec<usize> = (0..targets.len()).collect();
        for size in [1, 2, 4] {
            let results = launch(ParallelDims::one_replica(size), |rank| {
                let (config, group) = (micro_gpt2::config(activation), rank.tensor_parallel);
                let model = Gpt2::<Cpu>::init(&config, &weights, &group, &Default::default())?;
                let scores = model.token_scores(tokens(&inputs, 2), &targets, &rows);
                Ok((model.logits(tokens(&inputs, 2)).into_data(), scores))
            });
            for (logits, scores) in results.unwrap() {
                assert_eq!(logits.shape.as_slice(), [2, 24, 96]);
                let logits = logits.to_vec::<f32>().unwrap();
                // Aimed at; 1e-4 would do. The reference itself is 2e-6 from its f64 values.
                assert!(worst_difference(&logits, expected.floats("out.logits")) < 1e-5);
                let losses: Vec<f32> = scores.iter().map(|score| score.loss).collect();
                assert!(worst_difference(&losses, expected.floats("out.per_token_loss")) < 1e-5);
                let predicted: Vec<u32> = scores.iter().map(|score| score.predicted).collect();
                assert_eq!(predicted, largest_of_each(expected.floats("out.logits"), 96));
            }
        }
    }
}

#[test]
fn masked_loss_and_every_gradient_are_those_of_the_reference() {
    for (fixture, activation) in FIXTURES {
        let config = micro_gpt2::config(activation);
        let weights = Tensors::read(fixture, "model.safetensors");
        let expected = Tensors::read(fixture, "forward_backward.safetensors");
        let (inputs, targets) = batch(&expected);
        let mask = expected.floats("in.loss_mask");
        let scored: f32 = mask.iter().sum();
        let loss_weights = mask.iter().map(|masked| masked / scored).collect();
        let batch = (inputs, targets, loss_weights);
        let gradient =
            |spec: &ParameterSpec| expected.floats(&format!("grad.{}", spec.name)).to_vec();
        let specs = config.parameters();
        let whole = specs.iter().map(|spec| (spec.path.clone(), gradient(spec))).collect();
        for size in [1, 2, 4] {
            let ranks = run(&config, &weights, size, 2, &batch, None);
            for (loss, _) in &ranks {
                let expected = expected.floats("out.masked_loss")[0];
                assert!((loss - expected).abs() < 1e-5, "loss {loss}, expected {expected}");
            }
            assert_parts_of(&ranks, &whole, &config, GRADIENT_TOLERANCE);
        }
    }
}
