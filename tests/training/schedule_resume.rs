//! The schedule of a run that goes on: where it stood, to the last bit, and changed only where that
//! is asked for.

use std::fs;
use std::path::Path;

use corpus::Silent;
use serde_json::Value;
use training::config::TrainConfig;
use training::plan::RunOptions;
use training::{TrainError, TrainReport, train};

use super::{StopAfter, Workbench, logged, micro, steps};

/// A warm-up of ten steps, and a cosine to step 100.
fn hundred_steps(change: impl FnOnce(&mut TrainConfig)) -> TrainConfig {
    micro(|config| {
        config.schedule.train_steps = Some(steps(100));
        config.schedule.warmup_steps = Some(10);
        change(config);
    })
}

/// What the schedule and the optimizer's state decide of each step, as it was written down.
fn decided(run: &Path) -> Vec<[Value; 5]> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let keys = ["step", "learning_rate", "weight_decay", "loss_scale", "updates"];
    lines
        .map(|line| {
            keys.map(|key| line.get(key).unwrap_or_else(|| panic!("no {key} in {line}")).clone())
        })
        .collect()
}

fn stop_after(workbench: &Workbench, out: &Path, steps: u64) {
    let plan = hundred_steps(|_| {}).validate(workbench.options(out)).unwrap();
    assert_eq!(train(&plan, &StopAfter::new(steps)).unwrap().steps, steps);
}

fn go_on(options: RunOptions, config: TrainConfig) -> Result<TrainReport, TrainError> {
    train(&config.validate(options).unwrap(), &Silent)
}

#[test]
fn schedule_and_optimizer_go_on_where_they_stood() {
    let workbench = Workbench::new(101);
    let (_, unbroken) = workbench.train(hundred_steps(|_| {}));
    let expected = decided(&unbroken);
    assert_eq!(expected.len(), 100);
    assert_eq!(expected[99][4], 100, "Adam's count of updates");
    assert_eq!(expected[9][1], 1e-3, "the peak, at the end of the warm-up");
    // In the warm-up, at its end, in the decay, before the last step.
    for stop in [5, 10, 50, 99] {
        let out = workbench.new_run();
        stop_after(&workbench, &out, stop);
        go_on(workbench.options(&out), hundred_steps(|_| {})).unwrap();
        assert_eq!(decided(&out), expected, "stopped after {stop}");
        assert_eq!(logged(&out, "loss"), logged(&unbroken, "loss"), "stopped after {stop}");
    }
}

#[test]
fn changed_schedule_is_refused_with_both_values() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    stop_after(&workbench, &out, 12);
    let before = fs::read(out.join("metrics.jsonl")).unwrap();
    type Change = fn(&mut TrainConfig);
    let changes: [(Change, &str); 4] = [
        (|config| config.optimizer.lr = 2e-3, "optimizer.lr was 0.001 and is 0.002"),
        (
            |config| config.schedule.train_steps = Some(steps(200)),
            "schedule.train_steps was 100 and is 200",
        ),
        (
            |config| config.schedule.warmup_steps = Some(20),
            "schedule.warmup_steps was 10 and is 20",
        ),
        (
            |config| config.optimizer.weight_decay = 0.1,
            "optimizer.weight_decay was 0.01 and is 0.1",
        ),
    ];
    for (change, message) in changes {
        let error = go_on(workbench.options(&out), hundred_steps(change)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(error.contains("--override-schedule"), "{error}");
    }
    // What is no schedule is refused even so.
    let options = RunOptions { override_schedule: true, ..workbench.options(&out) };
    for change in [(|config| config.seed = 8) as Change, |config| {
        config.batch.global_batch_size = super::number(8)
    }] {
        let error = go_on(options.clone(), hundred_steps(change)).unwrap_err().to_string();
        assert!(error.contains("it holds another run: ") && error.contains(" and is 8"), "{error}");
        assert!(!error.contains("--override-schedule"), "{error}");
    }
    assert_eq!(fs::read(out.join("metrics.jsonl")).unwrap(), before);
}

#[test]
fn schedule_that_is_to_change_does_so_from_the_next_step_on_and_is_remembered() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    stop_after(&workbench, &out, 12);
    let changed = || {
        hundred_steps(|config| {
            config.optimizer.lr = 2e-3;
            config.schedule.train_steps = Some(steps(30));
        })
    };
    let options = RunOptions { override_schedule: true, ..workbench.options(&out) };
    let plan = changed().validate(options.clone()).unwrap();
    train(&plan, &StopAfter::new(20)).unwrap();

    let rates = logged(&out, "learning_rate");
    let earlier = hundred_steps(|_| {}).validate(workbench.options(&out)).unwrap();
    let rate = |plan: &training::TrainPlan, step| plan.step_settings(step, step, 0).learning_rate;
    assert_eq!(rates[..12], (1..=12).map(|step| rate(&earlier, step)).collect::<Vec<_>>());
    assert_eq!(rates[12..], (13..=20).map(|step| rate(&plan, step)).collect::<Vec<_>>());

    let record: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["history"][0]["step"], 12);
    assert_eq!(record["history"][0]["changes"][0]["key"], "optimizer.lr");
    assert_eq!(record["history"][0]["changes"][0]["was"], 1e-3);
    assert_eq!(record["history"][0]["changes"][0]["is"], 2e-3);
    assert_eq!(record["config"]["schedule"]["train_steps"], 30);

    // From now on it is the run's schedule, and the old one another's.
    let error = go_on(workbench.options(&out), hundred_steps(|_| {})).unwrap_err().to_string();
    assert!(error.contains("optimizer.lr was 0.002 and is 0.001"), "{error}");
    let report = go_on(workbench.options(&out), changed()).unwrap();
    assert_eq!((report.steps, report.stopped), (30, false));
    assert_eq!(logged(&out, "step").len(), 30);

    // A finished run gets more steps; fewer than it has done are none.
    let longer = |count| {
        hundred_steps(|config| {
            config.optimizer.lr = 2e-3;
            config.schedule.train_steps = Some(steps(count));
        })
    };
    assert_eq!(go_on(options.clone(), longer(32)).unwrap().steps, 32);
    let error = go_on(options, longer(31)).unwrap_err().to_string();
    assert!(
        error.contains("step-32 stands at step 32, and schedule.train_steps = 31 lies before it"),
        "{error}"
    );
}
