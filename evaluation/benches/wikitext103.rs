//! How much of the speed of matrix products the scoring of WikiText103 reaches: `cargo bench --bench
//! wikitext103`.
//!
//! Made-up tokens are scored in windows of 1,024 that begin every 1,024 tokens, with the batches of
//! the task, by models with made-up weights. In turn with that run the matrix products of the same
//! batches and nothing else. The share is how long these take to how long the scoring takes. Nothing
//! is asserted.
//!
//! `cargo bench --bench wikitext103 -- [6x384|12x768] [--batch N]`

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::env;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use corpus::tokenizer::Gpt2Tokenizer;
use corpus::{Silent, Unit};
use evaluation::windows::OverlapWindows;
use evaluation::{CheckpointKind, EvalConfig, EvaluatedModel, ModelIdentity, Stage};
use rayon::prelude::*;
use training::architecture::Architecture;
use training::backend::Activation;
use training::backend::cpu::buffers;
use training::backend::cpu::matrix::{Matrix, MatrixMut, Write, multiply, multiply_here};
use training::inference::{Scorer, Window};
use training::model::{Gpt2Config, KeyedInit};

/// Any error: a benchmark only tells it.
type Failure = Box<dyn std::error::Error>;

/// Tokens of a window, and between the starts of two.
const WINDOW: usize = 1024;
const VOCABULARY: usize = 50_257;
const ROUNDS: usize = 5;

/// A name, layers, width and heads.
const MODELS: [(&str, usize, usize, usize); 2] = [("6x384", 6, 384, 6), ("12x768", 12, 768, 12)];

fn main() -> Result<(), Failure> {
    let mut models = MODELS.to_vec();
    let mut batch = EvalConfig::default().micro_batch_size;
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {} // cargo's own
            "--batch" => batch = arguments.next().ok_or("--batch takes a number")?.parse()?,
            name => models.retain(|model| model.0 == name),
        }
    }
    let threads = rayon::current_num_threads();
    println!(
        "windows of {WINDOW} tokens, {batch} in a batch, {threads} threads; medians of {ROUNDS}, \
         slowest to fastest share\n"
    );
    println!("| model  | tokens/s | scoring, GFLOP/s | products, GFLOP/s | share |       spread |");
    println!("|--------|---------:|-----------------:|------------------:|------:|-------------:|");
    for (name, layers, hidden, heads) in models {
        let config = config(layers, hidden, heads);
        let (scoring, products) = measure(&config, batch)?;
        let operations = Products::new(&config, batch.get()).operations();
        let mut shares: Vec<f64> =
            scoring.iter().zip(&products).map(|(all, own)| own / all).collect();
        let [share, scoring, products] =
            [&mut shares.clone(), &mut scoring.clone(), &mut products.clone()].map(|v| median(v));
        median(&mut shares);
        println!(
            "| {name:<6} | {:>8.0} | {:>16.1} | {:>17.1} | {:>4.0}% | {:>12} |",
            (batch.get() * WINDOW) as f64 / scoring,
            operations / scoring / 1e9,
            operations / products / 1e9,
            share * 100.0,
            format!("{:.0} to {:.0}%", shares[0] * 100.0, shares[ROUNDS - 1] * 100.0),
        );
    }
    Ok(())
}

/// Sorts and takes the one in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn config(num_layers: usize, hidden_size: usize, num_attention_heads: usize) -> Gpt2Config {
    Gpt2Config {
        num_layers,
        hidden_size,
        num_attention_heads,
        seq_length: WINDOW,
        vocab_size: VOCABULARY,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    }
}

/// Seconds of each round: of the scoring of a batch, and of its products alone.
fn measure(config: &Gpt2Config, batch: NonZeroUsize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let identity = ModelIdentity {
        checkpoint: PathBuf::new(),
        kind: CheckpointKind::Trained,
        step: Some(0),
        architecture: Architecture::Gpt2(config.clone()),
        split_weights: None,
        masked_lm: None,
        tokenizer: Arc::new(Gpt2Tokenizer::new()),
    };
    let scorer = Scorer::new(config, KeyedInit { seed: 1 }, NonZeroUsize::MIN)?;
    let mut model = EvaluatedModel::new(identity, scorer);
    let overlap = NonZeroUsize::new(WINDOW).ok_or("a window is not empty")?;
    let tokens = 0..=(batch.get() * WINDOW) as u32;
    let tokens: Vec<u32> = tokens.map(|i| i * 7919 % VOCABULARY as u32).collect();
    let windows: Vec<Window<'_>> =
        OverlapWindows::new(&tokens, WINDOW, overlap).scoring().collect();
    let stage = Stage { name: "wikitext103", unit: Unit::Windows, windows: &windows };
    let mut products = Products::new(config, batch.get());

    let (mut scoring, mut alone) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let start = Instant::now();
        model.score(&stage, batch, &Silent)?;
        let scored = start.elapsed().as_secs_f64();
        let start = Instant::now();
        products.run();
        // The first round warms up.
        if round > 0 {
            scoring.push(scored);
            alone.push(start.elapsed().as_secs_f64());
        }
    }
    Ok((scoring, alone))
}

/// The matrix products of the scoring of a batch, on made-up numbers.
struct Products {
    layers: usize,
    batch: usize,
    hidden: usize,
    heads: usize,
    /// As many numbers as the largest left side, right side and output have.
    left: Vec<f32>,
    right: Vec<f32>,
    output: Vec<f32>,
}

/// Rows whose logits exist together.
const CHUNK: usize = 512;
/// Queries of a head that are computed together, with the keys up to the last of them.
const QUERIES: usize = 64;

impl Products {
    fn new(config: &Gpt2Config, batch: usize) -> Self {
        let (rows, hidden) = (batch * WINDOW, config.hidden_size);
        let numbers = |len: usize| (0..len).map(|i| (i % 17) as f32 * 0.01).collect();
        Self {
            layers: config.num_layers,
            batch,
            hidden,
            heads: config.num_attention_heads,
            left: numbers(rows * 4 * hidden),
            right: numbers(VOCABULARY * hidden),
            output: vec![0.0; (rows * 4 * hidden).max(CHUNK * VOCABULARY)],
        }
    }

    /// Inner dimension and columns of the four products of a layer.
    fn of_layer(&self) -> [[usize; 2]; 4] {
        let hidden = self.hidden;
        [[hidden, 3 * hidden], [hidden, hidden], [hidden, 4 * hidden], [4 * hidden, hidden]]
    }

    /// Additions and multiplications of all of them.
    fn operations(&self) -> f64 {
        let tokens = (self.batch * WINDOW) as f64;
        let layer: usize = self.of_layer().iter().map(|[k, n]| k * n).sum();
        // Scores, and probabilities times values, over the keys of each block of queries.
        let keys: usize = (QUERIES..=WINDOW).step_by(QUERIES).sum();
        let attention = 2.0 * (keys * QUERIES * self.hidden) as f64 / WINDOW as f64;
        let head = (VOCABULARY * self.hidden) as f64;
        2.0 * tokens * (self.layers as f64 * (layer as f64 + attention) + head)
    }

    fn run(&mut self) {
        let (rows, hidden) = (self.batch * WINDOW, self.hidden);
        for _ in 0..self.layers {
            for [k, n] in self.of_layer() {
                let (left, right) = (&self.left[..rows * k], &self.right[..k * n]);
                let output = &mut self.output[..rows * n];
                multiply(Matrix::new(left, k), Matrix::new(right, n), output, Write::Replace);
            }
            self.attention();
        }
        for left in self.left[..rows * hidden].chunks(CHUNK * hidden) {
            let table = Matrix::new(&self.right, hidden).transposed();
            let output = &mut self.output[..left.len() / hidden * VOCABULARY];
            multiply(Matrix::new(left, hidden), table, output, Write::Replace);
        }
    }

    /// Of one layer, where a task has a block of queries of all heads.
    fn attention(&self) {
        let (hidden, head_size) = (self.hidden, self.hidden / self.heads);
        let part = |rows: usize, column: usize| {
            Matrix::strided(&self.left[column..], rows, head_size, 3 * hidden)
        };
        let tasks = (0..self.batch).flat_map(|_| (QUERIES..=WINDOW).step_by(QUERIES));
        tasks.collect::<Vec<_>>().into_par_iter().for_each(|keys| {
            // As the scoring does: memory that is used again.
            let mut scores = buffers::take(QUERIES * keys);
            let mut context = buffers::take(QUERIES * head_size);
            for head in 0..self.heads {
                let column = head * head_size;
                let (query, key) = (part(QUERIES, column), part(keys, hidden + column));
                let output = MatrixMut::new(&mut scores, keys);
                multiply_here(query, key.transposed(), output, Write::Replace);
                let probabilities = Matrix::new(&scores, keys);
                let output = MatrixMut::new(&mut context, head_size);
                multiply_here(
                    probabilities,
                    part(keys, 2 * hidden + column),
                    output,
                    Write::Replace,
                );
            }
        });
    }
}
