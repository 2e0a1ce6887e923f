//! What a fine-tuned model begins with.

use std::collections::BTreeMap;
use std::path::Path;

use corpus::Silent;
use training::TrainReport;
use training::checkpoint::Checkpoint;
use training::fine_tuning::{FineTuneConfig, RaceConfig};
use training::model::{KeyedInit, ParameterSource};
use training::plan::RunOptions;
use training::train;

use super::{BENCH, config, options, runs, weights};

/// One step so small that no weight moves, from the weights in `from`.
fn begin(out: &Path, from: &Path, seed: u64) -> TrainReport {
    let config = config(|config| {
        config.seed = seed;
        config.optimizer.lr = 1e-30;
        config.optimizer.weight_decay = 0.0;
        config.finetune = Some(FineTuneConfig::Race(RaceConfig::default()));
        config.schedule.train_steps = 1.try_into().ok();
        config.schedule.warmup_steps = Some(0);
        config.validation = None;
    });
    let options = RunOptions { init_from: Some(from.to_owned()), ..options(out) };
    train(&config.validate(options).unwrap(), &Silent).unwrap()
}

#[test]
fn all_but_the_classifier_is_the_pre_trained_model_s() {
    let pretrained: BTreeMap<_, _> = weights(&BENCH.path("bert")).into_iter().collect();
    for from in ["bert", "hf", "bert/checkpoints/step-2"] {
        let (_folder, [out]) = runs(["run"]);
        let report = begin(&out, &BENCH.path(from), 99);
        let checkpoint = Checkpoint::open(&report.checkpoint).unwrap();
        assert_eq!(checkpoint.architecture().name(), "bert_choice");
        let specs = checkpoint.architecture().parameters();
        let mut taken = 0;
        for spec in &specs {
            let found = checkpoint.local(spec, 0, 1).unwrap();
            let expected = match pretrained.get(&spec.name) {
                Some(expected) => expected.clone(),
                None => KeyedInit { seed: 99 }.local(spec, 0, 1).unwrap(),
            };
            taken += usize::from(pretrained.contains_key(&spec.name));
            assert!(found == expected, "{} from {from}", spec.name);
        }
        assert_eq!(taken, specs.len() - 2, "all but the classifier");
        let fresh = specs.iter().find(|spec| spec.path == "classifier.weight").unwrap();
        let fresh = checkpoint.local(fresh, 0, 1).unwrap();
        let square: f32 = fresh.iter().map(|value| value * value).sum::<f32>() / 32.0;
        assert!((0.01..0.03).contains(&square.sqrt()), "about 0.02: {}", square.sqrt());
    }
}

#[test]
fn fine_tuned_model_goes_on_with_its_classifier() {
    let (_folder, [first, second]) = runs(["first", "second"]);
    let report = begin(&first, &BENCH.path("bert"), 3);
    let again = begin(&second, &first, 4);
    assert!(weights(&again.checkpoint) == weights(&report.checkpoint));
}
