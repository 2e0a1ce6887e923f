//! What `metrics.jsonl` and the run's log say about each step.

use std::fs;
use std::path::Path;

use corpus::Silent;
use serde_json::Value;
use training::config::TrainConfig;
use training::train;

use super::program;
use super::{StopAfter, Workbench, micro, steps};
use crate::support::{lines_of, read_json};

fn step_lines(run: &Path) -> Vec<Value> {
    let lines = lines_of(&fs::read_to_string(run.join("metrics.jsonl")).unwrap());
    lines.into_iter().filter(|line| line.get("loss").is_some()).collect()
}

fn config() -> TrainConfig {
    micro(|config| config.schedule.train_steps = Some(steps(130)))
}

/// The score of the last of `values`: against all before it while these are fewer than a hundred,
/// and then against what fades by a hundredth with each.
fn z(values: &[f64]) -> Option<f64> {
    let (last, before) = values.split_last().unwrap();
    if before.len() < 10 {
        return None;
    }
    let early = &before[..before.len().min(100)];
    let mut mean = early.iter().sum::<f64>() / early.len() as f64;
    let mut variance =
        early.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / early.len() as f64;
    for value in before.iter().skip(100) {
        let deviation = value - mean;
        mean += deviation / 100.0;
        variance = 0.99 * (variance + deviation * deviation / 100.0);
    }
    Some((last - mean) / variance.sqrt())
}

#[test]
fn scores_compare_a_step_with_those_before_it_and_survive_a_stop() {
    let workbench = Workbench::new(101);
    let (_, unbroken) = workbench.train(config());
    let lines = step_lines(&unbroken);
    for (number, score) in [("loss", "loss_z"), ("grad_norm", "grad_norm_z")] {
        let values: Vec<f64> = lines.iter().map(|line| line[number].as_f64().unwrap()).collect();
        for (index, line) in lines.iter().enumerate() {
            match (line[score].as_f64(), z(&values[..=index])) {
                (Some(found), Some(expected)) => assert!(
                    (found - expected).abs() < 1e-9 * expected.abs().max(1.0),
                    "step {}: {found} {expected}",
                    index + 1
                ),
                (found, expected) => assert_eq!(found, expected, "step {}", index + 1),
            }
        }
    }

    let stopped = workbench.new_run();
    for done in [7, 60, 101] {
        let plan = config().validate(workbench.options(&stopped)).unwrap();
        train(&plan, &StopAfter::new(done)).unwrap();
    }
    train(&config().validate(workbench.options(&stopped)).unwrap(), &Silent).unwrap();
    let keys = ["loss", "grad_norm", "loss_z", "grad_norm_z", "learning_rate", "updates", "tokens"];
    for (line, expected) in step_lines(&stopped).iter().zip(&lines) {
        for key in keys {
            assert_eq!(line[key], expected[key], "{key} of {}", expected["step"]);
        }
    }
}

#[test]
fn line_of_a_step_tells_its_speed_and_where_its_time_went() {
    let workbench = Workbench::new(101);
    let mut config = micro(|config| config.checkpoint.interval_steps = Some(steps(4)));
    super::set_layout(&mut config, (2, 1));
    let (_, run) = workbench.train(config);
    // h = 32, f = 128, l = 2, s = 16, V = 101: three times l (8h² + 4hf + 4sh) + 2hV.
    let flops_per_token = 3.0 * (2.0 * (8192.0 + 16384.0 + 2048.0) + 6464.0);
    for line in step_lines(&run) {
        let number = |key: &str| line[key].as_f64().unwrap();
        let ratio = number("model_flops_per_second") / number("tokens_per_second");
        assert!((ratio / flops_per_token - 1.0).abs() < 1e-12, "{ratio}");
        assert_eq!(line["updates"], line["step"]);
        let timer = |key: &str| line["timers"][key].as_f64().unwrap();
        let phases = ["data", "forward", "backward", "communication", "optimizer"];
        assert!(phases.iter().all(|key| timer(key) > 0.0), "{line}");
        let sum: f64 = phases.iter().map(|key| timer(key)).sum();
        assert!(sum <= number("milliseconds"), "{line}");
        let follows_a_checkpoint = [5, 9].contains(&line["step"].as_u64().unwrap());
        assert_eq!(timer("save") > 0.0, follows_a_checkpoint, "{line}");
    }
}

#[test]
fn program_tells_of_a_step_in_one_line_and_notes_how_it_was_called() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let run = program::train(&workbench, &out, &["--set", "schedule.train_steps=20"]).success();
    let step = |step: u64| {
        let begin = format!("step {step}/20 loss ");
        let line = run.stderr.lines().find_map(|line| line.split_once(&begin));
        line.unwrap_or_else(|| panic!("step {step}: {}", run.stderr)).1
    };
    for part in [" grad norm ", " lr ", " scale - skipped 0 ", " tokens/s ", "FLOP/s ", " ms, "] {
        assert!(step(1).contains(part), "{part:?}: {}", step(1));
    }
    assert_eq!(step(1).matches("(z -)").count(), 2, "{}", step(1));
    assert!(!step(20).contains("(z -)"), "{}", step(20));
    assert!(step(20).ends_with(" 0 s left"), "{}", step(20));

    let record = read_json(&out.join("run.json"));
    let command: Vec<_> = record["command"].as_array().unwrap().iter().skip(1).collect();
    assert_eq!((command[0], command[1]), (&"train".into(), &"--config".into()));
    assert!(command.contains(&&Value::from("schedule.train_steps=20")));
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(record["config"]["schedule"]["train_steps"], 20);
    assert!(record.get("commit").is_some(), "known or null");
}
