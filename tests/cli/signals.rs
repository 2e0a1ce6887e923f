//! SIGINT and SIGTERM: a command ends soon, with the exit code that says what is saved, and leaves
//! nothing half done.

use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::{jsonl, tiny_corpus, tiny_run};
use crate::support::{Dir, Running, pipeline_in, program, sparse_shard, words};

/// The time in which a command has to end after a signal, beyond the work at hand.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The names in a folder.
pub(super) fn names(dir: &Dir) -> Vec<String> {
    let entries = fs::read_dir(dir.path("")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_curation_stops_in_any_stage_and_goes_on_from_there() {
    let dir = Dir::new();
    // Some seconds of work, so that each stage is still at it when its first message has been read.
    let texts: Vec<String> = (0..8_000).map(|seed| words(seed, 300)).collect();
    dir.write("in.jsonl", jsonl(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
    for (stage, signal) in [("read:", "INT"), ("sign documents:", "TERM"), ("tokenize:", "INT")] {
        let mut run = Running::start(&dir, "dedup in.jsonl --out out");
        run.until(stage);
        run.signal(signal);
        let ended = run.end();
        assert!(ended.stderr.contains("stopped by a signal: "), "{}", ended.stderr);
        assert!(ended.after < PATIENCE, "{stage} {:?}", ended.after);
        // Before the first documents are read, there is nothing to go on with.
        let (code, left, message) = match ended.status.code() {
            Some(1) if stage == "read:" => (1, &["in.jsonl"][..], "nothing is left behind"),
            _ => (75, &[".out.stages", "in.jsonl"][..], "The same command goes on from there"),
        };
        assert_eq!(ended.status.code(), Some(code), "{stage} {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert_eq!(names(&dir), left, "{stage}");
    }
    let last = pipeline_in(&dir, "dedup in.jsonl --out out").success();
    assert!(last.stderr.contains("going on with what"), "{}", last.stderr);
    assert_eq!(names(&dir), ["in.jsonl", "out"]);
}

#[test]
fn a_training_stops_with_a_checkpoint_and_says_how_to_go_on() {
    let dir = tiny_corpus();
    let line = "train --config train.toml --data data --out run --set schedule.train_steps=1000000";
    for signal in ["INT", "TERM"] {
        let mut run = Running::start(&dir, line);
        run.until("training: 1,000,000 steps");
        run.signal(signal);
        let ended = run.end();
        assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("a second signal ends the program at once"),
            "{}",
            ended.stderr
        );
        assert!(ended.stdout.contains(" of 1,000,000"), "{}", ended.stdout);
        assert!(ended.stdout.contains("The same command goes on"), "{}", ended.stdout);
        assert!(ended.after < PATIENCE, "{:?}", ended.after);
        assert!(dir.path("run/checkpoints/latest").is_file());
    }
    // One that saves all the time is as likely as not saving when the signal comes.
    for _ in 0..3 {
        let mut run = Running::start(&dir, &format!("{line} --set checkpoint.interval_steps=1"));
        run.until("saved run/checkpoints/step-");
        run.signal("TERM");
        let ended = run.end();
        assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
        let shown = pipeline_in(&dir, "checkpoint show run").success();
        assert!(!shown.stderr.contains("passing over"), "{}", shown.stderr);
    }
    // One that is told to overwrite would begin again.
    let mut run = Running::start(&dir, &format!("{line} --overwrite"));
    run.until("training:");
    run.signal("INT");
    assert!(run.end().stdout.contains("The same command without --overwrite goes on"));
}

#[test]
fn data_that_is_read_or_indexed_is_left_at_once() {
    let dir = Dir::new();
    dir.write("train.toml", super::TRAIN);
    // Seconds of reading: 6 GiB of tokens, of which the files hold next to nothing.
    sparse_shard(&dir.path("long"), &[i32::MAX, i32::MAX, i32::MAX, 500, 500, 500]);
    sparse_shard(&dir.path("short"), &[2_000; 6]);
    let line = "train --config train.toml --out run --set data.tokenizer=gpt2 --data";
    for (more, stage) in [
        ("long", "verify: "),
        // Tens of millions of samples, and as many documents to shuffle.
        (
            "short --set data.order=megatron --set schedule.train_steps=30000000 \
             --set model.gpt2.seq_length=1000",
            "shuffle documents: ",
        ),
    ] {
        let mut run = Running::start(&dir, &format!("{line} {more}"));
        run.until(stage);
        run.signal("TERM");
        let ended = run.end();
        assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
        let message = "stopped by a signal before the first step; nothing is lost";
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
        assert!(ended.after < PATIENCE, "{stage} {:?}", ended.after);
        assert!(!dir.path("run").exists());
    }
}

#[test]
fn an_evaluation_that_has_scored_nothing_yet_loses_nothing() {
    let dir = super::tiny_run();
    sparse_shard(&dir.path("long"), &[i32::MAX, i32::MAX, i32::MAX, 500, 500, 500]);
    let line = "eval --checkpoint run --task validation --data long --set split_weights=1,1,0";
    let mut run = Running::start(&dir, line);
    run.until("verify: ");
    run.signal("TERM");
    let ended = run.end();
    assert_eq!(ended.status.code(), Some(75), "{}", ended.stderr);
    let message = "stopped by a signal before more was scored";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    assert!(ended.after < PATIENCE, "{:?}", ended.after);
}

#[test]
fn a_second_signal_ends_the_program_at_once() {
    let dir = tiny_corpus();
    // One micro-batch of many seconds, which the first signal waits for.
    let line = "train --config train.toml --data data --out run \
                --set batch.micro_batch_size=50000 --set batch.global_batch_size=50000";
    let mut run = Running::start(&dir, line);
    run.until("training:");
    run.signal("INT");
    run.until("stopping as soon as the work at hand allows it");
    run.signal("TERM");
    let ended = run.end();
    assert_eq!(ended.status.code(), None, "{}", ended.stderr);
    assert_eq!(ended.status.signal(), Some(15));
    assert!(ended.after < PATIENCE, "{:?}", ended.after);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = Dir::new();
    let mut run = Running::start(&dir, "doctor --json");
    drop(run.child.stdout.take());
    let status = run.child.wait().unwrap();
    run.messages.read_to_string(&mut run.seen).unwrap();
    assert!(status.success(), "{}", run.seen);
    assert!(run.seen.is_empty(), "{}", run.seen);
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let full = "/dev/full";
    if !std::path::Path::new(full).exists() {
        eprintln!("skipped: this system has no {full}");
        return;
    }
    let mut command = program();
    command.args(["doctor", "--json"]).stdout(fs::File::create(full).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("cannot write to standard output"), "{message}");
    assert!(pipeline_in(&Dir::new(), "doctor").success().stderr.is_empty());
}

#[test]
fn a_text_that_is_stopped_keeps_what_is_out() {
    let dir = tiny_run();
    let line = "generate --checkpoint run --prompt bab --max-tokens 100000000 --ignore-end";
    for (more, signal) in [("", "INT"), ("--no-cache", "TERM")] {
        let mut run = Running::start(&dir, &format!("{line} {more}"));
        run.until("generate: ");
        let mut first = [0; 10];
        run.child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert!(first.starts_with(b"bab"));
        run.signal(signal);
        let stdout = run.child.stdout.take().unwrap();
        let rest = std::thread::spawn(move || {
            let mut rest = Vec::new();
            BufReader::new(stdout).read_to_end(&mut rest).map(|_| rest)
        });
        let began = Instant::now();
        run.messages.read_to_string(&mut run.seen).unwrap();
        let status = run.child.wait().unwrap();
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        assert_eq!(status.code(), Some(1), "{}", run.seen);
        assert!(run.seen.contains("stopped by a signal after "), "{}", run.seen);
        assert!(rest.join().unwrap().unwrap().ends_with(b"\n"));
    }
}
