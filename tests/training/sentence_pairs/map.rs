//! The map against the original implementation's, and its limits.

use std::sync::Arc;

use corpus::shard::ShardReader;
use corpus::{Observer, Silent, Unit};
use serde_json::Value;
use training::TrainError;
use training::data::{Pair, PairMap, PairMapConfig, SkippedDocuments, TokenStream};

use super::{documents, shard};

const CONFIG: PairMapConfig = PairMapConfig {
    max_length: 61,
    short_seq_prob: 0.1,
    seed: 1234,
    max_epochs: 1,
    num_samples: u64::MAX,
};

fn rows(map: &PairMap) -> Vec<[u64; 3]> {
    let row = |Pair { sentences, target_length }: Pair| {
        [sentences.start, sentences.end, target_length as u64]
    };
    (0..map.len()).map(|sample| row(map.pair(sample))).collect()
}

#[test]
fn map_is_the_original_implementation_s() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let shard = Arc::new(ShardReader::open(&root.join("indexed/bert_u16")).unwrap());
    let stream = TokenStream::new(&shard, 0..shard.num_documents());
    let golden = std::fs::read_to_string(root.join("training/bert_mapping.json")).unwrap();
    let golden: Vec<Value> = serde_json::from_str(&golden).unwrap();
    assert_eq!(golden.len(), 3);
    for case in golden {
        let number = |key: &str| case[key].as_u64().unwrap();
        let config = PairMapConfig {
            max_length: number("max_seq_length") as usize,
            short_seq_prob: case["short_seq_prob"].as_f64().unwrap(),
            seed: number("seed") as u32,
            max_epochs: number("num_epochs"),
            num_samples: number("max_num_samples"),
        };
        let expected: Vec<[u64; 3]> = serde_json::from_value(case["map"].clone()).unwrap();
        let mut map = PairMap::build(&stream, &config, None, &Silent).unwrap();
        let mut in_order = rows(&map);
        map.shuffle(config.seed, &Silent).unwrap();
        assert_eq!(rows(&map), expected);
        // The order "keyed" takes one epoch's rows before their shuffle: the same, for one epoch.
        if number("num_epochs") == 1 {
            let mut expected = expected;
            assert!(in_order.is_sorted());
            in_order.sort_unstable();
            expected.sort_unstable();
            assert_eq!(in_order, expected);
        }
    }
}

#[test]
fn every_sentence_of_a_usable_document_is_in_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = documents(5, 200);
    texts[3] = vec![];
    texts[9].push(vec![2_000; 513]);
    texts[11] = vec![vec![2_000; 512]; 4]; // the longest that is used
    texts[12] = vec![vec![2_000; 600]]; // one sentence, whatever its length
    let shard = shard(folder.path(), "pairs", &texts);
    let stream = TokenStream::new(&shard, 0..200);
    let map = PairMap::build(&stream, &CONFIG, None, &Silent).unwrap();
    let (mut next, mut samples, mut sentences) = (0, rows(&map).into_iter(), 0);
    let mut skipped = SkippedDocuments::default();
    for text in &texts {
        let end = sentences + text.len() as u64;
        if text.len() < 2 {
            skipped.of_one_sentence += 1;
        } else if text.iter().any(|sentence| sentence.len() > 512) {
            skipped.with_long_sentence += 1;
        } else {
            next = sentences;
            while next < end {
                let [first, behind, target] = samples.next().unwrap();
                assert_eq!(first, next);
                assert!(behind >= first + 2 && behind <= end && (2..=61).contains(&target));
                next = behind;
            }
        }
        sentences = end;
    }
    assert!(samples.next().is_none() && next > 0);
    assert_eq!(map.skipped(), skipped);
    assert_eq!(skipped.with_long_sentence, 1);
    // The part of some documents is counted from its own first sentence.
    let part = PairMap::build(&stream.part(&(100..200)), &CONFIG, None, &Silent).unwrap();
    let unusable = texts[100..].iter().take_while(|text| text.len() < 2);
    let before: usize = unusable.map(Vec::len).sum();
    assert_eq!(part.pair(0).sentences.start, before as u64);
    assert!(rows(&part).iter().all(|row| row[1] <= stream.part(&(100..200)).num_sequences()));
}

#[test]
fn map_that_does_not_fit_is_refused_and_one_that_is_stopped_ends() {
    struct Stop;
    impl Observer for Stop {
        fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
        fn advance(&self, _: u64) {}
        fn finish(&self) {}
        fn stop_requested(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<_> = vec![vec![vec![2_000]; 3]; 1 << 14];
    let shard = shard(folder.path(), "many", &texts);
    let stream = TokenStream::new(&shard, 0..1 << 14);
    let build = |config: &PairMapConfig, memory, observer: &dyn Observer| {
        PairMap::build(&stream, config, memory, observer)
    };
    assert!(matches!(build(&CONFIG, None, &Stop), Err(TrainError::Stopped)));
    let bytes = 8 << 14;
    assert_eq!(build(&CONFIG, Some(bytes), &Silent).unwrap().len(), 1 << 14);
    let error = build(&CONFIG, Some(bytes - 1), &Silent).unwrap_err().to_string();
    assert!(error.contains("the map of sentence pairs takes 0.1 MiB"), "{error}");
    // Of many epochs it is refused after the first.
    let many = PairMapConfig { max_epochs: u64::MAX, num_samples: 1 << 40, ..CONFIG };
    assert!(build(&many, Some(1 << 30), &Silent).is_err());
    let error = build(&PairMapConfig { max_length: 1, ..CONFIG }, None, &Silent).unwrap_err();
    assert!(error.to_string().contains("seq_length of 5 or more"), "{error}");
    // Without a usable document there is no sample, and no end of epochs is waited for.
    let empty = build_of_one_sentence(folder.path(), &many);
    assert!(empty.is_empty() && empty.skipped().of_one_sentence == 2);
}

fn build_of_one_sentence(folder: &std::path::Path, config: &PairMapConfig) -> PairMap {
    let shard = shard(folder, "one", &[vec![vec![2_000]], vec![]]);
    PairMap::build(&TokenStream::new(&shard, 0..2), config, None, &Silent).unwrap()
}
