//! Faults that are put into a run on purpose: how they are written, and what is no fault.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use training::{Fault, FaultKind, Faults};

use super::Workbench;
use super::program::{self, train};
use crate::support::{Run, read_json};

fn faults(written: &[&str]) -> Faults {
    written.iter().map(|fault| fault.parse::<Fault>().unwrap()).collect::<Vec<_>>().into()
}

#[test]
fn fault_strikes_the_steps_and_ranks_that_it_names_and_no_others() {
    type Struck = fn(u64, usize) -> bool;
    let cases: [(&str, FaultKind, Struck); 5] = [
        ("nan@7", FaultKind::Nan, |step, _| step == 7),
        ("inf@7-8", FaultKind::Inf, |step, _| step == 7 || step == 8),
        ("inf@7-", FaultKind::Inf, |step, _| step >= 7),
        ("die@2:rank1", FaultKind::Die, |step, rank| step == 2 && rank == 1),
        ("sleep@2-3:rank0", FaultKind::Sleep, |step, rank| (2..=3).contains(&step) && rank == 0),
    ];
    for (written, kind, struck) in cases {
        let faults = faults(&[written]);
        for (step, rank) in (1..12).flat_map(|step| (0..3).map(move |rank| (step, rank))) {
            assert_eq!(faults.strikes(kind, step, rank), struck(step, rank), "{written} {step}");
            let other = if kind == FaultKind::Nan { FaultKind::Inf } else { FaultKind::Nan };
            assert!(!faults.strikes(other, step, rank), "{written}");
        }
        assert_eq!(written.parse::<Fault>().unwrap().to_string(), written);
    }
    let several = faults(&["nan@7", "nan@9", "die@1:rank0"]);
    assert!(several.strikes(FaultKind::Nan, 7, 0) && several.strikes(FaultKind::Nan, 9, 1));
    assert!(!several.strikes(FaultKind::Nan, 8, 0));
    assert!(!Faults::default().strikes(FaultKind::Nan, 1, 0));
}

#[test]
fn what_is_no_fault_is_refused_with_what_would_be() {
    for (written, reason) in [
        ("", "write it as KIND@STEP"),
        ("nan", "write it as KIND@STEP"),
        ("burn@7", "no kind \"burn\"; known are nan, inf, die, sleep"),
        ("nan@", "\"\" is no step"),
        ("nan@0", "\"0\" is no step; the first step is 1"),
        ("nan@-7", "\"\" is no step"),
        ("nan@7-six", "\"six\" is no step"),
        ("inf@8-7", "its last step comes before its first"),
        ("die@7", "say which rank, as die@7:rank1"),
        ("sleep@7:1", "after the colon, a rank is wanted, as rank1"),
        ("sleep@7:rank", "after the colon, a rank is wanted, as rank1"),
    ] {
        let error = written.parse::<Fault>().unwrap_err().to_string();
        assert!(error.contains(reason), "{written}: {error}");
        assert!(error.starts_with(&format!("injected fault {written}: ")), "{error}");
    }
}

/// The layouts in which rank 1 is missed, the group and the collective that it is missed in, and
/// the numbers of that: before the second of two micro-batches, where all ask whether to stop, or
/// after the only one.
const LAYOUTS: [(&str, &str, &str, &str, u64); 2] =
    [("--tp", "tensor", "all_reduce(max)", "stop", 1), ("--dp", "data", "all_gather", "loss", 4)];

/// Trains on two ranks, of which `fault` strikes one in step 4; checks what every such run leaves.
fn failed(workbench: &Workbench, layout: &str, fault: &str) -> (Run, [Vec<Value>; 2]) {
    let out = workbench.new_run();
    let mut flags = vec![layout, "2", "--inject", fault];
    flags.extend(["--set", "checkpoint.interval_steps=3", "--set", "batch.micro_batch_size=2"]);
    if fault.starts_with("sleep") {
        // Long for a rank that is slow, and short for one that sleeps.
        flags.extend(["--set", "parallel.timeout_seconds=3"]);
    }
    let began = Instant::now();
    let run = train(workbench, &out, &flags);
    // Far below the ten minutes for which ranks wait for one that has died.
    assert!(began.elapsed() < Duration::from_secs(120), "it ended in time");
    assert_eq!(run.code, 1, "{}", run.stderr);
    let errors: Vec<_> = run.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(out.join("checkpoints/latest")).unwrap().trim(), "step-3");
    let calls = [0, 1].map(|rank| {
        let dump = read_json(&out.join(format!("collectives-rank-{rank}.json")));
        assert_eq!(dump["rank"], rank);
        assert!(errors[0].contains(dump["failure"].as_str().unwrap()), "{dump}");
        let calls = dump["calls"].as_array().unwrap().clone();
        assert!(!calls.is_empty() && calls.len() <= 64);
        for call in &calls {
            assert_eq!(call["pending"] == true, call["ended"].is_null(), "{call}");
        }
        calls
    });

    // The run goes on from what was saved, and the fault's files are history.
    let micro_batch = ["--set", "batch.micro_batch_size=2"];
    let again = train(workbench, &out, &[[layout, "2"], micro_batch].concat()).success();
    assert!(again.stderr.contains("step-3"), "{}", again.stderr);
    train(workbench, &out, &["--overwrite"]).success();
    assert!(!out.join("collectives-rank-0.json").exists(), "deleted with the run");
    (run, calls)
}

#[test]
fn rank_that_dies_ends_the_run_with_its_name_and_keeps_the_checkpoint() {
    let workbench = Workbench::new(101);
    for (layout, ..) in LAYOUTS {
        let (run, _) = failed(&workbench, layout, "die@4:rank1");
        let message =
            "error: training failed: rank 1 panicked: an injected fault in step 4, after ";
        let (_, last_call) = run.stderr.split_once(message).unwrap();
        assert!(last_call.contains("\" (call ") && last_call.contains(" numbers)"), "{last_call}");
    }
}

#[test]
fn rank_that_sleeps_ends_the_run_with_what_the_others_waited_in() {
    let workbench = Workbench::new(101);
    for (layout, group, kind, name, numbers) in LAYOUTS {
        let (run, [waiting, asleep]) = failed(&workbench, layout, "sleep@4:rank1");
        let message =
            format!("error: training failed: rank 0 waited 3 s in {kind} \"{name}\" (call ");
        assert!(run.stderr.contains(&message), "{}", run.stderr);
        let message = format!(", {numbers} numbers) for rank 1; rank 1 hangs\n");
        assert!(run.stderr.contains(&message), "{}", run.stderr);
        let (last, last_asleep) = (waiting.last().unwrap(), asleep.last().unwrap());
        assert_eq!(last["name"], name);
        assert_eq!(last["group"], group);
        assert_eq!(last["step"], 4);
        assert_eq!(last["kind"], kind);
        assert_eq!((&last["numbers"], &last["bytes"]), (&numbers.into(), &(4 * numbers).into()));
        assert_eq!(last["pending"], true);
        assert!(asleep.iter().all(|call| call["pending"] == false));
        // Up to there both had done the same.
        let before = &waiting[waiting.len() - 2];
        assert_eq!(
            (&before["sequence"], &before["name"]),
            (&last_asleep["sequence"], &last_asleep["name"])
        );
    }
}

#[test]
fn process_that_was_stopped_for_longer_than_ranks_wait_goes_on() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let flags = ["--tp", "2", "--set", "parallel.timeout_seconds=2"];
    let flags = flags.into_iter().chain(["--set", "schedule.train_steps=1000000"]);
    let mut command = program::command(&workbench, &out, &flags.collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let signal = |name: &str| {
        let pid = child.id().to_string();
        let status = Command::new("sh").args(["-c", "kill -$0 $1", name, &pid]).status();
        assert!(status.unwrap().success());
    };
    let steps = || lines(&out.join("metrics.jsonl"));
    let wait_for = |count: usize| {
        let began = Instant::now();
        while steps() < count {
            assert!(began.elapsed() < Duration::from_secs(60), "no step was done");
            sleep(Duration::from_millis(10));
        }
    };
    wait_for(1);
    signal("STOP");
    sleep(Duration::from_millis(2_300));
    let before = steps();
    signal("CONT");
    wait_for(before + 5);
    signal("TERM");
    assert_eq!(child.wait().unwrap().code(), Some(75));
}

/// How many lines the file has.
fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}
