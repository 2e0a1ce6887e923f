//! Speed of reading training samples out of a shard, in millions of tokens per second.
//!
//! `cargo bench -p corpus --bench shard_read`: samples of 1,025 tokens in order and in random
//! order, from a shard that lies in the system's cache.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::Instant;

use corpus::shard::{ShardReader, ShardWriter};

const ROUNDS: usize = 9;
const DOCUMENTS: u32 = 40_000;
const DOCUMENT_TOKENS: u32 = 1_000;
const SAMPLE_TOKENS: usize = 1_025;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    println!(
        "{} MB of 16-bit tokens, samples of {SAMPLE_TOKENS}",
        DOCUMENTS * DOCUMENT_TOKENS / 500_000
    );
    println!("{:<28}{:>9}{:>18}", "million tokens/s", "median", "lowest to highest");
    for (name, vocab_size) in [("16 bits", 50_257), ("32 bits", 119_547)] {
        let stem = folder.path().join(vocab_size.to_string());
        let mut writer = ShardWriter::create(&stem, vocab_size).expect("a new shard");
        for document in 0..DOCUMENTS {
            let tokens: Vec<u32> =
                (0..DOCUMENT_TOKENS).map(|place| (document * 7 + place) % 50_257).collect();
            writer.push_document(&tokens).expect("room for a shard");
        }
        writer.finish().expect("room for a shard");
        let reader = ShardReader::open(&stem).expect("the shard just written");
        let samples = reader.num_tokens() / SAMPLE_TOKENS as u64;
        row(&format!("{name}, in order"), &reader, (0..samples).collect());
        // A multiplier without a common factor visits every sample once.
        let shuffled = (0..samples).map(|sample| sample * 7_919 % samples).collect();
        row(&format!("{name}, shuffled"), &reader, shuffled);
    }
}

/// Prints how fast the samples at these places are read.
fn row(name: &str, reader: &ShardReader, samples: Vec<u64>) {
    let mut sample = vec![0; SAMPLE_TOKENS];
    let mut checksum = 0_u64;
    let mut speeds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for &place in &samples {
                reader
                    .read(place * SAMPLE_TOKENS as u64, &mut sample)
                    .expect("a sample of the shard");
                checksum += u64::from(sample[SAMPLE_TOKENS / 2]);
            }
            (samples.len() * SAMPLE_TOKENS) as f64 / 1e6 / start.elapsed().as_secs_f64()
        })
        .collect();
    std::hint::black_box(checksum);
    speeds.sort_by(f64::total_cmp);
    let spread = format!("{:.0} to {:.0}", speeds[0], speeds[ROUNDS - 1]);
    println!("{name:<28}{:>9.0}{spread:>18}", speeds[ROUNDS / 2]);
}
