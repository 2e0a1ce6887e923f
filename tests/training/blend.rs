//! Blends: the mix at every moment, what weights may be, what happens where a source ends, and that
//! a run is known again by them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use corpus::{DataFolder, DataManifest, Existing, Silent, SourceSpan};
use proptest::prelude::*;
use serde_json::Value;
use training::config::{Repeat, TrainConfig, ValidationConfig};
use training::data::{Blend, WeightedPath};
use training::plan::{RunOptions, TrainPlan};
use training::{TrainError, train};

use super::{MICRO, Numbers, data_folder, logged, logged_samples, micro, steps};
use crate::support::{Dir, Run, pipeline};

fn blend(weights: &[f64], length: u64) -> Blend {
    let groups: Vec<_> = weights.iter().map(|&weight| (weight, vec![1.0])).collect();
    Blend::new(&groups, length, &Silent).unwrap()
}

/// Checks in whole numbers that after `length` samples no source is off by a whole one.
#[track_caller]
fn check_within_one(counts: &[u64], parts: &[u64], length: u64) {
    let period: i128 = parts.iter().map(|&part| i128::from(part)).sum();
    assert_eq!(counts.iter().map(|&count| u128::from(count)).sum::<u128>(), length.into());
    for (&count, &part) in counts.iter().zip(parts) {
        let lag = i128::from(length) * i128::from(part) - i128::from(count) * period;
        assert!(lag.abs() < period, "{count} of {length} at {part} of {period}");
    }
}

/// Checks every beginning of `blend` up to `length`, and that any place of it is found alone.
#[track_caller]
fn check_every_beginning(blend: &Blend, parts: &[u64], length: u64) {
    let mut counts = vec![0; parts.len()];
    for (draw, place) in blend.draws(0).zip(0..length) {
        assert_eq!(draw.position, counts[draw.source]);
        counts[draw.source] += 1;
        check_within_one(&counts, parts, place + 1);
        if place % 97 == 0 {
            assert_eq!(blend.draws(place).next(), Some(draw), "place {place}");
            assert_eq!(blend.counts(place + 1), counts);
        }
    }
}

#[test]
fn mix_is_right_within_one_sample_at_each_beginning() {
    check_every_beginning(&blend(&[0.999, 0.001], 10_000), &[999, 1], 10_000);
    check_every_beginning(&blend(&[3.0, 7.0], 1_000), &[3, 7], 1_000);
    check_every_beginning(&blend(&[1.0; 20], 1_000), &[1; 20], 1_000);
    let twenty: Vec<u64> = (0..20).map(|source| 1 + 37 * source * source).collect();
    let weights: Vec<f64> = twenty.iter().map(|&part| part as f64 / 1e4).collect();
    check_every_beginning(&blend(&weights, 100_000), &twenty, 100_000);
}

#[test]
fn sources_that_are_due_at_once_do_not_wait_for_each_other() {
    let parts = [1, 992, 1, 105, 17, 1, 992, 1, 358];
    // The farthest behind first, which is Megatron-LM's rule, does not do it.
    let (mut lags, period) = ([0_i64; 9], parts.iter().sum::<u64>() as i64);
    let mut farthest = 0;
    for _ in 0..period {
        lags.iter_mut().zip(parts).for_each(|(lag, part)| *lag += part as i64);
        let next = (0..9).max_by_key(|&source| lags[source]).unwrap();
        lags[next] -= period;
        farthest = farthest.max(*lags.iter().max().unwrap());
    }
    assert!(farthest > period, "{farthest} of {period}");
    check_every_beginning(&blend(&parts.map(|part| part as f64), 10_000), &parts, 10_000);
}

#[test]
fn places_past_32_bits_are_found_at_once() {
    let parts = [123_456_789, 987_654_321, 1];
    let blend = blend(&parts.map(|part| part as f64), 100_000);
    for place in [1 << 33, (1 << 53) + 1, (1 << 62) + 12_345] {
        // Near the beginning of a period, so that the walk is short.
        let period: u64 = parts.iter().sum();
        let place = place / period * period + 54_321;
        check_within_one(&blend.counts(place), &parts, place);
        let next = blend.draws(place).next().unwrap();
        assert_eq!(next.position, blend.counts(place)[next.source]);
    }
}

#[test]
fn folder_weight_is_divided_between_its_sources() {
    // Half to a folder of 3:1, half to another.
    let groups = [(2.0, vec![0.3, 0.1]), (2.0, vec![5.0])];
    let blend = Blend::new(&groups, 1_000, &Silent).unwrap();
    check_every_beginning(&blend, &[3, 1, 4], 1_000);
    assert_eq!([0, 1, 2].map(|source| blend.share(source)), [0.375, 0.125, 0.5]);
}

#[test]
fn weights_whose_sum_no_number_holds_have_their_shares_all_the_same() {
    for weights in [[1e308, 1e308], [1e-320, 1e-320], [f64::MAX, f64::MAX]] {
        let blend = blend(&weights, 1_000);
        assert_eq!(blend.counts(1_000), [500, 500], "{weights:?}");
    }
}

#[test]
fn weights_without_a_common_denominator_are_rounded_by_less_than_a_sample() {
    let weights = [std::f64::consts::PI, std::f64::consts::E, 1.0 / 3.0, 1e-9];
    let blend = blend(&weights, 3_000_000_000);
    let sum: f64 = weights.iter().sum();
    let counts = blend.counts(200_000);
    for (count, weight) in counts.into_iter().zip(weights) {
        let lag = 200_000.0 * (weight / sum) - count as f64;
        assert!(lag.abs() < 1.0 + 200_000.0 / 4e9, "{count} {weight}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn mix_is_right_for_all_weights(
        parts in prop::collection::vec((1_u64..1_000, 0_u32..7), 1..=20),
        start in 0_u64..1 << 40,
    ) {
        // Weights of all magnitudes side by side.
        let parts: Vec<u64> = parts.iter().map(|&(part, zeros)| part * 10_u64.pow(zeros)).collect();
        let weights: Vec<f64> = parts.iter().map(|&part| part as f64).collect();
        let blend = blend(&weights, 10_000);
        check_every_beginning(&blend, &parts, 3_000);
        let period: u64 = parts.iter().sum();
        let start = start / period * period + start % period % 10_000;
        let mut counts = blend.counts(start);
        check_within_one(&counts, &parts, start);
        for (draw, place) in blend.draws(start).zip(start..start + 300) {
            prop_assert_eq!(draw.position, counts[draw.source]);
            counts[draw.source] += 1;
            check_within_one(&counts, &parts, place + 1);
        }
    }
}

/// A folder with data folders in it.
struct Pool {
    folder: tempfile::TempDir,
}

impl Pool {
    /// Data folders `a`, `b`, … of documents of token 0, 1, …, each of so many samples of 16
    /// inputs, the end of its one document included.
    fn new(samples: &[usize]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (source, &samples) in samples.iter().enumerate() {
            let name = char::from(b'a' + source as u8).to_string();
            data_folder(&folder.path().join(name), 101, &[vec![source as u32; 16 * samples]]);
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `a:0.3` as the flag is read, below this folder.
    fn written(&self, data: &str) -> WeightedPath {
        WeightedPath::parse(self.path(data).as_os_str())
    }

    fn options(&self, data: &[&str], out: &str) -> RunOptions {
        let data = data.iter().map(|data| self.written(data)).collect();
        RunOptions { log_samples: true, ..RunOptions::blend(data, self.path(out)) }
    }

    fn plan(&self, data: &[&str], config: TrainConfig) -> Result<TrainPlan, TrainError> {
        config.validate(self.options(data, "run"))
    }

    #[track_caller]
    fn error(&self, data: &[&str], config: TrainConfig) -> String {
        let message = self.plan(data, config).unwrap_err().to_string();
        message.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

/// [`MICRO`] of `train_steps` steps on all documents.
fn run_of(train_steps: u64) -> TrainConfig {
    micro(|config| {
        config.data.split = "100,0,0".parse().unwrap();
        config.schedule.train_steps = Some(steps(train_steps));
    })
}

/// Which source each of the plan's samples comes from, told by its tokens.
fn sources_of(plan: &TrainPlan) -> Vec<u32> {
    let samples = plan.train.samples.samples();
    let total = plan.samples_consumed(plan.train_steps);
    let ids = plan.train.samples.ids(0..total);
    ids.map(|id| {
        let mut tokens = Vec::new();
        samples.read(id, &mut tokens).unwrap();
        tokens[0]
    })
    .collect()
}

#[test]
fn sources_are_mixed_by_weight_and_repeated_where_they_end() {
    let pool = Pool::new(&[10, 1_000]);
    let plan = pool.plan(&["a:0.999", "b:0.001"], run_of(250)).unwrap();
    let sources = sources_of(&plan);
    assert_eq!(sources.len(), 1_000);
    for (number, taken) in sources
        .iter()
        .scan(0, |taken, &source| {
            *taken += u64::from(source == 0);
            Some(*taken)
        })
        .zip(1_u64..)
        .map(|(taken, number)| (number, taken))
    {
        assert!((taken as f64 - 0.999 * number as f64).abs() < 1.0, "{taken} of {number}");
    }
    let [a, b] = &plan.sources[..] else { panic!("{:?}", plan.sources) };
    assert_eq!((a.weight, a.samples, a.epochs), (Some(0.999), Some(10), Some(99.9)));
    assert_eq!((b.weight, b.samples, b.epochs), (Some(0.001), Some(1_000), Some(0.001)));
}

#[test]
fn weights_need_not_add_up_and_zero_leaves_out() {
    let pool = Pool::new(&[10, 30]);
    let plan = pool.plan(&["a:1", "b:3"], run_of(10)).unwrap();
    assert_eq!(sources_of(&plan).iter().filter(|&&source| source == 0).count(), 10);

    let plan = pool.plan(&["a:0.0", "b:1.0"], run_of(10)).unwrap();
    assert!(sources_of(&plan).iter().all(|&source| source == 1));
    let [b, a] = &plan.sources[..] else { panic!("{:?}", plan.sources) };
    assert_eq!((b.weight, b.epochs), (Some(1.0), Some(40.0 / 30.0)));
    assert_eq!((a.weight, a.samples), (Some(0.0), None));
    // It is not even looked at.
    assert!(pool.plan(&["nowhere:0", "b:1"], run_of(10)).is_ok());
}

#[test]
fn one_folder_with_a_weight_is_that_folder() {
    let pool = Pool::new(&[10, 30]);
    let weighted = pool.plan(&["b:0.2"], run_of(20)).unwrap();
    let plain = pool.plan(&["b"], run_of(20)).unwrap();
    let ids = |plan: &TrainPlan| -> Vec<_> { (1..=20).map(|step| plan.sample_ids(step)).collect() };
    assert_eq!(ids(&weighted), ids(&plain));
}

#[test]
fn without_weights_all_samples_are_one_permutation() {
    let pool = Pool::new(&[10, 30]);
    let plan = pool.plan(&["a", "b"], run_of(10)).unwrap();
    // 40 samples of 16 are one epoch of both: the joined documents have 642 tokens.
    let mut ids: Vec<u64> = (1..=10).flat_map(|step| plan.sample_ids(step)).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    let [both] = &plan.sources[..] else { panic!("{:?}", plan.sources) };
    assert_eq!((both.weight, both.epochs), (None, Some(1.0)));
}

#[test]
fn sample_numbers_name_source_and_sample() {
    let pool = Pool::new(&[10, 30]);
    let plan = pool.plan(&["a:0.5", "b:0.5"], run_of(50)).unwrap();
    let samples = plan.train.samples.samples();
    let sources = sources_of(&plan);
    let ids: Vec<u64> = plan.train.samples.ids(0..200).collect();
    for (id, source) in ids.iter().zip(&sources) {
        assert_eq!(*source, u32::from(*id >= samples.id_of(1, 0)), "{id}");
    }
    // Each epoch of a source takes each of its samples once, in an order of its own.
    let of_a: Vec<u64> = ids.iter().copied().filter(|&id| id < 10).collect();
    let epochs: Vec<&[u64]> = of_a.chunks(10).collect();
    for epoch in &epochs {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
    }
    assert_ne!(epochs[0], epochs[1]);
}

#[test]
fn sources_of_one_size_do_not_share_an_order() {
    let pool = Pool::new(&[30, 30]);
    let plan = pool.plan(&["a:0.5", "b:0.5"], run_of(15)).unwrap();
    let ids: Vec<u64> = plan.train.samples.ids(0..60).collect();
    let of = |source: u64| -> Vec<u64> {
        ids.iter().filter(|&&id| id / 30 == source).map(|id| id % 30).collect()
    };
    assert_eq!(of(0).len(), 30);
    assert_ne!(of(0), of(1));
}

#[test]
fn weights_that_are_none_are_refused_as_written() {
    let pool = Pool::new(&[10, 30]);
    let error = |data: &[&str]| pool.error(data, run_of(1));
    assert_eq!(
        error(&["a:-0.5", "b:1"]),
        "--data a:-0.5: -0.5 is no weight; it must be a finite number, 0 or more"
    );
    assert!(error(&["a:nan", "b:1"]).starts_with("--data a:NaN: NaN is no weight"));
    assert!(error(&["a:inf", "b:1"]).starts_with("--data a:inf: inf is no weight"));
    assert!(error(&["a:0", "b:0"]).starts_with("every --data has weight 0"));
    assert!(
        error(&["a:0.5", "b"]).starts_with(
            "--data b has no weight, and --data a:0.5 has; give every --data a weight"
        )
    );
    assert_eq!(
        error(&["a:0.5", "a:0.5"]),
        "--data a: is given twice; give it once, with all its weight"
    );
}

#[test]
fn colons_in_a_path_are_part_of_it_where_they_must_be() {
    let pool = Pool::new(&[10]);
    let parsed = |data: &str| pool.written(data);
    let unweighted = |name: &str| WeightedPath::unweighted(pool.path(name));
    assert_eq!(parsed("a:0.5"), WeightedPath { path: pool.path("a"), weight: Some(0.5) });
    assert_eq!(parsed("a:b:1e3"), WeightedPath { path: pool.path("a:b"), weight: Some(1e3) });
    assert_eq!(parsed("a:b"), unweighted("a:b"));
    assert_eq!(parsed("a:"), unweighted("a:"));
    // What is there as it is written wins.
    fs::rename(pool.path("a"), pool.path("a:0.5")).unwrap();
    assert_eq!(parsed("a:0.5"), unweighted("a:0.5"));
    assert_eq!(parsed("a:0.5:2").weight, Some(2.0));
    assert!(pool.plan(&["a:0.5:2"], run_of(1)).is_ok());
}

#[test]
fn source_that_ends_may_be_refused_with_what_is_needed() {
    let pool = Pool::new(&[10, 1_000]);
    let refusing = |train_steps| {
        let mut config = run_of(train_steps);
        config.data.repeat = Repeat::Refuse;
        config
    };
    assert_eq!(
        pool.error(&["a:0.999", "b:0.001"], refusing(250)),
        "source a has 10 samples, and the run takes 999 of it (99.9 epochs); give it less weight, \
         train fewer steps, or let it repeat with data.repeat = \"warn\""
    );
    assert!(pool.plan(&["a:0.1", "b:0.9"], refusing(25)).is_ok(), "exactly one epoch");
    assert!(pool.error(&["b"], refusing(251)).contains("has 1000 samples, and the run takes 1004"));
}

#[test]
fn source_without_a_sample_is_named() {
    let pool = Pool::new(&[1, 30]);
    data_folder(&pool.path("short"), 101, &[vec![5; 14]]);
    let error = pool.error(&["short:1", "b:1"], run_of(1));
    assert!(error.starts_with("source short has 15 tokens, one sample needs 17"), "{error}");
    // Joined without weights it is no trouble.
    assert!(pool.plan(&["short", "b"], run_of(1)).is_ok());
    let held_out = || {
        let mut config = run_of(1);
        config.validation = Some(ValidationConfig { interval_steps: steps(1), batches: None });
        config
    };
    let error = pool.error(&["a:1", "b:1"], held_out());
    assert!(
        error.starts_with("the validation part of split \"100,0,0\" has 0 tokens of source a"),
        "{error}"
    );
}

/// A data folder of the given spans: source, weight, and its documents of one token each.
fn folder_of_sources(path: &Path, spans: &[(&str, Option<f64>, u32, usize)]) {
    let tokenizer = Numbers { vocab_size: 101 };
    let writer = DataFolder::create(path, Existing::Refuse).unwrap();
    let mut shard = writer.shard(101).unwrap();
    let mut manifest_spans: Vec<SourceSpan> = Vec::new();
    for &(source, weight, token, documents) in spans {
        for _ in 0..documents {
            shard.push_document(&[token; 16]).unwrap();
        }
        manifest_spans.push(SourceSpan {
            source: source.to_owned(),
            weight,
            first_document: manifest_spans.iter().map(|span| span.documents).sum(),
            documents: documents as u64,
            tokens: 16 * documents as u64,
        });
    }
    let summary = shard.finish().unwrap();
    let mut manifest = DataManifest::new(&tokenizer, &summary);
    manifest.spans = manifest_spans;
    writer.finish(manifest).unwrap();
}

#[test]
fn folder_whose_sources_have_weights_is_a_blend_in_itself() {
    let pool = Pool::new(&[50]);
    let spans = [("web", Some(1.0), 7, 20), ("wiki", Some(3.0), 8, 10), ("web", Some(1.0), 7, 20)];
    folder_of_sources(&pool.path("pool"), &spans);
    let plan = pool.plan(&["pool"], run_of(20)).unwrap();
    let share = |plan: &TrainPlan| {
        let mut counts: HashMap<u32, u32> = HashMap::new();
        sources_of(plan).into_iter().for_each(|token| *counts.entry(token).or_default() += 1);
        counts
    };
    assert_eq!(share(&plan), HashMap::from([(7, 20), (8, 60)]));
    // 40 documents of 16 tokens in two spans are one stream of 640 tokens.
    let samples: Vec<_> = plan.sources.iter().map(|source| source.samples.unwrap()).collect();
    assert_eq!(samples, [39, 9]);
    assert!(plan.sources[0].source.ends_with("pool (web)"), "{:?}", plan.sources);

    // Half of the run to the folder, of which its sources have a quarter and three quarters.
    let plan = pool.plan(&["pool:1", "a:1"], run_of(20)).unwrap();
    assert_eq!(share(&plan), HashMap::from([(7, 10), (8, 30), (0, 40)]));
    let error = pool.error(&["pool", "a"], run_of(1));
    assert!(
        error.starts_with("--data pool has no weight, and the sources in --data pool have; "),
        "{error}"
    );
}

#[test]
fn sources_of_a_folder_have_to_agree_on_their_weights() {
    let pool = Pool::new(&[]);
    let error = |name: &str, spans: &[(&str, Option<f64>, u32, usize)]| {
        folder_of_sources(&pool.path(name), spans);
        pool.error(&[name], run_of(1))
    };
    let message = error("lacking", &[("web", Some(1.0), 7, 20), ("wiki", None, 8, 20)]);
    assert!(
        message.starts_with("lacking: its source \"wiki\" has no weight, and others have; "),
        "{message}"
    );
    let message = error("two", &[("web", Some(1.0), 7, 20), ("web", Some(2.0), 7, 20)]);
    assert!(message.contains("its source \"web\" has two weights, 1 and 2"), "{message}");
    let message = error("negative", &[("web", Some(-1.0), 7, 20)]);
    assert!(message.contains("has the weight -1, which is none"), "{message}");
}

#[test]
fn data_of_two_vocabularies_is_refused() {
    let pool = Pool::new(&[10]);
    data_folder(&pool.path("wide"), 128, &[vec![100; 100]]);
    let error = pool.error(&["a", "wide"], run_of(1));
    assert!(
        error.starts_with("--data wide was made with tokenizer numbers of 128 tokens, and a with"),
        "{error}"
    );
}

/// Folders of 40 documents each, of which a split of 90,10,0 holds out four.
fn many_documents(pool: &Pool, names: &[&str]) {
    for (place, name) in names.iter().enumerate() {
        data_folder(&pool.path(name), 101, &vec![vec![place as u32; 40]; 40]);
    }
}

#[test]
fn each_source_is_divided_by_itself_and_validated_in_the_mix() {
    let pool = Pool::new(&[]);
    many_documents(&pool, &["a", "b"]);
    let config = |batches: Option<u64>| {
        micro(|config| {
            config.validation =
                Some(ValidationConfig { interval_steps: steps(5), batches: batches.map(steps) });
        })
    };
    let held_out = |weights: [f64; 2], batches| {
        let data = [format!("a:{}", weights[0]), format!("b:{}", weights[1])];
        let plan = pool.plan(&[&data[0], &data[1]], config(batches)).unwrap();
        let validation = plan.validation.unwrap();
        let samples = validation.batches.samples;
        let ids: Vec<u64> = samples.ids(0..validation.num_samples).collect();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "none twice");
        let of_a = ids.iter().filter(|&&id| id < samples.samples().id_of(1, 0)).count();
        (of_a, ids.len() - of_a)
    };
    // Four documents of 41 tokens are ten samples of 16.
    assert_eq!(held_out([1.0, 1.0], None), (10, 10));
    assert_eq!(held_out([3.0, 1.0], Some(1)), (3, 1));
    // The first source has ten samples, and of the eleventh it would be the turn.
    let (of_a, of_b) = held_out([3.0, 1.0], None);
    assert_eq!(of_a, 10);
    assert!((3..=4).contains(&of_b), "{of_b}");
    // Without weights all of both.
    let plan = pool.plan(&["a", "b"], config(None)).unwrap();
    assert_eq!(plan.validation.unwrap().num_samples, 20);
}

#[test]
fn blended_run_goes_on_as_if_it_had_not_stopped() {
    let pool = Pool::new(&[]);
    many_documents(&pool, &["a", "b", "c"]);
    let data = ["a:0.9", "b:0.07", "c:0.03"];
    let plan = |train_steps: u64, out: &str| {
        let mut config = micro(|config| config.schedule.train_steps = Some(steps(30)));
        config.checkpoint.interval_steps = Some(steps(7));
        let mut plan = config.validate(pool.options(&data, out)).unwrap();
        plan.train_steps = train_steps;
        plan
    };
    train(&plan(30, "whole"), &Silent).unwrap();
    let stop = super::StopAfter::new(13);
    train(&plan(30, "parts"), &stop).unwrap();
    assert!(logged_samples(&pool.path("parts")).len() < 30);
    train(&plan(30, "parts"), &Silent).unwrap();
    let [whole, parts] = ["whole", "parts"].map(|run| pool.path(run));
    assert_eq!(logged_samples(&whole), logged_samples(&parts));
    assert_eq!(logged(&whole, "loss"), logged(&parts, "loss"));
}

#[test]
fn run_is_known_again_by_all_its_data_and_weights() {
    let pool = Pool::new(&[50, 50, 50]);
    let run =
        |data: &[&str]| train(&run_of(1).validate(pool.options(data, "run")).unwrap(), &Silent);
    run(&["a:0.5", "b:0.5"]).unwrap();
    run(&["a:0.5", "b:0.5"]).unwrap();
    let refused = |data: &[&str]| {
        let message = run(data).unwrap_err().to_string();
        message.replace(&format!("{}/", pool.folder.path().display()), "")
    };
    let message = refused(&["a:0.5", "b:0.7"]);
    assert!(message.contains("the weight of --data b was 0.5 and is 0.7"), "{message}");
    let message = refused(&["a:0.5", "b:0"]);
    assert!(message.contains("the weight of --data b was 0.5 and is 0"), "{message}");
    let message = refused(&["a", "b"]);
    assert!(message.contains("the weight of --data a was 0.5 and is none"), "{message}");
    let message = refused(&["a:0.5", "c:0.5"]);
    assert!(message.contains("--data was b, and is c, of other content"), "{message}");
    let message = refused(&["a:0.5"]);
    assert!(message.contains("--data was a, b and is a"), "{message}");
    // A folder that was moved is the same data.
    fs::rename(pool.path("a"), pool.path("moved")).unwrap();
    run(&["moved:0.5", "b:0.5"]).unwrap();
}

/// Calls the program on the folders of a pool.
fn program(pool: &Pool, data: &[&str], more: &[&str]) -> Run {
    let config = pool.path("train.toml");
    fs::write(&config, MICRO.replace("90,10,0", "100,0,0")).unwrap();
    let mut args: Vec<String> = ["train", "--config"].map(str::to_owned).to_vec();
    args.push(config.display().to_string());
    args.extend(["--out".to_owned(), pool.path("run").display().to_string()]);
    for data in data {
        args.extend(["--data".to_owned(), pool.path(data).display().to_string()]);
    }
    args.extend(more.iter().map(|&flag| flag.to_owned()));
    pipeline(args)
}

#[test]
fn program_shows_the_blend_and_warns_of_epochs() {
    let pool = Pool::new(&[10, 1_000]);
    let data = ["a:0.999", "b:0.001", "c:0"];
    let steps = ["--set", "schedule.train_steps=250"];
    let run = program(&pool, &data, &[&steps[..], &["--dry-run", "--json"]].concat()).success();
    for part in ["source ", "a: 99.9 epochs over the run", "c has weight 0 and is not used"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let sources = run.json()["sources"].clone();
    let column = |key: &str| -> Vec<Value> {
        sources.as_array().unwrap().iter().map(|source| source[key].clone()).collect()
    };
    assert_eq!(column("weight"), [0.999, 0.001, 0.0].map(Value::from));
    assert_eq!(column("epochs"), [99.9.into(), 0.001.into(), Value::Null]);
    let table = program(&pool, &data, &[&steps[..], &["--dry-run"]].concat()).success().stdout;
    assert!(table.contains("weight 0.999, tokens 161, samples 10, epochs 99.9"), "{table}");

    program(&pool, &data, &[]).success();
    program(&pool, &["a:0.99", "b:0.001", "c:0"], &[])
        .refused(2, "the weight of --data")
        .refused(2, "was 0.999 and is 0.99;");
}

#[test]
fn program_refuses_what_is_no_blend() {
    let pool = Pool::new(&[10, 30]);
    for (data, more, message) in [
        (&["a:-1", "b:1"][..], &[][..], "a:-1: -1 is no weight"),
        (&["a:nan", "b:1"], &[], "a:NaN: NaN is no weight"),
        (&["a:1", "b"], &[], "give every --data a weight"),
        (&["a:0"], &[], "every --data has weight 0"),
        (&["a:9", "b:1"], &["--set", "data.repeat=refuse"], "has 10 samples, and the run takes 36"),
        (&["a"], &["--set", "data.split=90,abc5,5"], "split \"90,abc5,5\": `abc5` is no number"),
        (&["a"], &["--set", "data.split=-1,1,0"], "split \"-1,1,0\": `-1` is no weight"),
        (&["a"], &["--set", "data.split=0,0,0"], "split \"0,0,0\""),
        (&["a"], &["--set", "data.ordr=keyed"], "ordr"),
        (
            &["a"],
            &["--set", "model.gpt2.seq_length=1024"],
            "corpus has 161 tokens, one sample needs 1025",
        ),
        (
            &["a"],
            &["--set", "validation.interval_steps=1"],
            "the validation part of split \"100,0,0\" has 0 tokens",
        ),
    ] {
        program(&pool, data, more).refused(2, message);
    }
    assert!(!pool.path("run").exists(), "nothing is written");
}

#[test]
fn misspelt_key_is_named_with_its_file() {
    let dir = Dir::new();
    let config = dir.write("train.toml", MICRO.replace("[data]", "[data]\nordr = \"keyed\""));
    let args = ["train", "--config", config.to_str().unwrap(), "--data", "x", "--out", "y"];
    let run = pipeline(args).refused(2, "train.toml");
    assert!(run.stderr.contains("ordr") && run.stderr.contains("order"), "{}", run.stderr);
}
