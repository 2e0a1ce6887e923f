//! Speed of GPT-2's tokenizer, in megabytes of text per second.
//!
//! `cargo bench -p corpus --bench tokenize [-- FILE]` on the text of FILE, or on made-up words.
//! Cold is a tokenizer's first text, warm a text whose words it has seen: its cache is what makes
//! the difference.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::Instant;

use corpus::tokenizer::{Gpt2Tokenizer, Tokenizer};
use rayon::prelude::*;

const ROUNDS: usize = 7;

fn main() {
    // Cargo adds the flag --bench.
    let file = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let text = match &file {
        Some(path) => std::fs::read_to_string(path).expect("a file of UTF-8 text"),
        None => made_up_text(8 << 20),
    };
    println!("{:.1} MB, {}", megabytes(&text), file.as_deref().unwrap_or("made-up words"));
    println!("{:<28}{:>9}{:>18}", "MB/s", "median", "lowest to highest");

    let mut tokens = Vec::new();
    row("one thread, cold", &text, || {
        let tokenizer = Gpt2Tokenizer::new();
        let start = Instant::now();
        tokenizer.encode(&text, &mut tokens).expect("tokens for every text");
        start
    });
    let tokenizer = Gpt2Tokenizer::new();
    row("one thread, warm", &text, || {
        tokens.clear();
        let start = Instant::now();
        tokenizer.encode(&text, &mut tokens).expect("tokens for every text");
        start
    });
    let documents: Vec<&str> = text.split_inclusive("\n").collect();
    row("all threads, by line, warm", &text, || {
        let start = Instant::now();
        documents.par_iter().for_each_init(Vec::new, |tokens, document| {
            tokens.clear();
            tokenizer.encode(document, tokens).expect("tokens for every text");
        });
        start
    });
}

/// Prints how fast `round` works through `text`; it returns when its work began.
fn row(name: &str, text: &str, mut round: impl FnMut() -> Instant) {
    let mut speeds: Vec<f64> =
        (0..ROUNDS).map(|_| megabytes(text) / round().elapsed().as_secs_f64()).collect();
    speeds.sort_by(f64::total_cmp);
    let spread = format!("{:.1} to {:.1}", speeds[0], speeds[ROUNDS - 1]);
    println!("{name:<28}{:>9.1}{spread:>18}", speeds[ROUNDS / 2]);
}

fn megabytes(text: &str) -> f64 {
    text.len() as f64 / 1e6
}

/// Words of two to nine letters out of some 100,000, in lines.
fn made_up_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut state = 1_u64;
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut word = (state >> 33) % 100_000;
        word = word * word % 99_991;
        for _ in 0..2 + word % 8 {
            text.push(char::from(b"etaoinshrdlucmfwypvbgkjqxz"[(word % 26) as usize]));
            word = word * 31 % 99_991;
        }
        text.push(if state >> 60 == 0 { '\n' } else { ' ' });
    }
    text
}
