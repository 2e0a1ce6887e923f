//! Going on from a checkpoint that is named: another run's, and an earlier one of the run itself.

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use corpus::{Observer, Silent, Unit};
use serde_json::Value;
use training::checkpoint::Checkpoint;
use training::config::TrainConfig;
use training::plan::{Resume, RunOptions};
use training::{TrainError, TrainReport, train};

use super::{StopAfter, Workbench, logged, micro, steps};
use crate::support::{Run, pipeline, read_json};

fn saves_every_step(change: impl FnOnce(&mut TrainConfig)) -> TrainConfig {
    micro(|config| {
        config.checkpoint.interval_steps = Some(steps(1));
        change(config);
    })
}

/// Trains into `out` from `path` on.
fn resume(
    workbench: &Workbench,
    out: &Path,
    path: PathBuf,
    config: TrainConfig,
) -> Result<TrainReport, TrainError> {
    let options = RunOptions { resume: Resume::From(path), ..workbench.options(out) };
    train(&config.validate(options).unwrap(), &Silent)
}

/// The weights and moments of a run's last checkpoint.
fn tensors(run: &Path) -> [Vec<u8>; 2] {
    ["model.safetensors", "optimizer.safetensors"]
        .map(|file| fs::read(run.join("checkpoints/step-10").join(file)).unwrap())
}

fn step_of_sample_line(run: &Path, line: usize) -> u64 {
    let text = fs::read_to_string(run.join("samples.jsonl")).unwrap();
    let line: Value = serde_json::from_str(text.lines().nth(line).unwrap()).unwrap();
    line["step"].as_u64().unwrap()
}

#[test]
fn run_begins_where_another_stood_and_needs_its_folder_no_more() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(saves_every_step(|_| {}));
    let (losses, last) = (logged(&whole, "loss"), tensors(&whole));
    let out = workbench.new_run();
    let from = whole.join("checkpoints/step-4");
    let options = RunOptions { resume: Resume::From(from.clone()), ..workbench.options(&out) };
    let plan = saves_every_step(|_| {}).validate(options).unwrap();
    train(&plan, &StopAfter::new(7)).unwrap();
    assert_eq!(logged(&out, "step")[0], 5.0, "its logs begin there");
    assert_eq!(step_of_sample_line(&out, 0), 5);
    let record = read_json(&out.join("run.json"));
    assert_eq!(record["resumed_from"]["step"], 4);

    // The same call goes on with what there is; one from elsewhere does not.
    let error =
        resume(&workbench, &out, whole.join("checkpoints/step-5"), saves_every_step(|_| {}))
            .unwrap_err()
            .to_string();
    assert!(error.contains("it holds a run that did not begin at"), "{error}");
    let plan_again = saves_every_step(|_| {})
        .validate(RunOptions { resume: Resume::From(from), ..workbench.options(&out) })
        .unwrap();
    assert_eq!(train(&plan_again, &StopAfter::new(8)).unwrap().steps, 8);

    // What happens to the original, in place, does not concern the copy.
    let model = fs::File::options().write(true).open(whole.join("checkpoints/step-4/state.json"));
    model.unwrap().write_all(b"damaged").unwrap();
    assert!(Checkpoint::open(&whole.join("checkpoints/step-4")).is_err());
    assert!(Checkpoint::open(&out.join("checkpoints/step-4")).is_ok());
    fs::remove_dir_all(&whole).unwrap();
    assert_eq!(workbench.train_into(&out, saves_every_step(|_| {})).steps, 10);
    assert_eq!(logged(&out, "loss"), losses[4..]);
    assert_eq!(tensors(&out), last);
}

#[test]
fn run_folder_that_is_named_gives_its_newest_complete_checkpoint() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(saves_every_step(|_| {}));
    fs::write(whole.join("checkpoints/step-10/model.safetensors"), "").unwrap();
    for path in [whole.join("checkpoints"), whole.clone()] {
        let out = workbench.new_run();
        assert_eq!(resume(&workbench, &out, path, saves_every_step(|_| {})).unwrap().steps, 10);
        assert_eq!(logged(&out, "step"), [10.0]);
        assert!(Checkpoint::open(&out.join("checkpoints/step-9")).is_ok(), "that of the other run");
    }
    assert!(whole.join("checkpoints/step-10").exists(), "another run's folder is only read");
}

#[test]
fn run_that_died_before_it_had_the_other_runs_checkpoint_still_begins_there() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(saves_every_step(|_| {}));
    let out = workbench.new_run();
    resume(&workbench, &out, whole.join("checkpoints/step-4"), saves_every_step(|_| {})).unwrap();
    // As it is between the two: known to be the run's, and nothing in it yet.
    fs::remove_dir_all(out.join("checkpoints")).unwrap();
    fs::remove_file(out.join("metrics.jsonl")).unwrap();
    workbench.train_into(&out, saves_every_step(|_| {}));
    assert_eq!(logged(&out, "loss"), logged(&whole, "loss")[4..]);
}

#[test]
fn checkpoint_of_another_run_than_the_configurations_is_refused() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(saves_every_step(|_| {}));
    let refused = |workbench: &Workbench, config: TrainConfig, parts: [&str; 2]| {
        let out = workbench.new_run();
        let error = resume(workbench, &out, whole.join("checkpoints/step-4"), config)
            .unwrap_err()
            .to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!out.join("run.json").exists() && !out.join("checkpoints").exists());
    };
    refused(
        &workbench,
        saves_every_step(|config| config.optimizer.lr = 2e-3),
        ["optimizer.lr was 0.001 and is 0.002", "--override-schedule"],
    );
    refused(
        &workbench,
        saves_every_step(|config| {
            config.data.split = "80,20,0".parse().unwrap();
        }),
        ["data.split was", "--init-from"],
    );
    let other_model = |config: &mut TrainConfig| {
        let training::config::ModelConfig::Gpt2(section) = &mut config.model else {
            panic!("a GPT-2")
        };
        section.num_layers = super::number(3);
    };
    refused(
        &workbench,
        saves_every_step(other_model),
        ["step-4: another model: num_layers is 2 there and 3 here", "move it away"],
    );
    let other_data = Workbench::with_documents(101, &super::counting_documents(90));
    refused(&other_data, saves_every_step(|_| {}), ["of other content", "--init-from"]);
    let other_vocabulary = Workbench::new(128);
    refused(
        &other_vocabulary,
        saves_every_step(|_| {}),
        ["vocab_size is 101 there and 128 here", "data that it was trained with"],
    );
}

#[test]
fn overridden_schedule_of_another_run_is_remembered() {
    let workbench = Workbench::new(101);
    let (_, whole) = workbench.train(saves_every_step(|_| {}));
    let out = workbench.new_run();
    let options = RunOptions {
        resume: Resume::From(whole),
        override_schedule: true,
        ..workbench.options(&out)
    };
    let longer = saves_every_step(|config| config.schedule.train_steps = Some(steps(12)));
    assert_eq!(train(&longer.validate(options).unwrap(), &Silent).unwrap().steps, 12);
    assert_eq!(logged(&out, "step"), [11.0, 12.0]);
    let change = &read_json(&out.join("run.json"))["history"][0];
    assert_eq!((&change["step"], &change["changes"][0]["is"]), (&10.into(), &12.into()));
}

#[test]
fn going_back_sets_later_checkpoints_aside_and_does_their_steps_again() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(saves_every_step(|_| {}));
    let (losses, last) = (logged(&run, "loss"), tensors(&run));
    let options = RunOptions {
        resume: Resume::From(run.join("checkpoints/step-6")),
        ..workbench.options(&run)
    };
    let plan = saves_every_step(|_| {}).validate(options).unwrap();
    train(&plan, &StopAfter::new(8)).unwrap();
    assert_eq!(logged(&run, "step").len(), 8);
    assert_eq!(Checkpoint::open(&run).unwrap().step(), 8, "not one of those that were later");
    let aside = run.join("checkpoints/superseded-step-10");
    assert_eq!(fs::read(aside.join("model.safetensors")).unwrap(), last[0]);
    workbench.train_into(&run, saves_every_step(|_| {}));
    assert_eq!((logged(&run, "loss"), tensors(&run)), (losses, last));
    assert!(aside.exists());
}

#[test]
fn command_that_goes_back_goes_on_when_it_is_repeated() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(saves_every_step(|_| {}));
    let (losses, last) = (logged(&run, "loss"), tensors(&run));
    let exists = |name: &str| run.join("checkpoints").join(name).exists();
    let back_to = |step: u64, until: u64, keep_last: Option<usize>| {
        let path = run.join(format!("checkpoints/step-{step}"));
        let options = RunOptions { resume: Resume::From(path), ..workbench.options(&run) };
        let config = saves_every_step(|config| {
            config.checkpoint.keep_last = keep_last.and_then(NonZeroUsize::new);
        });
        train(&config.validate(options).unwrap(), &StopAfter::new(until)).unwrap().steps
    };
    assert_eq!(back_to(4, 6, None), 6);
    assert_eq!(read_json(&run.join("run.json"))["rewound_to"]["step"], 4);
    assert_eq!(back_to(4, 8, None), 8);
    assert_eq!(logged(&run, "loss"), losses[..8]);
    assert!(exists("step-7") && exists("superseded-step-5") && !exists("superseded-step-5-2"));

    // To another one it goes back, and to the first again after that.
    assert_eq!(back_to(5, 6, None), 6);
    assert!(!exists("step-7") && exists("superseded-step-7-2"));
    assert_eq!(back_to(4, 5, None), 5);
    assert!(exists("superseded-step-5-2"));
    // It goes on too where newer ones have taken the place of the one that is named.
    assert_eq!(back_to(4, 9, Some(1)), 9);
    assert!(!exists("step-4") && exists("step-9"));
    assert_eq!(back_to(4, 10, Some(1)), 10);
    assert_eq!((logged(&run, "loss"), tensors(&run)), (losses, last));
}

#[test]
fn own_checkpoint_is_known_from_within_its_folder() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(saves_every_step(|_| {}));
    for (place, path) in [("checkpoints", "step-6"), ("checkpoints/step-5", ".")] {
        let mut command = super::program::command(&workbench, &run, &["--resume", path]);
        let output = Run::of(command.current_dir(run.join(place))).success();
        assert!(output.stderr.contains("going back to step "), "{}", output.stderr);
    }
    let aside = run.join("checkpoints/superseded-step-8");
    let options = RunOptions { resume: Resume::From(aside), ..workbench.options(&run) };
    let plan = saves_every_step(|_| {}).validate(options).unwrap();
    let error = train(&plan, &Silent).unwrap_err().to_string();
    assert!(error.contains("superseded-step-8: it is set aside; give it the name"), "{error}");
}

#[test]
fn overwriting_deletes_what_a_run_writes_and_nothing_else() {
    let workbench = Workbench::new(101);
    let config = || saves_every_step(|config| config.logging.tensorboard = true);
    let (_, run) = workbench.train(config());
    let events = run.join("tensorboard");
    let own = fs::read_dir(&events).unwrap().next().unwrap().unwrap().path();
    let foreign = ["notes.txt", "events.out.tfevents.1700000000.host.1.0"];
    for name in foreign {
        fs::write(events.join(name), "mine").unwrap();
    }
    for name in ["non-finite-step-7.json", "non-finite-step-x.json"] {
        fs::write(run.join(name), "{}").unwrap();
    }
    let options = RunOptions { resume: Resume::Overwrite, ..workbench.options(&run) };
    let plan = saves_every_step(|_| {}).validate(options).unwrap();
    train(&plan, &StopAfter::new(2)).unwrap();
    assert!(foreign.iter().all(|name| events.join(name).exists()) && !own.exists());
    assert!(!run.join("non-finite-step-7.json").exists());
    assert!(run.join("non-finite-step-x.json").exists());
}

/// Asks to stop at once.
struct StopNow;

impl Observer for StopNow {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        true
    }
}

#[test]
fn reading_a_checkpoint_stops_when_asked_and_changes_nothing() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(saves_every_step(|_| {}));
    let stopped = |result: Result<TrainReport, TrainError>| {
        assert!(matches!(result, Err(TrainError::Stopped)), "{result:?}");
    };
    assert!(matches!(Checkpoint::open_observed(&run, &StopNow), Err(TrainError::Stopped)));
    let longer = || saves_every_step(|config| config.schedule.train_steps = Some(steps(12)));
    let resume = |resume: Resume, out: &Path| {
        let options = RunOptions { resume, override_schedule: true, ..workbench.options(out) };
        longer().validate(options).unwrap()
    };
    let before = fs::read(run.join("run.json")).unwrap();
    stopped(train(&resume(Resume::Auto, &run), &StopNow));
    stopped(train(&resume(Resume::From(run.join("checkpoints/step-3")), &run), &StopNow));
    assert_eq!(fs::read(run.join("run.json")).unwrap(), before);
    assert!(run.join("checkpoints/step-10").exists());
    let out = workbench.new_run();
    let plan = resume(Resume::From(run.clone()), &out);
    stopped(train(&plan, &StopNow));
    assert_eq!(train(&plan, &Silent).unwrap().steps, 12, "the same command begins again");
    let options = RunOptions { init_from: Some(run), ..workbench.options(&workbench.new_run()) };
    let plan = saves_every_step(|_| {}).validate_observed(options, &StopNow);
    assert!(matches!(plan, Err(TrainError::Stopped)));
}

#[test]
fn finished_run_says_so_and_is_done() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let config = out.with_extension("toml");
    fs::write(&config, super::MICRO).unwrap();
    let data = workbench.data();
    let line = |more: &[&str]| {
        let paths = [("--config", &config), ("--data", &data), ("--out", &out)];
        let mut words = vec!["train".to_owned()];
        for (flag, path) in paths {
            words.extend([flag.to_owned(), path.display().to_string()]);
        }
        words.extend(more.iter().map(|&word| word.to_owned()));
        pipeline(words)
    };
    let sixty = ["--set", "schedule.train_steps=60"];
    line(&sixty).success();
    let again = line(&sixty).success();
    assert!(again.stderr.contains("already at step 60 of 60"), "{}", again.stderr);
    line(&[&sixty[..], &["--resume", "never"]].concat())
        .refused(2, "it holds a run, and resuming is off");
    line(&[&sixty[..], &["--resume", "nowhere"]].concat())
        .refused(2, "nowhere: no checkpoint here");
    line(&[&sixty[..], &["--resume", "never", "--overwrite"]].concat())
        .refused(2, "cannot be used with");
    let run = line(&["--set", "schedule.train_steps=62"]);
    let run = run.refused(2, "schedule.train_steps was 60 and is 62");
    assert!(run.stderr.contains("pass --override-schedule"), "{}", run.stderr);
    let run = line(&["--set", "schedule.train_steps=62", "--override-schedule"]).success();
    assert!(
        run.stderr
            .contains("--override-schedule: schedule.train_steps was 60 and is 62, from step 61"),
        "{}",
        run.stderr
    );
}

#[test]
fn both_cadences_run_side_by_side_and_round_steps_are_kept() {
    let workbench = Workbench::new(101);
    let saved = |change: &dyn Fn(&mut TrainConfig)| {
        let (_, run) = workbench.train(micro(change));
        let mut found: Vec<u64> = fs::read_dir(run.join("checkpoints"))
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_prefix("step-")?.parse().ok()
            })
            .collect();
        found.sort_unstable();
        found
    };
    // A ten-thousandth of a millisecond has always passed.
    assert_eq!(
        saved(&|config| {
            config.checkpoint.interval_minutes = Some(1e-12);
        }),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(
        saved(&|config| {
            config.checkpoint.interval_steps = Some(steps(4));
            config.checkpoint.interval_minutes = Some(1e6);
        }),
        [4, 8, 10]
    );
    assert_eq!(
        saved(&|config| {
            config.checkpoint.interval_steps = Some(steps(1));
            config.checkpoint.keep_last = NonZeroUsize::new(2);
            config.checkpoint.keep_every = Some(steps(3));
        }),
        [3, 6, 9, 10]
    );
    let error = |change: &dyn Fn(&mut TrainConfig)| {
        workbench.validate(micro(change)).unwrap_err().to_string()
    };
    let message = error(&|config| {
        config.checkpoint.interval_steps = Some(steps(4));
        config.checkpoint.keep_every = Some(steps(6));
    });
    assert!(message.contains("keep_every = 6: must be a multiple of interval_steps = 4"));
    assert!(error(&|config| config.checkpoint.interval_minutes = Some(0.0)).contains("above 0"));
}

#[test]
fn checkpoint_under_another_steps_name_is_set_aside() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let config = || micro(|config| config.checkpoint.interval_steps = Some(steps(3)));
    let plan = config().validate(workbench.options(&out)).unwrap();
    train(&plan, &StopAfter::new(7)).unwrap();
    let checkpoints = out.join("checkpoints");
    fs::rename(checkpoints.join("step-7"), checkpoints.join("step-500")).unwrap();
    let unbroken = workbench.train(config()).1;
    workbench.train_into(&out, config());
    assert_eq!(logged(&out, "loss"), logged(&unbroken, "loss"));
    assert_eq!(Checkpoint::open(&out).unwrap().step(), 10);
    assert!(!checkpoints.join("step-500").exists() && checkpoints.join("step-6").exists());
    assert!(
        checkpoints.join("superseded-step-500").exists()
            || checkpoints.join("broken-step-500").exists()
    );
}

#[test]
fn run_without_its_record_says_how_its_checkpoints_are_gone_on_with() {
    let workbench = Workbench::new(101);
    let (_, out) = workbench.train(micro(|_| {}));
    fs::remove_file(out.join("run.json")).unwrap();
    let plan = micro(|_| {}).validate(workbench.options(&out)).unwrap();
    let error = train(&plan, &Silent).unwrap_err().to_string();
    assert!(error.contains("it has checkpoints and no run.json"), "{error}");
    let elsewhere = workbench.new_run();
    let options = RunOptions { resume: Resume::From(out), ..workbench.options(&elsewhere) };
    let report = train(&micro(|_| {}).validate(options).unwrap(), &Silent).unwrap();
    assert_eq!(report.steps, 10);
}
