//! GPT-2 against PyTorch's reference, and against itself in every split.

mod gradients;
mod reference;
mod table;

use std::fs;
use std::path::Path;

use training::TrainError;
use training::backend::{Activation, CpuAutodiff};
use training::model::{Gpt2, Gpt2Config, KeyedInit, ParameterSource, ParameterSpec};
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, TensorParallelGroup, launch};

use self::gradients::{Gradients, gradients_of};

type Tokens<B> = burn::tensor::Tensor<B, 2, burn::tensor::Int>;

/// A model small enough to run in every split, with nothing round about it: its vocabulary needs
/// padding and its sequence is shorter than its positions.
fn small_config() -> Gpt2Config {
    Gpt2Config {
        num_layers: 2,
        hidden_size: 32,
        num_attention_heads: 4,
        seq_length: 24,
        vocab_size: 301,
        ffn_hidden_size: None,
        hidden_dropout: 0.1,
        attention_dropout: 0.2,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        // Larger than in training, so that softmaxes are not flat.
        init_std: 0.12,
    }
}

fn tokens<B: burn::tensor::backend::Backend>(ids: &[u32], batch: usize) -> Tokens<B> {
    let ids: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
    let seq = ids.len() / batch;
    let data = burn::tensor::TensorData::new(ids, [batch, seq]);
    Tokens::<B>::from_data(data, &Default::default())
}

/// A batch that looks random: (inputs, targets, weights), each `batch · seq` long.
fn made_up_batch(batch: usize, seq: usize, vocab_size: u32) -> (Vec<u32>, Vec<u32>, Vec<f32>) {
    let at = |i: usize, step: u32| (i as u32).wrapping_mul(step).wrapping_add(17) % vocab_size;
    let count = batch * seq;
    let inputs = (0..count).map(|i| at(i, 7919)).collect();
    let targets = (0..count).map(|i| at(i, 104_729)).collect();
    let weights = (0..count).map(|i| if i % 5 == 3 { 0.0 } else { 1.0 / count as f32 }).collect();
    (inputs, targets, weights)
}

/// The loss and all gradients of `config` on every rank of a group of `size`.
fn run(
    config: &Gpt2Config,
    source: &dyn ParameterSource,
    size: usize,
    batch: usize,
    (inputs, targets, weights): &(Vec<u32>, Vec<u32>, Vec<f32>),
    dropout: Option<DropoutKey>,
) -> Vec<(f32, Gradients)> {
    launch(ParallelDims::one_replica(size), |rank| {
        let device = Default::default();
        let model = Gpt2::<CpuAutodiff>::init(config, source, &rank.tensor_parallel, &device)?;
        let loss = model.loss(tokens(inputs, batch), targets, weights, dropout.as_ref());
        let value = loss.clone().into_scalar();
        Ok((value, gradients_of(&model, &loss.backward())))
    })
    .unwrap()
}

/// Checks that the gradients of every rank are its part of `whole`, within `tolerance` of each
/// tensor's largest value.
fn assert_parts_of(
    ranks: &[(f32, Gradients)],
    whole: &Gradients,
    config: &Gpt2Config,
    tolerance: f32,
) {
    for (rank, (_, gradients)) in ranks.iter().enumerate() {
        for spec in config.parameters() {
            let expected = spec.slice(&whole[&spec.path], rank, ranks.len());
            let found = &gradients[&spec.path];
            assert_eq!(found.len(), expected.len(), "{}", spec.path);
            // Measured on the whole tensor: a rank's part may hold nothing but tiny numbers.
            let largest = whole[&spec.path].iter().fold(0.0_f32, |max, x| max.max(x.abs()));
            let worst = worst_difference(found, &expected);
            assert!(
                worst <= tolerance * largest,
                "{} on rank {rank} of {}: off by {worst:e}, largest {largest:e}",
                spec.path,
                ranks.len()
            );
        }
    }
}

fn worst_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |worst, difference| {
        // What is not a number must fail the comparison.
        if difference <= worst { worst } else { difference }
    })
}

/// The gradients of a group of one, without the rows that pad the vocabulary.
fn whole(gradients: &Gradients, specs: &[ParameterSpec]) -> Gradients {
    let unpadded = |spec: &ParameterSpec| gradients[&spec.path][..spec.num_elements()].to_vec();
    specs.iter().map(|spec| (spec.path.clone(), unpadded(spec))).collect()
}

/// Summation orders differ between splits; 1e-5 of a tensor's largest gradient is a few times
/// what f32 against f64 shows on a model of this size.
const GRADIENT_TOLERANCE: f32 = 1e-5;

#[test]
fn every_split_computes_the_same_loss_and_gradients() {
    let (config, source) = (small_config(), KeyedInit { seed: 11 });
    let batch = made_up_batch(3, 20, 301);
    for dropout in [None, Some(DropoutKey { seed: 5, step: 9, first_sample: 40 })] {
        let one = run(&config, &source, 1, 3, &batch, dropout);
        let whole = whole(&one[0].1, &config.parameters());
        for size in [2, 4] {
            let ranks = run(&config, &source, size, 3, &batch, dropout);
            for (loss, _) in &ranks {
                let relative = (loss - one[0].0).abs() / one[0].0;
                assert!(relative < 1e-6, "loss {loss} on {size} ranks, {} on one", one[0].0);
            }
            assert_parts_of(&ranks, &whole, &config, GRADIENT_TOLERANCE);
        }
    }
}

#[test]
fn replicated_gradients_and_losses_are_bit_equal_on_all_ranks() {
    let (config, source) = (small_config(), KeyedInit { seed: 3 });
    let key = DropoutKey { seed: 5, step: 1, first_sample: 0 };
    let ranks = run(&config, &source, 4, 2, &made_up_batch(2, 24, 301), Some(key));
    let replicated = |spec: &&ParameterSpec| spec.split == training::model::Split::Replicated;
    for (loss, gradients) in &ranks {
        assert_eq!(loss.to_bits(), ranks[0].0.to_bits());
        for spec in config.parameters().iter().filter(replicated) {
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let (found, first) = (&gradients[&spec.path], &ranks[0].1[&spec.path]);
            assert_eq!(bits(found), bits(first), "{}", spec.path);
        }
    }
}

#[test]
fn rows_that_pad_the_vocabulary_get_no_gradient() {
    let config = small_config();
    let ranks = run(&config, &KeyedInit { seed: 3 }, 2, 2, &made_up_batch(2, 24, 301), None);
    // 301 tokens on two ranks are padded to 512, so rank 1 holds 45 tokens and 211 rows of padding.
    let gradient = &ranks[1].1["embedding.word_embeddings.weight"];
    assert_eq!(gradient.len(), 256 * 32);
    assert!(gradient[..45 * 32].iter().any(|&x| x != 0.0));
    assert!(gradient[45 * 32..].iter().all(|&x| x == 0.0));
}

#[test]
fn dropout_masks_belong_to_samples_not_to_batches() {
    let (config, source) = (small_config(), KeyedInit { seed: 8 });
    let (inputs, targets, weights) = made_up_batch(4, 24, 301);
    let key = |first_sample| DropoutKey { seed: 1, step: 2, first_sample };
    let loss_of = |range: std::ops::Range<usize>, batch, first_sample| {
        let part = (
            inputs[range.clone()].to_vec(),
            targets[range.clone()].to_vec(),
            weights[range].to_vec(),
        );
        f64::from(run(&config, &source, 1, batch, &part, Some(key(first_sample)))[0].0)
    };
    let whole = loss_of(0..96, 4, 10);
    let halves = loss_of(0..48, 2, 10) + loss_of(48..96, 2, 12);
    assert!((whole - halves).abs() < 1e-6 * whole, "{whole} in one batch, {halves} in two");
    let other_samples = loss_of(0..48, 2, 10) + loss_of(48..96, 2, 10);
    assert!((whole - other_samples).abs() > 1e-5 * whole, "the mask ignores the sample");
}

#[test]
fn scores_of_chosen_rows_are_those_of_the_whole_batch() {
    let (config, device) = (small_config(), Default::default());
    let group = TensorParallelGroup::single();
    let model =
        Gpt2::<training::backend::Cpu>::init(&config, &KeyedInit { seed: 1 }, &group, &device)
            .unwrap();
    let (inputs, targets, _) = made_up_batch(2, 24, 301);
    let all: Vec<usize> = (0..48).collect();
    let every = model.token_scores(tokens(&inputs, 2), &targets, &all);
    let rows = [0, 7, 23, 24, 47];
    let chosen: Vec<u32> = rows.iter().map(|&row| targets[row]).collect();
    for (score, &row) in model.token_scores(tokens(&inputs, 2), &chosen, &rows).iter().zip(&rows) {
        assert!((score.loss - every[row].loss).abs() < 1e-6);
        assert_eq!(score.predicted, every[row].predicted);
    }
}

#[test]
fn a_size_that_does_not_divide_is_refused_with_the_sizes_that_do() {
    let message =
        |config: &Gpt2Config, tp| config.check_tensor_parallel(tp).unwrap_err().to_string();
    let xl = Gpt2Config { hidden_size: 1600, num_attention_heads: 25, ..small_config() };
    assert_eq!(
        message(&xl, 4),
        "25 attention heads cannot be split over --tp 4; allowed: 1, 5, 25"
    );
    let odd = Gpt2Config { hidden_size: 30, ..small_config() };
    assert_eq!(message(&odd, 1), "hidden_size = 30: must be a multiple of num_attention_heads = 4");
    let ffn = Gpt2Config { ffn_hidden_size: Some(50), ..small_config() };
    assert_eq!(message(&ffn, 4), "ffn_hidden_size = 50 cannot be split over --tp 4; allowed: 1, 2");
    assert!(small_config().check_tensor_parallel(4).is_ok(), "any vocabulary is padded");
    assert!(small_config().check_tensor_parallel(0).is_err());
}

#[test]
fn a_model_that_does_not_split_asks_its_source_for_nothing() {
    struct Untouched;
    impl ParameterSource for Untouched {
        fn local(&self, _: &ParameterSpec, _: usize, _: usize) -> Result<Vec<f32>, TrainError> {
            panic!("nothing is allocated for a model that cannot be split")
        }
    }
    let result = launch(ParallelDims::one_replica(3), |rank| {
        let (config, device) = (small_config(), Default::default());
        Gpt2::<CpuAutodiff>::init(&config, &Untouched, &rank.tensor_parallel, &device).map(|_| ())
    });
    let message = result.unwrap_err().to_string();
    assert!(message.contains("4 attention heads cannot be split over --tp 3"), "{message}");
}

#[test]
fn the_models_files_know_no_rank_and_no_vendor() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("training/src/model");
    let foreign =
        ["rank", ".size()", "parallel_size", "collective", "all_reduce", "nccl", "cuda", "cpu"];
    let mut num_files = 0;
    let mut paths: Vec<_> =
        fs::read_dir(model).unwrap().map(|entry| entry.unwrap().path()).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        num_files += 1;
        for (line, number) in fs::read_to_string(&path).unwrap().lines().zip(1..) {
            let lower = line.to_lowercase();
            let found = foreign.iter().find(|&&word| lower.contains(word));
            assert_eq!(found, None, "{}:{number}: {line}", path.display());
        }
    }
    assert!(num_files > 5, "the model's files are where this test looks");
}
