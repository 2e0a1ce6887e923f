//! Speed of GPT-2's tokenizer, alone and on the road to a shard, in megabytes of text per second.
//!
//! `cargo bench -p corpus --bench tokenize [-- FILE [THREADS]]` on the texts of FILE (`*.jsonl` by
//! its key `text`, anything else by line), or on made-up words. The texts are divided into rounds, so
//! that every round meets new ones, as a long run does: an encoder remembers the words that it has
//! seen, and on a text that it has seen whole it is twice as fast. Encoder and road have a tokenizer
//! each and take turns on the same texts. The road must not be slower by more than a tenth.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use corpus::shard::{ShardBlock, ShardWriter};
use corpus::tokenizer::{EncodeScratch, Gpt2Tokenizer, Tokenizer};
use rayon::prelude::*;

const ROUNDS: usize = 7;

/// Text of a block: what one thread encodes at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Blocks of a round, for each thread: encoded while those of the round before are written.
const ROUND_BLOCKS_PER_THREAD: usize = 32;

fn main() {
    // Cargo adds the flag --bench.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let file = arguments.next();
    let threads = arguments.next().map_or(2, |threads| threads.parse().expect("a number"));
    let texts = match &file {
        Some(path) => texts_of(Path::new(path)),
        None => made_up_text(32 << 20).split_inclusive('\n').map(str::to_owned).collect(),
    };
    println!(
        "{:.1} MB in {} texts of {}",
        megabytes(&texts),
        texts.len(),
        file.as_deref().unwrap_or("made-up words")
    );
    println!("{:<34}{:>9}{:>18}", "MB/s", "median", "lowest to highest");
    let rounds: Vec<&[String]> = texts.chunks(texts.len().div_ceil(ROUNDS)).collect();

    let tokenizer = Gpt2Tokenizer::new();
    let one = rounds.iter().map(|texts| speed(texts, || encode_all(&tokenizer, texts)));
    row("one thread, the encoder alone", one.collect());

    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let (encoder, tokenizer) = (Gpt2Tokenizer::new(), Gpt2Tokenizer::new());
    let folder = tempfile::tempdir().expect("a writable folder");
    let mut shard = ShardWriter::create(&folder.path().join("corpus"), tokenizer.vocab_size())
        .expect("a new shard");
    let (mut alone, mut road) = (Vec::new(), Vec::new());
    pool.install(|| {
        for texts in rounds {
            let blocks = in_blocks(texts);
            alone.push(speed(texts, || encode_blocks(&encoder, &blocks)));
            road.push(speed(texts, || write_blocks(&tokenizer, &blocks, &mut shard)));
        }
    });
    let alone = row(&format!("{threads} threads, the encoder alone"), alone);
    let road = row(&format!("{threads} threads, into a shard"), road);
    println!("the road takes {:.1}% longer than the encoder", 100.0 * (alone / road - 1.0));
    let start = Instant::now();
    shard.finish().expect("room for a shard");
    println!("the shard is on disk after another {:.2} s", start.elapsed().as_secs_f64());
}

/// Prints a row of speeds and returns their median.
fn row(name: &str, mut speeds: Vec<f64>) -> f64 {
    speeds.sort_by(f64::total_cmp);
    let median = speeds[speeds.len() / 2];
    let spread = format!("{:.1} to {:.1}", speeds[0], speeds[speeds.len() - 1]);
    println!("{name:<34}{median:>9.1}{spread:>18}");
    median
}

/// Megabytes of `texts` per second of `work`.
fn speed(texts: &[String], work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    megabytes(texts) / start.elapsed().as_secs_f64()
}

fn megabytes(texts: &[String]) -> f64 {
    texts.iter().map(String::len).sum::<usize>() as f64 / 1e6
}

/// Hands the tokens of a text to `sink`.
fn encode(
    tokenizer: &Gpt2Tokenizer,
    text: &str,
    scratch: &mut EncodeScratch,
    mut sink: impl FnMut(&[u32]),
) {
    let mut go_on = |tokens: &[u32]| {
        sink(tokens);
        ControlFlow::Continue(())
    };
    tokenizer.encode_to(text, scratch, &mut go_on).expect("GPT-2 has tokens for every text");
}

fn encode_all(tokenizer: &Gpt2Tokenizer, texts: &[String]) {
    let mut scratch = EncodeScratch::default();
    for text in texts {
        encode(tokenizer, text, &mut scratch, |tokens| {
            std::hint::black_box(tokens);
        });
    }
}

fn encode_blocks(tokenizer: &Gpt2Tokenizer, blocks: &[&[String]]) {
    blocks.par_iter().for_each(|texts| encode_all(tokenizer, texts));
}

/// The road as the stage that writes a corpus goes it: blocks are encoded while those before are
/// written.
fn write_blocks(tokenizer: &Gpt2Tokenizer, blocks: &[&[String]], shard: &mut ShardWriter) {
    let mut unwritten: Vec<ShardBlock> = Vec::new();
    for round in blocks.chunks(ROUND_BLOCKS_PER_THREAD * rayon::current_num_threads()) {
        let encode = || round.par_iter().map(|texts| block_of(tokenizer, texts)).collect();
        let write = || {
            for block in unwritten.drain(..) {
                shard.push_block(&block).expect("room for a shard");
            }
        };
        let (encoded, ()) = rayon::join(encode, write);
        unwritten = encoded;
    }
    for block in unwritten {
        shard.push_block(&block).expect("room for a shard");
    }
}

fn block_of(tokenizer: &Gpt2Tokenizer, texts: &[String]) -> ShardBlock {
    let mut block = ShardBlock::new(tokenizer.vocab_size());
    let mut scratch = EncodeScratch::default();
    for text in texts {
        encode(tokenizer, text, &mut scratch, |tokens| block.push_tokens(tokens));
        block.push_tokens(&[tokenizer.eod()]);
        block.end_document();
    }
    block
}

/// Texts in runs of about [`BLOCK_BYTES`].
fn in_blocks(texts: &[String]) -> Vec<&[String]> {
    let mut bytes = 0;
    texts
        .chunk_by(|text, _| {
            let block = bytes / BLOCK_BYTES;
            bytes += text.len();
            bytes / BLOCK_BYTES == block
        })
        .collect()
}

/// The texts of a file.
fn texts_of(path: &Path) -> Vec<String> {
    let content = std::fs::read_to_string(path).expect("a file of UTF-8 text");
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        let text_of = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
            record["text"].as_str().expect("the key text").to_owned()
        };
        content.lines().map(text_of).collect()
    } else {
        content.split_inclusive('\n').map(str::to_owned).collect()
    }
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
