//! How fast a model writes: `cargo bench --bench generation`.
//!
//! Prints one table for a small GPT-2: reading a prompt, and new tokens with and without the cache
//! of keys and values, for one text and for several, on one rank and on two that share the machine.
//! Medians of several runs with their spread; the ways are taken in turn, so that a busy moment of
//! the machine hits all alike. Nothing is asserted.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use corpus::Silent;
use training::TrainError;
use training::backend::Activation;
use training::generation::{GenerationRequest, Generator, Sampling};
use training::model::{Gpt2Config, KeyedInit};

const MODEL: Gpt2Config = Gpt2Config {
    num_layers: 6,
    hidden_size: 384,
    num_attention_heads: 6,
    seq_length: 256,
    vocab_size: 50_257,
    ffn_hidden_size: None,
    hidden_dropout: 0.0,
    attention_dropout: 0.0,
    activation: Activation::Gelu,
    layer_norm_epsilon: 1e-5,
    // So large that predictions are as sharp as those of a trained model.
    init_std: 0.2,
};
const RUNS: usize = 5;
const PROMPT: usize = 128;

/// One way to write.
struct Way {
    what: &'static str,
    ranks: usize,
    samples: usize,
    tokens: usize,
    use_cache: bool,
    sampling: Sampling,
}

fn main() -> Result<(), TrainError> {
    let way = |what, ranks, samples, tokens, use_cache| {
        let sampling = Sampling::greedy();
        Way { what, ranks, samples, tokens, use_cache, sampling }
    };
    let cut = Sampling { temperature: 0.8, top_p: 0.95, ..Sampling::default() };
    let ways = [
        way("without cache", 1, 1, 8, false),
        way("with cache", 1, 1, 100, true),
        Way { sampling: cut, ..way("with cache, top-p 0.95", 1, 1, 100, true) },
        way("with cache, 8 texts", 1, 8, 100, true),
        way("with cache", 2, 1, 100, true),
    ];
    let generator = |ranks| Generator::new(&MODEL, KeyedInit { seed: 1 }, count(ranks));
    let mut generators = [generator(1)?, generator(2)?];
    let mut prompt_rates = Vec::new();
    let mut rates = vec![Vec::new(); ways.len()];
    for run in 0..=RUNS {
        for (way, rates) in ways.iter().zip(&mut rates) {
            let generator = &mut generators[way.ranks - 1];
            let (_, speed) = generator
                .generate(&way.request(), &Silent, &mut |_, _| ControlFlow::Continue(()))?;
            // The first run warms up.
            if run > 0 {
                // The first token of each text comes with the prompt.
                let drawn = speed.drawn_tokens - way.samples;
                rates.push(drawn as f64 / speed.continuation.as_secs_f64());
                if way.ranks == 1 {
                    prompt_rates.push(PROMPT as f64 / speed.prompt.as_secs_f64());
                }
            }
        }
    }
    println!("GPT-2 of 6 layers, 384 wide; a prompt of {PROMPT} tokens");
    println!("{:<28}{:>6}{:>12}{:>18}", "what", "ranks", "tokens/s", "slowest, fastest");
    row("prompt", 1, prompt_rates);
    for (way, rates) in ways.iter().zip(rates) {
        row(way.what, way.ranks, rates);
    }
    Ok(())
}

impl Way {
    fn request(&self) -> GenerationRequest {
        let prompt = (0..PROMPT as u32).map(|i| i * 7919 % 50_257).collect();
        GenerationRequest {
            sampling: self.sampling,
            num_samples: count(self.samples),
            use_cache: self.use_cache,
            ..GenerationRequest::new(prompt, count(self.tokens))
        }
    }
}

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).expect("counts here are above 0")
}

fn row(what: &str, ranks: usize, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    let (slowest, median, fastest) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    let spread = format!("{slowest:.0} to {fastest:.0}");
    println!("{what:<28}{ranks:>6}{median:>12.1}{spread:>18}");
}
