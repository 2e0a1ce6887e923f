//! A run that stops and goes on, and one that must not.

use std::fs;

use corpus::Silent;
use training::data::WeightedPath;
use training::fine_tuning::FineTuneConfig;
use training::plan::RunOptions;
use training::train;

use super::{article, config, options, plan, run, runs, weights, write_race};
use crate::support::Dir;
use crate::training::{StopAfter, logged};

#[test]
fn stopped_run_goes_on_bit_for_bit_also_without_the_weights_it_began_with() {
    let (_folder, [whole, parts]) = runs(["whole", "parts"]);
    let report = run(&whole, config(|_| {}));
    let stopped = train(&plan(&parts, config(|_| {})).unwrap(), &StopAfter::new(2)).unwrap();
    assert!(stopped.stopped && (1..6).contains(&stopped.steps));
    // The tokenizer is that of its own checkpoint now.
    let resumed = RunOptions { init_from: None, ..options(&parts) };
    let resumed = train(&config(|_| {}).validate(resumed).unwrap(), &Silent).unwrap();
    assert_eq!((resumed.steps, resumed.stopped), (6, false));
    for name in ["loss", "grad_norm", "learning_rate", "validation_loss", "validation_accuracy"] {
        assert_eq!(logged(&parts, name), logged(&whole, name), "{name}");
    }
    assert!(weights(&resumed.checkpoint) == weights(&report.checkpoint));
    assert_eq!(resumed.validation_accuracy, report.validation_accuracy);
    let samples = [&whole, &parts].map(|run| fs::read(run.join("samples.jsonl")).unwrap());
    assert!(samples[0] == samples[1]);
}

#[test]
fn run_goes_on_with_the_questions_it_began_with_alone() {
    let dir = Dir::new();
    write_race(&dir, "moved");
    let (_folder, [out]) = runs(["run"]);
    train(&plan(&out, config(|_| {})).unwrap(), &StopAfter::new(2)).unwrap();
    let go_on = |race: &str| {
        let data = vec![WeightedPath::unweighted(dir.path(race))];
        let options = RunOptions { data, ..options(&out) };
        train(&config(|_| {}).validate(options).unwrap(), &Silent)
    };
    let mut other = article("train", 7);
    other["answers"][0] = match other["answers"][0].as_str() {
        Some("A") => "B".into(),
        _ => "A".into(),
    };
    write_race(&dir, "other");
    dir.write("other/train/high/7.txt", other.to_string());
    let error = go_on("other").unwrap_err().to_string();
    assert!(error.contains("of other content"), "{error}");
    // Where they lie, and what is validated on, is another matter.
    dir.write("moved/dev/high/1.txt", article("dev", 500).to_string());
    assert_eq!(go_on("moved").unwrap().steps, 6);
}

#[test]
fn another_number_of_epochs_is_another_schedule() {
    let (_folder, [out]) = runs(["run"]);
    run(&out, config(|_| {}));
    let longer = |override_schedule| {
        let config = config(|config| {
            let FineTuneConfig::Race(race) = config.finetune.as_mut().unwrap();
            race.epochs = Some(0.75);
        });
        let plan = config.validate(RunOptions { override_schedule, ..options(&out) }).unwrap();
        train(&plan, &Silent)
    };
    let error = longer(false).unwrap_err().to_string();
    assert!(error.contains("finetune.race.epochs was 0.5 and is 0.75"), "{error}");
    assert!(error.contains("--override-schedule"), "{error}");
    assert_eq!(longer(true).unwrap().steps, 9);
    assert_eq!(logged(&out, "loss").len(), 9);
}
