//! Splits, samples, their order, and batches.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use corpus::DataFolder;
use proptest::prelude::*;
use serde_json::Value;
use training::data::{
    BatchSampler, KeyedPermutation, OrderedSamples, SampleOrder, Samples, SplitWeights,
};

use super::data_folder;

fn samples(seq_length: usize, documents: &[Vec<u32>]) -> (tempfile::TempDir, Samples) {
    let folder = tempfile::tempdir().unwrap();
    let data = data_folder(&folder.path().join("data"), 50_257, documents);
    let shard = Arc::new(DataFolder::open(&data).unwrap().shard().unwrap());
    let documents = 0..shard.num_documents();
    (folder, Samples::new(&shard, documents, seq_length))
}

#[test]
fn documents_are_divided_as_the_reference_divides_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/training/split.json");
    let rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(rows.len(), 30);
    for row in rows {
        let weights: SplitWeights = row["split"].as_str().unwrap().parse().unwrap();
        let split = weights.divide(row["size"].as_u64().unwrap());
        let found = [split.train.start, split.train.end, split.validation.end, split.test.end];
        let expected: Vec<u64> =
            row["index"].as_array().unwrap().iter().map(|end| end.as_u64().unwrap()).collect();
        assert_eq!(found[..], expected, "{row}");
    }
}

#[test]
fn bad_splits_are_refused_as_they_were_written() {
    for written in ["-1,1,0", "0,0,0", "90,abc5,5", "", "1,2,3,4", "nan,1,1", "inf,1,1", "90,,5"] {
        let error = written.parse::<SplitWeights>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("split \"{written}\": ")), "{error}");
    }
    assert_eq!(
        "-1,1,0".parse::<SplitWeights>().unwrap_err().to_string(),
        "split \"-1,1,0\": `-1` is no weight; it must be 0 or more"
    );
}

#[test]
fn neighboring_samples_share_one_token() {
    // With the end of the document 1,025 tokens: exactly one sample of 1,024.
    let (_folder, one) = samples(1_024, &[(0..1_024).collect()]);
    assert_eq!(one.len(), 1);

    let (_folder, samples) = samples(4, &[vec![1, 2, 3], vec![4, 5, 6, 7]]);
    // 1 2 3 E 4 | 4 5 6 7 E
    let mut tokens = Vec::new();
    samples.read(0, &mut tokens).unwrap();
    samples.read(1, &mut tokens).unwrap();
    assert_eq!(samples.len(), 2);
    assert_eq!(tokens, [1, 2, 3, 50_256, 4, 4, 5, 6, 7, 50_256]);
}

#[test]
fn each_epoch_visits_every_sample_once_and_in_an_order_of_its_own() {
    let (_folder, samples) = samples(10, &[(0..2_000).collect()]);
    let per_epoch = samples.len();
    let ordered = OrderedSamples::new(samples, SampleOrder::Keyed, 1);
    let epoch = |epoch: u64| -> Vec<u64> {
        (epoch * per_epoch..(epoch + 1) * per_epoch).map(|place| ordered.sample_at(place)).collect()
    };
    for number in 0..3 {
        assert_eq!(epoch(number).into_iter().collect::<HashSet<_>>().len() as u64, per_epoch);
    }
    assert_ne!(epoch(0), epoch(1));
}

#[test]
fn sequential_order_takes_the_samples_as_they_stand() {
    let (_folder, samples) = samples(10, &[(0..2_000).collect()]);
    let per_epoch = samples.len();
    let ordered = OrderedSamples::new(samples.clone(), SampleOrder::Sequential, 1);
    let ids: Vec<u64> = ordered.ids(0..2 * per_epoch + 3).collect();
    let expected: Vec<u64> = (0..2 * per_epoch + 3).map(|place| place % per_epoch).collect();
    assert_eq!(ids, expected);
    // Sample k is tokens 10 k to 10 k + 10, both included.
    let mut tokens = Vec::new();
    samples.read(7, &mut tokens).unwrap();
    assert_eq!(tokens, (70..=80).collect::<Vec<u32>>());
}

#[test]
fn over_three_and_a_half_epochs_each_token_is_used_as_often_as_the_count_says() {
    // 10,000 tokens in samples of 100: 99 a epoch, and 99 tokens at the end that none reaches.
    let (_folder, samples) = samples(100, &[(0..9_999).collect()]);
    let ordered = OrderedSamples::new(samples.clone(), SampleOrder::Keyed, 3);
    let sampler = BatchSampler { samples: ordered, micro_batch_size: 7, global_batch_size: 33 };
    assert_eq!(samples.len(), 99);
    let mut uses: HashMap<u32, u32> = HashMap::new();
    for step in 0..10 {
        // 330 samples: three epochs of 99, and 33 of the fourth.
        for batch in sampler.global_batch(step * 33, 0..33) {
            for target in batch.unwrap().targets {
                *uses.entry(target).or_default() += 1;
            }
        }
    }
    assert_eq!(uses.values().sum::<u32>(), 330 * 100);
    assert_eq!(uses.len(), 9_900);
    assert_eq!(uses.values().filter(|&&count| count == 4).count(), 3_300);
    assert_eq!(uses.values().filter(|&&count| count == 3).count(), 6_600);
}

#[test]
fn micro_batches_cut_a_global_batch_without_changing_it() {
    let (_folder, samples) = samples(8, &[(0..1_000).collect()]);
    let sampler = |micro_batch_size| BatchSampler {
        samples: OrderedSamples::new(samples.clone(), SampleOrder::Keyed, 5),
        micro_batch_size,
        global_batch_size: 6,
    };
    let whole: Vec<_> = sampler(6).global_batch(12, 0..6).map(Result::unwrap).collect();
    let parts: Vec<_> = sampler(2).global_batch(12, 0..6).map(Result::unwrap).collect();
    assert_eq!(parts.iter().map(|part| part.first_sample).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(
        parts.iter().flat_map(|part| part.tokens.clone()).collect::<Vec<_>>(),
        whole[0].tokens
    );
    assert_eq!(
        parts.iter().flat_map(|part| part.targets.clone()).collect::<Vec<_>>(),
        whole[0].targets
    );
    assert_eq!(parts[0].loss_weights, vec![1.0 / 48.0; 16]);
}

#[test]
fn unigram_loss_of_equally_frequent_tokens_is_the_logarithm_of_their_number() {
    // Eight documents of seven tokens each: with the ends of documents, eight different ones.
    let (_folder, samples) = samples(4, &vec![(0..7).collect(); 8]);
    assert!((samples.unigram_loss().unwrap() - 8.0_f64.ln()).abs() < 1e-12);
}

proptest! {
    #[test]
    fn keyed_order_is_a_permutation(len in 1_u64..3_000, seed: u64, epoch: u64) {
        let permutation = KeyedPermutation::new(len, seed, epoch);
        let visited: HashSet<u64> = (0..len).map(|place| permutation.at(place)).collect();
        prop_assert_eq!(visited.len() as u64, len);
        prop_assert!(visited.into_iter().all(|number| number < len));
    }

    #[test]
    fn keyed_order_holds_for_lengths_past_32_bits(len in (1_u64 << 32)..(1 << 63), seed: u64, place: u64) {
        let permutation = KeyedPermutation::new(len, seed, 0);
        let (first, second) = (place % (len - 1), place % (len - 1) + 1);
        prop_assert!(permutation.at(first) < len);
        prop_assert_ne!(permutation.at(first), permutation.at(second));
    }

    #[test]
    fn splits_cover_all_documents_in_order(first in 0.0..1e3_f64, second in 0.0..1e3_f64, third in 0.001..1e3_f64, documents in 0_u64..1 << 50) {
        let weights: SplitWeights = format!("{first},{second},{third}").parse().unwrap();
        let split = weights.divide(documents);
        prop_assert_eq!(split.train.start, 0);
        prop_assert_eq!(split.train.end, split.validation.start);
        prop_assert_eq!(split.validation.end, split.test.start);
        prop_assert_eq!(split.test.end, documents);
        prop_assert!(split.train.end <= split.validation.end && split.validation.end <= documents);
    }
}
