//! The original implementation's order: its generator, its index, and runs in that order.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::shard::ShardReader;
use corpus::{Observer, Silent, Unit};
use serde_json::Value;
use sha2::{Digest, Sha256};
use training::config::ModelConfig;
use training::data::{MegatronIndex, MersenneTwister, SampleOrder, TokenStream};
use training::{TrainError, train};

use super::{StopAfter, Workbench, data_folder, logged, logged_samples, micro, number, steps};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/indexed").join(name)
}

fn expected(key: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixture("expect.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[key].as_array().unwrap().clone()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn generator_shuffles_as_numpy_does() {
    let rows = expected("numpy_legacy_shuffle");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let mut random =
            MersenneTwister::new(u32::try_from(row["seed"].as_u64().unwrap()).unwrap());
        let mut twenty: Vec<u64> = (0..20).collect();
        random.shuffle(&mut twenty, &Silent).unwrap();
        assert_eq!(twenty, numbers::<u64>(&row["shuffle20"]));
        let mut thousand: Vec<i64> = (0..1_000).collect();
        random.shuffle(&mut thousand, &Silent).unwrap();
        assert_eq!(thousand[..10], numbers::<i64>(&row["then_shuffle1000_first10"]));
        let bytes: Vec<u8> = thousand.iter().flat_map(|number| number.to_le_bytes()).collect();
        let hash: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, row["sha256_1000_i64"]);
        let words: Vec<u32> = (0..4).map(|_| random.next_u32()).collect();
        assert_eq!(words, numbers::<u32>(&row["then_u32"]));
        // numpy's random(): 27 and 26 bits of two words.
        let fractions: Vec<f64> = (0..3)
            .map(|_| {
                let (high, low) = (random.next_u32() >> 5, random.next_u32() >> 6);
                (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
            })
            .collect();
        assert_eq!(fractions, numbers::<f64>(&row["then_random"]));
    }
}

#[test]
fn partner_of_an_element_past_32_bits_is_drawn_with_64() {
    let (mut random, mut words) = (MersenneTwister::new(7), MersenneTwister::new(7));
    let max = (1_u64 << 40) - 1;
    let expected = (u64::from(words.next_u32()) << 32 | u64::from(words.next_u32())) & max;
    assert_eq!(random.up_to(max), expected);
    // A whole mask of 32 bits still takes one word.
    assert_eq!(random.up_to(u64::from(u32::MAX)), u64::from(words.next_u32()));
}

fn stream(name: &str) -> TokenStream {
    let shard = Arc::new(ShardReader::open(&fixture(name)).unwrap());
    TokenStream::new(&shard, 0..shard.num_documents())
}

#[test]
fn index_is_that_of_the_original_implementation() {
    let rows = expected("gpt2_index_maps");
    assert_eq!(rows.len(), 4);
    for (row, name) in rows.iter().flat_map(|row| [(row, "gpt2_u16"), (row, "gpt2_i32")]) {
        let documents = numbers::<u64>(&row["documents"]);
        let stream = stream(name).part(&(documents[0]..documents[1]));
        let at = |key: &str| row[key].as_u64().unwrap();
        assert_eq!(stream.num_tokens(), at("tokens_per_epoch"));
        let (seq_length, seed) = (at("seq_length") as usize, at("seed") as u32);
        let index =
            MegatronIndex::build(&stream, seq_length, at("num_samples"), seed, None, &Silent)
                .unwrap();
        assert_eq!(index.epochs(), at("num_epochs"));

        let doc_idx = numbers::<u64>(&row["doc_idx"]);
        let entries = 0..doc_idx.len() as u64;
        let found: Vec<u64> = entries.map(|it| index.document_at(it) + documents[0]).collect();
        assert_eq!(found, doc_idx);
        let sample_idx = numbers::<[u64; 2]>(&row["sample_idx"]);
        assert_eq!(index.num_samples() + 1, sample_idx.len() as u64);
        for (row, sample) in sample_idx.into_iter().zip(0..) {
            assert_eq!(index.row(&stream, sample), row.into(), "sample {sample}");
        }
        let shuffle_idx = numbers::<u64>(&row["shuffle_idx"]);
        let found: Vec<u64> = (0..index.num_samples()).map(|it| index.sample_at(it)).collect();
        assert_eq!(found, shuffle_idx);
        for (tokens, position) in row["first_samples"].as_array().unwrap().iter().zip(0..) {
            let mut found = Vec::new();
            index.read(&stream, index.sample_at(position), &mut found).unwrap();
            assert_eq!(found, numbers::<u32>(tokens), "sample {position}");
        }
    }
}

#[test]
fn index_stops_when_asked_and_tells_what_does_not_fit() {
    let stream = stream("gpt2_u16");
    let stopped = MegatronIndex::build(&stream, 1, 2_000_000, 1, None, &StopAfter::new(0));
    assert!(matches!(stopped, Err(TrainError::Stopped)));
    let error = MegatronIndex::build(&stream, 16, 1_000_000, 1, Some(1 << 20), &Silent);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("data.order = \"megatron\" keeps tables of "), "{error}");
    assert!(error.contains("for 1000005 samples, and this machine has 1.0 MiB"), "{error}");
}

/// Hears of every stage.
#[derive(Default)]
struct Stages(std::sync::Mutex<Vec<(String, u64, u64)>>);

impl Observer for Stages {
    fn begin(&self, stage: &str, total: Option<u64>, _: Unit) {
        self.0.lock().unwrap().push((stage.to_owned(), total.unwrap(), 0));
    }

    fn advance(&self, amount: u64) {
        self.0.lock().unwrap().last_mut().unwrap().2 += amount;
    }

    fn finish(&self) {}
}

#[test]
fn indexing_tells_how_far_it_is() {
    let stages = Stages::default();
    MegatronIndex::build(&stream("gpt2_u16"), 1, 1_500_000, 1, None, &stages).unwrap();
    let stages = stages.0.into_inner().unwrap();
    let names: Vec<_> = stages.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(names, ["shuffle documents", "add up documents", "shuffle samples"]);
    let (_, total, done) = &stages[2];
    assert_eq!((total, done), (&1_500_164, &1_500_164));
}

/// 10,000 tokens in documents of 100, each token another.
fn ten_thousand(folder: &Path) -> PathBuf {
    let documents: Vec<Vec<u32>> =
        (0..100).map(|document| (0..99).map(|it| document * 99 + it).collect()).collect();
    data_folder(folder, 20_000, &documents)
}

#[test]
fn over_three_and_a_half_epochs_each_token_is_used_as_often_as_the_count_says() {
    let folder = tempfile::tempdir().unwrap();
    let data = ten_thousand(&folder.path().join("data"));
    let shard = Arc::new(ShardReader::open(&data.join("corpus")).unwrap());
    let stream = TokenStream::new(&shard, 0..100);
    // 350 samples of 100 are 35,000 tokens: four epochs of documents, of which 399 samples can be
    // cut and which are shuffled with all others.
    let index = MegatronIndex::build(&stream, 100, 350, 3, None, &Silent).unwrap();
    assert_eq!((index.epochs(), index.num_samples()), (4, 399));
    let count = |samples: u64| {
        let mut uses: HashMap<u32, u32> = HashMap::new();
        for position in 0..samples {
            let mut tokens = Vec::new();
            index.read(&stream, index.sample_at(position), &mut tokens).unwrap();
            assert_eq!(tokens.len(), 101);
            tokens[..100].iter().for_each(|&token| *uses.entry(token).or_default() += 1);
        }
        uses
    };
    // All of them but the last 100 tokens of the stream, which no sample reaches as an input.
    let all = count(399);
    assert_eq!(all.values().sum::<u32>(), 39_900);
    assert!(all.iter().filter(|&(&token, _)| token != 19_999).all(|(_, &count)| count <= 4));
    let of_four = all.values().filter(|&&count| count == 4).count();
    assert!(of_four >= 9_900 - 100, "{of_four} tokens are used four times");
    assert_eq!(count(350).values().sum::<u32>(), 35_000);
}

#[test]
fn corpus_of_less_than_a_sample_repeats_its_epochs() {
    let documents = [vec![1; 233], vec![2; 232], vec![3; 232]];
    let workbench = Workbench::with_documents(101, &documents);
    let config = |order| {
        micro(|config| {
            let ModelConfig::Gpt2(section) = &mut config.model else { panic!("a GPT-2") };
            section.seq_length = number(1_024);
            config.data.split = "100,0,0".parse().unwrap();
            config.data.order = order;
        })
    };
    let error = workbench.validate(config(SampleOrder::Keyed)).unwrap_err().to_string();
    assert_eq!(error, "corpus has 700 tokens, one sample needs 1025");
    let plan = workbench.validate(config(SampleOrder::Megatron)).unwrap();
    // 40 samples of 1,024: the least e with (700 e - 1) / 1024 >= 40.
    let samples = plan.train.samples.samples();
    assert_eq!(samples.sources()[0].shuffled_epochs(), Some(59));
    assert_eq!(samples.len(), 40);
    let mut tokens = Vec::new();
    samples.read(plan.sample_ids(10)[3], &mut tokens).unwrap();
    assert_eq!(tokens.len(), 1_025);
    assert_eq!(plan.sources[0].samples, Some(0));
}

fn megatron_run() -> training::TrainConfig {
    micro(|config| {
        config.data.order = SampleOrder::Megatron;
        config.schedule.train_steps = Some(steps(20));
        config.checkpoint.interval_steps = Some(steps(6));
    })
}

#[test]
fn run_goes_on_in_the_same_order() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(megatron_run());
    let parts = workbench.new_run();
    for stop in [5, 8, 100] {
        let plan = megatron_run().validate(workbench.options(&parts)).unwrap();
        train(&plan, &StopAfter::new(stop)).unwrap();
    }
    assert_eq!(logged_samples(&whole), logged_samples(&parts));
    assert_eq!(logged(&whole, "loss"), logged(&parts, "loss"));
    let ids: Vec<u64> = logged_samples(&whole).concat();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 80, "each number names one sample of one epoch");
}

#[test]
fn seed_that_the_generator_does_not_take_is_refused() {
    let workbench = Workbench::new(101);
    let config = || {
        let mut config = megatron_run();
        config.seed = 1 << 32;
        config
    };
    let error = workbench.validate(config()).unwrap_err().to_string();
    assert!(
        error.starts_with("seed = 4294967296: data.order = \"megatron\" takes seeds of 32 bits")
    );
}

#[test]
fn verification_and_indexing_stop_when_asked() {
    let workbench = Workbench::new(101);
    for order in [SampleOrder::Keyed, SampleOrder::Megatron] {
        let mut config = megatron_run();
        config.data.order = order;
        let options = workbench.options(&workbench.new_run());
        let stopped = config.validate_observed(options.clone(), &StopAfter::new(0));
        assert!(matches!(stopped, Err(TrainError::Stopped)));
        assert!(!options.out.exists());
    }
}
