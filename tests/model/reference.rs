//! The same logits, losses and gradients as PyTorch and transformers, in every split.

use std::collections::HashMap;
use std::path::Path;

use safetensors::SafeTensors;
use training::TrainError;
use training::backend::{Activation, Cpu};
use training::model::{Gpt2, Gpt2Config, ParameterSource, ParameterSpec};
use training::parallel::launch;

use super::{GRADIENT_TOLERANCE, assert_parts_of, run, tokens, worst_difference};

/// Tensors of a file, as f32.
struct Tensors(HashMap<String, Vec<f32>>);

impl Tensors {
    fn read(fixture: &str, file: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let number = |bytes: &[u8], is_int: bool| {
            let bytes = bytes.try_into().unwrap();
            if is_int { i32::from_le_bytes(bytes) as f32 } else { f32::from_le_bytes(bytes) }
        };
        let values = file.iter().map(|(name, tensor)| {
            let is_int = tensor.dtype() == safetensors::Dtype::I32;
            let values = tensor.data().chunks_exact(4).map(|bytes| number(bytes, is_int));
            (name.to_owned(), values.collect())
        });
        Self(values.collect())
    }
}

impl ParameterSource for Tensors {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(spec.slice(&self.0[&spec.name], rank, size))
    }
}

fn micro_config(activation: Activation) -> Gpt2Config {
    Gpt2Config {
        num_layers: 2,
        hidden_size: 32,
        num_attention_heads: 4,
        seq_length: 64,
        vocab_size: 96,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    }
}

const FIXTURES: [(&str, Activation); 2] =
    [("gpt2_micro", Activation::Gelu), ("gpt2_micro_gelu_new", Activation::GeluTanh)];

/// Inputs and targets: two sequences of 25 tokens, all but the last and all but the first.
fn batch(expected: &Tensors) -> (Vec<u32>, Vec<u32>) {
    let sequences = expected.0["in.tokens"].chunks_exact(25);
    let ids = |part: &[f32]| part.iter().map(|&id| id as u32).collect::<Vec<_>>();
    let (inputs, targets): (Vec<_>, Vec<_>) =
        sequences.map(|sequence| (ids(&sequence[..24]), ids(&sequence[1..]))).unzip();
    (inputs.concat(), targets.concat())
}

#[test]
fn logits_and_token_losses_are_those_of_the_reference() {
    for (fixture, activation) in FIXTURES {
        let weights = Tensors::read(fixture, "model.safetensors");
        let expected = Tensors::read(fixture, "forward_backward.safetensors");
        let (inputs, targets) = batch(&expected);
        let rows: Vec<usize> = (0..targets.len()).collect();
        for size in [1, 2, 4] {
            let results = launch(size, |rank| {
                let (config, group) = (micro_config(activation), rank.tensor_parallel);
                let model = Gpt2::<Cpu>::init(&config, &weights, &group, &Default::default())?;
                let losses = model.token_losses(tokens(&inputs, 2), &targets, &rows);
                Ok((model.logits(tokens(&inputs, 2)).into_data(), losses))
            });
            for (logits, losses) in results.unwrap() {
                assert_eq!(logits.shape.as_slice(), [2, 24, 96]);
                let logits = logits.to_vec::<f32>().unwrap();
                // Aimed at; 1e-4 would do. The reference itself is 2e-6 from its f64 values.
                assert!(worst_difference(&logits, &expected.0["out.logits"]) < 1e-5);
                assert!(worst_difference(&losses, &expected.0["out.per_token_loss"]) < 1e-5);
            }
        }
    }
}

#[test]
fn masked_loss_and_every_gradient_are_those_of_the_reference() {
    for (fixture, activation) in FIXTURES {
        let config = micro_config(activation);
        let weights = Tensors::read(fixture, "model.safetensors");
        let expected = Tensors::read(fixture, "forward_backward.safetensors");
        let (inputs, targets) = batch(&expected);
        let mask = &expected.0["in.loss_mask"];
        let scored: f32 = mask.iter().sum();
        let loss_weights = mask.iter().map(|masked| masked / scored).collect();
        let batch = (inputs, targets, loss_weights);
        let gradient = |spec: &ParameterSpec| expected.0[&format!("grad.{}", spec.name)].clone();
        let specs = config.parameters();
        let whole = specs.iter().map(|spec| (spec.path.clone(), gradient(spec))).collect();
        for size in [1, 2, 4] {
            let ranks = run(&config, &weights, size, 2, &batch, None);
            for (loss, _) in &ranks {
                let expected = expected.0["out.masked_loss"][0];
                assert!((loss - expected).abs() < 1e-5, "loss {loss}, expected {expected}");
            }
            assert_parts_of(&ranks, &whole, &config, GRADIENT_TOLERANCE);
        }
    }
}
