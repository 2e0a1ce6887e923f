//! `pipeline train` as a user calls it: what it refuses, and what it says.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{MICRO, Workbench};
use crate::support::{Run, program};

/// Trains with [`MICRO`], changed by `flags`.
pub(super) fn train(workbench: &Workbench, out: &Path, flags: &[&str]) -> Run {
    Run::of(&mut command(workbench, out, flags))
}

/// The command that [`train`] runs.
pub(super) fn command(workbench: &Workbench, out: &Path, flags: &[&str]) -> Command {
    let config = out.with_extension("toml");
    fs::write(&config, MICRO).unwrap();
    let (config, data, out) = (config.as_path(), workbench.data(), out);
    let paths = ["train", "--config", text(config), "--data", text(&data), "--out", text(out)];
    let mut command = program();
    command.args(paths.iter().chain(flags));
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks that the program refuses `flags` with exit code 2 and `message`, and writes nothing.
fn check_refused(flags: &[&str], message: &str) {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let run = train(&workbench, &out, flags);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(!out.exists(), "nothing is written");
}

#[test]
fn model_that_does_not_split_is_refused_with_what_would() {
    check_refused(
        &[
            "--tp",
            "4",
            "--set",
            "model.gpt2.num_attention_heads=25",
            "--set",
            "model.gpt2.hidden_size=100",
        ],
        "25 attention heads cannot be split over --tp 4; allowed: 1, 5, 25",
    );
    check_refused(
        &["--set", "model.gpt2.hidden_size=30"],
        "hidden_size = 30: must be a multiple of num_attention_heads = 4",
    );
    check_refused(
        &["--tp", "4", "--set", "model.gpt2.ffn_hidden_size=50"],
        "ffn_hidden_size = 50 cannot be split over --tp 4; allowed: 1, 2",
    );
}

#[test]
fn batch_that_does_not_split_over_copies_is_refused_with_what_would() {
    check_refused(
        &["--dp", "3", "--set", "batch.global_batch_size=16"],
        "global_batch_size = 16 in micro-batches of 4 cannot be split over --dp 3; \
         allowed: 1, 2, 4",
    );
}

#[test]
fn grid_trains_logs_its_samples_and_tells_its_sizes() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let flags =
        ["--tp", "2", "--dp", "2", "--log-samples", "--set", "batch.micro_batch_size=2", "--json"];
    let report = train(&workbench, &out, &flags).success().json();
    assert_eq!(
        (&report["tensor_parallel_size"], &report["data_parallel_size"]),
        (&2.into(), &2.into())
    );
    assert_eq!(super::logged_samples(&out).len(), 10);
    let config: Value =
        serde_json::from_slice(&fs::read(out.join("checkpoints/step-10/config.json")).unwrap())
            .unwrap();
    assert_eq!(config["vocab_size"], 101, "the true vocabulary");

    let again = train(&workbench, &out, &["--json"]).success();
    assert!(again.stderr.contains("already at step 10 of 10"), "{}", again.stderr);
    assert_eq!(again.json()["data_parallel_size"], 2);
}

#[test]
fn folder_that_another_process_has_is_refused() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    train(&workbench, &out, &[]).success();
    let lock = File::open(out.join(".lock")).unwrap();
    lock.lock().unwrap();
    let run = train(&workbench, &out, &["--overwrite"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("another process is training into it"), "{}", run.stderr);
    assert!(out.join("checkpoints/step-10").exists(), "and nothing is deleted");
}

#[test]
fn warm_up_longer_than_the_run_is_told() {
    let workbench = Workbench::new(101);
    let run = train(&workbench, &workbench.new_run(), &["--set", "schedule.warmup_steps=11"]);
    assert!(
        run.success()
            .stderr
            .contains("schedule.warmup_steps = 11 is more than schedule.train_steps = 10"),
        "told on standard error"
    );
}

#[test]
fn batch_that_the_memory_cannot_hold_is_refused() {
    let workbench = Workbench::new(101);
    let huge = "1000000000000000";
    let flags = [
        "--set",
        &format!("batch.micro_batch_size={huge}"),
        "--set",
        &format!("batch.global_batch_size={huge}"),
    ];
    let run = train(&workbench, &workbench.new_run(), &flags);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("a smaller batch.micro_batch_size"), "{}", run.stderr);
}

#[test]
fn metrics_without_lines_of_done_steps_are_told() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    train(&workbench, &out, &[]).success();
    let log = out.join("metrics.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let kept: Vec<&str> = text.lines().take(5).collect();
    fs::write(&log, kept.join("\n") + "\n").unwrap();
    let run = train(&workbench, &out, &[]).success();
    assert!(run.stderr.contains("steps 6 to 10 are done but have no line"), "{}", run.stderr);
}

#[test]
fn faults_that_would_never_strike_are_refused() {
    check_refused(&["--inject", "die@2"], "say which rank, as die@2:rank1");
    check_refused(
        &["--inject", "die@2:rank2", "--tp", "2"],
        "injected fault die@2:rank2: there is no rank 2; the run has 2, from rank 0 on",
    );
    check_refused(
        &["--inject", "sleep@2:rank0"],
        "injected fault sleep@2:rank0: no other rank would miss it",
    );
    check_refused(&["--inject", "nan@11"], "injected fault nan@11: the run has 10 steps");
}

#[test]
fn run_without_numbers_ends_with_its_own_exit_code_and_keeps_its_checkpoint() {
    let workbench = Workbench::new(101);
    let common = ["--tp", "2", "--set", "checkpoint.interval_steps=4"];
    let f16 = ["--set", "precision=\"f16\"", "--set", "loss_scale.initial=2.0"];
    let stuck = ["--set", "loss_scale.max_skipped=2", "--inject", "inf@6-"];
    for (flags, message) in [
        (vec!["--inject", "nan@7"], "step 7: loss NaN"),
        (
            // Step 6 takes the hysteresis, step 7 the scale to its floor.
            [f16, stuck].concat(),
            "step 9: the last 2 steps overflowed at the smallest loss scale, 1",
        ),
    ] {
        let out = workbench.new_run();
        let run = train(&workbench, &out, &[&common[..], &flags].concat()).refused(3, message);
        assert!(run.stderr.contains("The checkpoints before are kept"), "{}", run.stderr);
        assert_eq!(run.stderr.matches("error:").count(), 1, "{}", run.stderr);
        assert!(out.join("checkpoints/step-4/manifest.json").is_file());
        let dumps = fs::read_dir(&out).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
            name.starts_with("non-finite-step-")
        });
        assert_eq!(dumps.count(), 1);
    }
}

#[test]
fn exchanges_are_written_down_on_request() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    train(&workbench, &out, &["--tp", "2"]).success();
    assert!(!out.join("collectives.json").exists());
    train(&workbench, &out, &["--tp", "2", "--trace-collectives", "--overwrite"]).success();
    let trace: Value =
        serde_json::from_str(&fs::read_to_string(out.join("collectives.json")).unwrap()).unwrap();
    let entries = trace.as_array().unwrap();
    assert_eq!(entries.len(), 2 * 10, "an entry for each step and rank");
    assert_eq!(entries[0]["collectives"]["layer.mlp.g"]["calls"], 2);
}
