//! `pipeline eval` that is stopped or killed: what it leaves, and how the same command goes on.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::signals::{PATIENCE, names};
use super::tiny_run;
use crate::support::{Dir, Ended, Running, pipeline_in, program, read_json, words};

const EVAL: &str = "eval --checkpoint run --task wikitext103 --data long.tokens --overlap 1";

/// A run, and a text that takes seconds to score.
fn long_test() -> Dir {
    let dir = tiny_run();
    let text = words(9, 3_000).replace('\n', " ");
    dir.write("long.tokens", format!(" \n = Title = \n \n {text} \n"));
    dir
}

/// Whole lines of the file.
fn lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
}

/// Starts the evaluation and has `signal` sent when `batches` more batches are kept.
fn stopped(dir: &Dir, line: &str, partial: &str, (signal, batches): (&str, usize)) -> Ended {
    let path = dir.path(partial);
    let enough = lines(&path).max(1) + batches;
    let mut run = Running::start(dir, line);
    run.until("wikitext103: ");
    run.while_not(|| lines(&path) >= enough);
    run.signal(signal);
    run.end()
}

/// The report without the time it took.
fn numbers(mut report: Value) -> Value {
    report["results"][0]["seconds"] = 0.into();
    report
}

fn skipped(stderr: &str) -> u64 {
    let words: Vec<&str> = stderr.split_whitespace().collect();
    let at = words.windows(4).position(|it| it == ["windows", "or", "examples", "are"]);
    words[at.unwrap_or_else(|| panic!("{stderr}")) - 1].parse().unwrap()
}

#[test]
fn a_stopped_evaluation_leaves_its_scores_and_the_same_command_goes_on() {
    let dir = long_test();
    let expected = pipeline_in(&dir, &format!("{EVAL} --json")).success().json();
    let before = names(&dir);
    let line = format!("{EVAL} --out report.json");
    for signal in ["TERM", "INT"] {
        let ended = stopped(&dir, &line, "report.json.partial", (signal, 5));
        assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
        assert!(ended.stderr.contains("stopped by a signal: "), "{}", ended.stderr);
        assert!(ended.stderr.contains("kept in report.json.partial"), "{}", ended.stderr);
        assert!(ended.stderr.contains("the same command goes on from there"), "{}", ended.stderr);
        assert!(ended.stdout.is_empty());
        assert!(ended.after < PATIENCE, "{:?}", ended.after);
        let left: Vec<String> =
            names(&dir).into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(left, ["report.json.partial"]);
    }
    let kept = 8 * (lines(&dir.path("report.json.partial")) as u64 - 1);
    let last = pipeline_in(&dir, &line).success();
    assert!(last.stderr.contains("are scored already; going on from there"), "{}", last.stderr);
    assert_eq!(skipped(&last.stderr), kept);
    assert_eq!(numbers(read_json(&dir.path("report.json"))), numbers(expected));
    assert!(!dir.path("report.json.partial").exists());
}

#[test]
fn a_killed_evaluation_goes_on_too_and_without_a_report_in_the_current_folder() {
    let dir = long_test();
    let expected = pipeline_in(&dir, &format!("{EVAL} --json")).success().json();
    let before = names(&dir);
    // The name of its file is the same in every call: that of the first one that was stopped.
    let partial = {
        let mut run = Running::start(&dir, EVAL);
        run.until("wikitext103: ");
        let new = || names(&dir).into_iter().find(|name| !before.contains(name));
        run.while_not(|| new().is_some_and(|name| lines(&dir.path(&name)) >= 3));
        run.signal("TERM");
        let ended = run.end();
        assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
        let name = new().unwrap();
        assert!(name.starts_with("eval-wikitext103-") && name.ends_with(".partial"), "{name}");
        assert!(ended.stderr.contains(&format!("kept in {name}")), "{}", ended.stderr);
        name
    };
    for _ in 0..2 {
        let ended = stopped(&dir, EVAL, &partial, ("KILL", 5));
        assert_eq!(ended.status.code(), None);
    }
    let kept = lines(&dir.path(&partial)) as u64;
    let last = pipeline_in(&dir, &format!("{EVAL} --json")).success();
    assert!(skipped(&last.stderr) >= 8 * (kept - 2), "{}", last.stderr);
    assert_eq!(numbers(last.json()), numbers(expected));
    assert_eq!(names(&dir), before);
}

#[test]
fn scores_that_are_damaged_or_anothers_are_refused_and_replaced_when_asked() {
    let dir = long_test();
    let line = format!("{EVAL} --out report.json");
    stopped(&dir, &line, "report.json.partial", ("TERM", 5));
    let partial = dir.path("report.json.partial");
    let whole = fs::read(&partial).unwrap();

    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    fs::write(&partial, &damaged).unwrap();
    let refused = pipeline_in(&dir, &line).refused(2, "the scores in it are damaged");
    assert!(refused.stderr.contains("report.json.partial:"), "{}", refused.stderr);
    assert!(refused.stderr.contains("pass --overwrite"), "{}", refused.stderr);
    assert_eq!(fs::read(&partial).unwrap(), damaged);

    fs::write(&partial, &whole).unwrap();
    let other = line.replace("--overlap 1", "--overlap 2");
    pipeline_in(&dir, &other).refused(2, "overlap is 1 there and 2 here");
    pipeline_in(&dir, "train --config train.toml --data data --out other --set seed=3").success();
    let other = line.replace("--checkpoint run", "--checkpoint other");
    pipeline_in(&dir, &other).refused(2, "another model");
    assert_eq!(fs::read(&partial).unwrap(), whole);
    let again = pipeline_in(&dir, &format!("{other} --overwrite --limit 20")).success();
    assert!(again.stderr.contains("beginning anew"), "{}", again.stderr);
    assert!(!partial.exists());

    // What is no evaluation's is not touched at all.
    fs::remove_file(dir.path("report.json")).unwrap();
    fs::write(&partial, "mine").unwrap();
    pipeline_in(&dir, &format!("{line} --overwrite"))
        .refused(2, "holds no scores of an evaluation");
    assert_eq!(fs::read_to_string(&partial).unwrap(), "mine");
}

#[test]
fn two_evaluations_at_one_place_do_not_mix() {
    let dir = long_test();
    let line = format!("{EVAL} --out report.json");
    let mut first = Running::start(&dir, &line);
    first.until("wikitext103: ");
    // However long the second takes, the first is not at its end by then.
    first.signal("STOP");
    let second = pipeline_in(&dir, &line);
    assert_eq!(second.code, 2, "{}", second.stderr);
    assert!(second.stderr.contains("another process is writing this file"), "{}", second.stderr);
    // Where both keep their scores in the current folder, by those.
    first.signal("CONT");
    first.signal("TERM");
    assert!(first.end().stderr.contains("stopped by a signal"));
    let mut first = Running::start(&dir, EVAL);
    first.until("wikitext103: ");
    first.signal("STOP");
    let second = pipeline_in(&dir, EVAL);
    assert_eq!(second.code, 2, "{}", second.stderr);
    assert!(second.stderr.contains("another process is evaluating"), "{}", second.stderr);
    first.signal("CONT");
    first.signal("TERM");
    assert!(first.end().stderr.contains("stopped by a signal"));
    pipeline_in(&dir, &format!("{line} --limit 16")).success();
}

/// The one that was there first ends as if the other had never been.
#[test]
fn a_second_evaluation_takes_nothing_from_the_first() {
    let dir = long_test();
    let line = format!("{EVAL} --limit 400 --out report.json --items items.jsonl");
    let mut first = Running::start(&dir, &line);
    first.until("wikitext103: ");
    first.signal("STOP");
    pipeline_in(&dir, &line).refused(2, "another process is writing this file");
    first.signal("CONT");
    let ended = first.end();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(dir.path("report.json").is_file() && dir.path("items.jsonl").is_file());
    assert!(!dir.path("report.json.partial").exists());
}

/// A limit on the size of files stands for a disk that is full.
#[test]
fn a_full_disk_ends_no_evaluation() {
    let dir = long_test();
    let expected = pipeline_in(&dir, &format!("{EVAL} --limit 400 --json")).success().json();
    let program = program().get_program().to_owned();
    let mut command = Command::new("sh");
    command
        .current_dir(dir.path(""))
        .arg("-c")
        .arg(format!("ulimit -f 8; exec {} {EVAL} --limit 400 --json", program.to_string_lossy()));
    let run = crate::support::Run::of(&mut command).success();
    assert!(run.stderr.contains("scoring goes on"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("scoring goes on").count(), 1, "told once: {}", run.stderr);
    assert_eq!(numbers(run.json()), numbers(expected));
}
