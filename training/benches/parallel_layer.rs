//! How fast the parts of a training step are: `cargo bench --bench parallel_layer`.
//!
//! Prints one table: the head with its loss, one transformer layer, and the all-reduce by message
//! size, each for one rank and for two that share the machine. Nothing is asserted.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::Instant;

use burn::tensor::{Distribution, Int, Tensor, TensorData};
use training::TrainError;
use training::backend::CpuAutodiff;
use training::model::{Gpt2, Gpt2Config, KeyedInit};
use training::parallel::collective::ReduceOp;
use training::parallel::random::DropoutKey;
use training::parallel::{LmHead, ParallelDims, Rank, Targets, VocabularyRange, launch};

type T<const D: usize> = Tensor<CpuAutodiff, D>;

const BATCH: usize = 4;
const SEQ: usize = 256;
const HIDDEN: usize = 384;
const VOCABULARY: usize = 50_257;

fn main() -> Result<(), TrainError> {
    println!("{:<44}{:>6}{:>12}{:>14}", "what", "ranks", "ms", "rate");
    for ranks in [1, 2] {
        for hidden in [128, HIDDEN] {
            let seconds = measure(ranks, |rank| head(rank, hidden))?;
            let products = 3.0 * 2.0 * (BATCH * SEQ * VOCABULARY * hidden) as f64;
            let what = format!("head and loss, forward and backward, H {hidden}");
            row(&what, ranks, seconds, products / 1e9, "GFLOP/s");
        }
        for (what, dropout) in [("", None), (", dropout", Some(0.1))] {
            let seconds = measure(ranks, |rank| layers(rank, dropout.unwrap_or(0.0)))?;
            // Three times the products of the weights and of the attention.
            let per_token = 2.0 * (12 * HIDDEN * HIDDEN + 2 * SEQ * HIDDEN) as f64;
            let products = 3.0 * (BATCH * SEQ * LAYERS) as f64 * per_token;
            let what = format!("{LAYERS} layers, forward and backward, H {HIDDEN}{what}");
            row(&what, ranks, seconds, products / 1e9, "GFLOP/s");
        }
    }
    for numbers in [512, 16 * 1024, 256 * 1024, 4 << 20] {
        let seconds = measure(2, |rank| all_reduce(rank, numbers))?;
        let what = format!("all-reduce of {numbers} numbers");
        row(&what, 2, seconds, numbers as f64 * 4.0 / 1e9, "GB/s");
    }
    Ok(())
}

fn row(what: &str, ranks: usize, seconds: f64, amount: f64, unit: &str) {
    let rate = format!("{:.1} {unit}", amount / seconds);
    println!("{what:<44}{ranks:>6}{:>12.3}{rate:>14}", seconds * 1e3);
}

/// Seconds of the fastest of several calls of what `prepare` returns, on all ranks at once.
fn measure<F: FnMut()>(
    ranks: usize,
    prepare: impl Fn(&Rank) -> Result<F, TrainError> + Sync,
) -> Result<f64, TrainError> {
    const CALLS: usize = 7;
    let seconds = launch(ParallelDims::one_replica(ranks), |rank| {
        let mut call = prepare(&rank)?;
        call();
        let mut fastest = f64::INFINITY;
        for _ in 0..CALLS {
            rank.tensor_parallel.collective().barrier("bench")?;
            let start = Instant::now();
            call();
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        Ok(fastest)
    })?;
    Ok(seconds.into_iter().fold(0.0, f64::max))
}

fn made_up<const D: usize>(shape: [usize; D]) -> T<D> {
    T::random(shape, Distribution::Normal(0.0, 0.1), &Default::default())
}

fn head(rank: &Rank, hidden: usize) -> Result<impl FnMut() + use<>, TrainError> {
    let head = LmHead::new("head", VOCABULARY, &rank.tensor_parallel);
    let rows = VocabularyRange::new(VOCABULARY, &rank.tensor_parallel).rows;
    let states = made_up([BATCH, SEQ, hidden]).require_grad();
    let table = made_up([rows, hidden]).require_grad();
    let positions = BATCH * SEQ;
    let targets: Vec<u32> = (0..positions as u32).map(|i| i * 49 % VOCABULARY as u32).collect();
    let targets = Targets::new(&targets, &vec![1.0 / positions as f32; positions]);
    Ok(move || drop(head.loss(states.clone(), table.clone(), None, &targets).backward()))
}

const LAYERS: usize = 2;

fn layers(rank: &Rank, dropout: f64) -> Result<impl FnMut() + use<>, TrainError> {
    let config = Gpt2Config {
        num_layers: LAYERS,
        hidden_size: HIDDEN,
        num_attention_heads: HIDDEN / 64,
        seq_length: SEQ,
        vocab_size: 128,
        ffn_hidden_size: None,
        hidden_dropout: dropout,
        attention_dropout: dropout,
        activation: training::backend::Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    };
    let (source, group) = (KeyedInit { seed: 1 }, &rank.tensor_parallel);
    let model = Gpt2::<CpuAutodiff>::init(&config, &source, group, &Default::default())?;
    let tokens = TensorData::new(vec![7_i64; BATCH * SEQ], [BATCH, SEQ]);
    let tokens = Tensor::<CpuAutodiff, 2, Int>::from_data(tokens, &Default::default());
    let key = DropoutKey { seed: 1, step: 1, first_sample: 0 };
    Ok(move || drop(model.hidden_states(tokens.clone(), Some(&key)).sum().backward()))
}

fn all_reduce(rank: &Rank, numbers: usize) -> Result<impl FnMut() + use<>, TrainError> {
    let group = rank.tensor_parallel.clone();
    let mut buffer = vec![1.0; numbers];
    Ok(move || group.all_reduce("bench", &mut buffer, ReduceOp::Sum))
}
