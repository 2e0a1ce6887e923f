//! The worked numbers of an annotated reading of the paper, sections 2.2 to 3.4.

use training::TrainError;
use training::backend::{Activation, bias_gelu};
use training::model::{Gpt2Config, Init, ParameterSource, ParameterSpec, Split};
use training::parallel::{
    ColumnParallelLinear, ColumnParallelLinearConfig, ParallelDims, RowParallelLinear,
    RowParallelLinearConfig, launch,
};
use training::parameters::{ParameterLoader, padded_vocab_size};

use crate::micro_gpt2;
use crate::tensors::{assert_close, constant, values};

type B = training::backend::Cpu;
type Tensor<const D: usize> = burn::tensor::Tensor<B, D>;

/// Three digits are printed.
const PRINTED: f32 = 5e-4;

fn gelu(input: &[f32]) -> Vec<f32> {
    let width = input.len();
    let input = constant(input, [1, 1, width]);
    values(bias_gelu(input, constant(&vec![0.0; width], [width]), Activation::Gelu))
}

#[test]
fn gelu_of_one_minus_one_and_two() {
    assert_close(&gelu(&[1.0, -1.0, 2.0]), &[0.841, -0.159, 1.954], PRINTED);
}

#[test]
fn a_cut_by_rows_needs_the_sum_before_gelu() {
    let (first, second) = ([1.0, -1.0], [-2.0, 2.0]);
    let sum: Vec<f32> = first.iter().zip(&second).map(|(a, b)| a + b).collect();
    assert_close(&gelu(&sum), &[-0.159, 0.841], PRINTED);
    let too_early: Vec<f32> = gelu(&first).iter().zip(&gelu(&second)).map(|(a, b)| a + b).collect();
    assert_close(&too_early, &[0.796, 1.796], PRINTED);
}

/// The example's two weights, without biases.
struct Example;

impl Example {
    fn table() -> Vec<ParameterSpec> {
        let spec = |path: &str, shape: &[usize], split| ParameterSpec {
            path: path.to_owned(),
            name: path.to_owned(),
            shape: shape.to_vec(),
            split,
            init: Init::Zeros,
            weight_decay: true,
        };
        vec![
            spec("a.weight", &[2, 2], Split::Dim { dim: 1, blocks: 1 }),
            spec("a.bias", &[2], Split::Dim { dim: 0, blocks: 1 }),
            spec("b.weight", &[2, 2], Split::Dim { dim: 0, blocks: 1 }),
            spec("b.bias", &[2], Split::Replicated),
        ]
    }
}

impl ParameterSource for Example {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let full: &[f32] = match spec.path.as_str() {
            "a.weight" => &[1.0, -1.0, -1.0, 1.0],
            "b.weight" => &[2.0, 0.0, 1.0, 1.0],
            _ => &[0.0, 0.0],
        };
        Ok(spec.slice(full, rank, size))
    }
}

#[test]
fn the_mlp_example_by_columns_then_rows() {
    for size in [1, 2] {
        let results = launch(ParallelDims::one_replica(size), |rank| {
            let (table, device) = (Example::table(), Default::default());
            let parameters: ParameterLoader<'_, B> =
                ParameterLoader::new(&table, &Example, &rank.tensor_parallel, &device);
            let a: ColumnParallelLinear<B> =
                ColumnParallelLinearConfig::new("mlp", 2, 2).init(&parameters.child("a"))?;
            let b: RowParallelLinear<B> =
                RowParallelLinearConfig::new("mlp", 2, 2).init(&parameters.child("b"))?;
            let x: Tensor<3> = constant(&[1.0, 2.0], [1, 1, 2]).inner();
            let units = bias_gelu(a.product(x), a.bias.val(), Activation::Gelu);
            let partial = units.clone().reshape([1, 2 / size]).matmul(b.weight.val());
            let output = b.forward(units.clone());
            Ok((values(units), values(partial), values(output)))
        });
        let results = results.unwrap();
        let units: Vec<f32> = results.iter().flat_map(|(units, ..)| units.clone()).collect();
        assert_close(&units, &[-0.159, 0.841], PRINTED);
        if size == 2 {
            assert_close(&results[0].1, &[-0.317, 0.0], PRINTED);
            assert_close(&results[1].1, &[0.841, 0.841], PRINTED);
        }
        for (_, _, output) in &results {
            assert_close(output, &[0.524, 0.841], PRINTED);
        }
    }
}

fn largest_model() -> Gpt2Config {
    Gpt2Config {
        num_layers: 72,
        hidden_size: 3072,
        num_attention_heads: 32,
        seq_length: 1024,
        vocab_size: 50_257,
        ..micro_gpt2::config(Activation::Gelu)
    }
}

#[test]
fn heads_of_the_largest_model_on_eight_ranks() {
    let config = largest_model();
    config.check_tensor_parallel(8).unwrap();
    assert_eq!((config.num_attention_heads / 8, config.head_size()), (4, 96));
}

#[test]
fn message_sizes_of_the_largest_model() {
    let config = largest_model();
    let batch = 8;
    let message = batch * config.seq_length * config.hidden_size;
    assert_eq!(message, 25_165_824);
    assert_eq!(4 * message, 100_663_296);
    assert_eq!(4 * config.num_layers, 288);
    let bytes_per_step = 4 * message * config.num_layers * 2;
    assert_eq!((bytes_per_step as f64 / 1e9 * 10.0).round() / 10.0, 14.5);
}

#[test]
fn losses_move_as_many_times_less_than_logits_as_the_vocabulary_has_tokens() {
    let vocabulary = padded_vocab_size(50_257, 8);
    assert_eq!((vocabulary, vocabulary - 50_257), (51_200, 943));
    let (logits, losses) = (8 * 1024 * vocabulary, 8 * 1024);
    assert_eq!((logits, losses, logits / losses), (419_430_400, 8_192, 51_200));
    assert_eq!(padded_vocab_size(50_257, 1), 50_304);
    assert_eq!(padded_vocab_size(50_257, 2), 50_432);
    assert_eq!(padded_vocab_size(50_257, 4), 50_688);
}
