//! What the order of samples costs for the paper's run: 300,000 steps of 512 samples.
//!
//! ```text
//! cargo bench -p training --bench sample_order
//! ```
//!
//! Prints the time and memory of the tables of `order = "megatron"` over eight million documents of
//! 1,100 tokens, of the notes of blends, and the time to find a global batch in each. The data is a
//! shard of holes in a temporary folder: only its index, 160 MB, is on the disk.
//!
//! Then the same for BERT's pairs of sentences, of 512 tokens: the map of one epoch, and the time to
//! make the samples of a global batch of 1,024, which every rank does to know how many tokens are
//! to be predicted in it.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use corpus::shard::ShardReader;
use corpus::{Silent, machine, tokenizer};
use training::data::{
    Blend, MaskedLmConfig, Masking, MegatronIndex, OrderedSamples, PairRecipe, SampleOrder,
    Samples, SentencePairs, SourceSamples, TokenStream,
};

const STEPS: u64 = 300_000;
const BATCH: u64 = 512;
const SEQ_LENGTH: usize = 1_024;
const DOCUMENTS: u64 = 8_000_000;
const DOCUMENT_TOKENS: u64 = 1_100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("sample-order-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let stem = folder.join("sparse");
    write_shard(&stem, DOCUMENTS, 1, DOCUMENT_TOKENS)?;
    let shard = Arc::new(ShardReader::open(&stem)?);
    let stream = TokenStream::new(&shard, 0..DOCUMENTS);

    let keyed =
        OrderedSamples::new(Samples::new(&shard, 0..DOCUMENTS, SEQ_LENGTH), SampleOrder::Keyed, 1);
    report("keyed", 0.0, 0, &mut |position| keyed.ids(position..position + BATCH).sum());

    for weights in [&[0.7, 0.3][..], &[0.999, 0.001], &[1.0 / 3.0, 0.123_456_789_1], &odd(20)] {
        let groups: Vec<_> = weights.iter().map(|&weight| (weight, vec![1.0])).collect();
        let (started, before) = (Instant::now(), held());
        let blend = Blend::new(&groups, STEPS * BATCH, &Silent)?;
        let name = match weights {
            [first, second] => format!("blend of {first} and {second}"),
            weights => format!("blend of {} odd weights", weights.len()),
        };
        report(&name, started.elapsed().as_secs_f64(), held() - before, &mut |position| {
            blend.draws(position).take(BATCH as usize).map(|draw| draw.position).sum()
        });
    }

    let (started, before) = (Instant::now(), held());
    let index = MegatronIndex::build(&stream, SEQ_LENGTH, STEPS * BATCH, 1234, None, &Silent)?;
    let name = format!("megatron, {} epochs", index.epochs());
    report(&name, started.elapsed().as_secs_f64(), held() - before, &mut |position| {
        let samples = (position..position + BATCH).map(|position| index.sample_at(position));
        samples.map(|sample| index.row(&stream, sample).1).sum()
    });
    drop((keyed, stream, shard));
    sentence_pairs(&folder)?;
    Ok(fs::remove_dir_all(&folder)?)
}

/// Lines for pairs of sentences.
fn sentence_pairs(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    const DOCUMENTS: u64 = 400_000;
    const SENTENCES: u64 = 24;
    const SENTENCE_TOKENS: u64 = 28;
    const BERT_BATCH: u64 = 1_024;
    let stem = folder.join("sentences");
    write_shard(&stem, DOCUMENTS, SENTENCES, SENTENCE_TOKENS)?;
    let shard = Arc::new(ShardReader::open(&stem)?);
    let config = MaskedLmConfig::default();
    let vocabulary = Arc::new(tokenizer::open("bert")?.masked_vocabulary()?);
    let masking = Arc::new(Masking::new(&config, vocabulary));
    let recipe = PairRecipe { seq_length: 512, short_seq_prob: config.short_seq_prob, masking };
    let (started, before) = (Instant::now(), held());
    let stream = TokenStream::new(&shard, 0..DOCUMENTS);
    let pairs = SentencePairs::new(stream, &recipe, SampleOrder::Keyed, 0, 1234, &Silent)?;
    let (seconds, bytes) = (started.elapsed().as_secs_f64(), held() - before);
    let samples = Samples::of_sources(vec![SourceSamples::SentencePairs(pairs)]);
    let name = format!("map of {} pairs, {} sentences", samples.len(), DOCUMENTS * SENTENCES);
    let ordered = OrderedSamples::new(samples, SampleOrder::Keyed, 1);
    println!("{name:<40} made in {seconds:6.2} s, {:7.1} MB", bytes as f64 / 1e6);
    let mut times = Vec::new();
    for batch in 0..40 {
        let places = batch * BERT_BATCH..(batch + 1) * BERT_BATCH;
        let started = Instant::now();
        ordered.scored_targets(&places)?;
        times.push(started.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!(
        "a batch of {BERT_BATCH} pairs masked and counted in {:.1} ms on all threads ({:.1} to {:.1})",
        times[20] * 1e3,
        times[0] * 1e3,
        times[39] * 1e3
    );
    Ok(())
}

/// Weights whose common denominator is out of reach.
fn odd(count: u32) -> Vec<f64> {
    (1..=count).map(|source| f64::from(source).sqrt()).collect()
}

/// A line: time to make, memory, and time to find the samples of a global batch.
fn report(name: &str, seconds: f64, bytes: u64, find: &mut dyn FnMut(u64) -> u64) {
    const BATCHES: u64 = 200;
    let started = Instant::now();
    let mut sum = 0_u64;
    for batch in 0..BATCHES {
        sum = sum.wrapping_add(find(batch * (STEPS / BATCHES) * BATCH));
    }
    let found = started.elapsed().as_secs_f64() / BATCHES as f64;
    println!(
        "{name:<40} made in {seconds:6.2} s, {:7.1} MB; a batch of {BATCH} found in {:7.1} µs ({sum:x})",
        bytes as f64 / 1e6,
        found * 1e6
    );
}

/// Bytes that the process holds for itself.
fn held() -> u64 {
    machine::anonymous_bytes().unwrap_or(0)
}

/// A shard of tokens of one byte, none of which is on the disk: documents of so many sequences of so
/// many tokens.
fn write_shard(stem: &Path, documents: u64, sequences: u64, tokens: u64) -> std::io::Result<()> {
    let all_sequences = documents * sequences;
    let mut index = BufWriter::new(File::create(stem.with_extension("idx"))?);
    index.write_all(b"MMIDIDX\0\0")?;
    index.write_all(&1_u64.to_le_bytes())?;
    index.write_all(&[1])?;
    index.write_all(&all_sequences.to_le_bytes())?;
    index.write_all(&(documents + 1).to_le_bytes())?;
    for _ in 0..all_sequences {
        index.write_all(&(tokens as i32).to_le_bytes())?;
    }
    for sequence in 0..all_sequences {
        index.write_all(&(sequence * tokens).to_le_bytes())?;
    }
    for document in 0..=documents {
        index.write_all(&(document * sequences).to_le_bytes())?;
    }
    index.flush()?;
    let data = File::create(stem.with_extension("bin"))?;
    data.set_len(all_sequences * tokens)
}
