//! `pipeline dedup` that is killed, and two at a time: nothing is left half done, nothing is mixed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Dir, Run, pipeline, words};

/// Some 10 MB of distinct documents: a second of work, of which the tests use the first moments.
fn write_corpus(dir: &Dir) -> PathBuf {
    let lines: String =
        (0..4_000).map(|seed| format!("{}\n", json!({"text": words(seed, 400)}))).collect();
    dir.write("in.jsonl", lines)
}

fn dedup(input: &Path, out: &Path) -> Run {
    pipeline(["dedup".as_ref(), input.as_os_str(), "--out".as_ref(), out.as_os_str()])
}

/// `pipeline dedup` at work, once it has begun its stage folder.
fn begun_dedup(input: &Path, out: &Path, stages: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pipeline"))
        .args(["dedup".as_ref(), input.as_os_str(), "--out".as_ref(), out.as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !stages.join("origin.json").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its folder was seen");
        assert!(began.elapsed() < Duration::from_secs(60), "no folder was begun");
        sleep(Duration::from_millis(1));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

fn names(dir: &Dir) -> Vec<String> {
    let entries = fs::read_dir(dir.path("")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Files that are the same bytes however a run came to its end.
const RESULTS: [&str; 5] =
    ["corpus.bin", "corpus.idx", "removed.jsonl", "provenance.jsonl", "rejects.jsonl"];

fn assert_same_results(one: &Path, other: &Path, when: &str) {
    for file in RESULTS {
        let read = |folder: &Path| fs::read(folder.join(file)).unwrap();
        assert!(read(one) == read(other), "{file} differs: {when}");
    }
}

#[test]
fn killed_at_any_moment_a_run_is_repeated_to_the_same_bytes() {
    let dir = Dir::new();
    let input = write_corpus(&dir);
    let unbroken = dir.path("unbroken");
    let began = Instant::now();
    dedup(&input, &unbroken).success();
    let mut whole = began.elapsed();

    let (out, stages) = (dir.path("out"), dir.path(".out.stages"));
    let mut killed = 0;
    for moment in (0..12).cycle().take(60) {
        let mut child = begun_dedup(&input, &out, &stages);
        sleep(whole * moment / 12);
        match child.try_wait().unwrap() {
            None => killed += 1,
            // The machine had more to do in the first run: this one was over before the moment.
            Some(_) => whole = whole * 3 / 4,
        }
        child.kill().unwrap();
        child.wait().unwrap();
        dedup(&input, &out).success();
        assert_same_results(&out, &unbroken, &format!("killed at {moment} of 12"));
        assert_eq!(names(&dir), ["in.jsonl", "out", "unbroken"]);
        fs::remove_dir_all(&out).unwrap();
        if killed == 10 {
            break;
        }
    }
    assert_eq!(killed, 10, "so many runs were killed");
}

#[test]
fn killed_over_and_over_a_run_comes_to_its_end() {
    let dir = Dir::new();
    let input = write_corpus(&dir);
    let (out, stages) = (dir.path("out"), dir.path(".out.stages"));
    for moment in 0..6 {
        if out.exists() {
            break;
        }
        let mut child = begun_dedup(&input, &out, &stages);
        sleep(Duration::from_millis(60 * moment));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    dedup(&input, &out).success();
    dedup(&input, &dir.path("unbroken")).success();
    assert_same_results(&out, &dir.path("unbroken"), "killed six times");
}

#[test]
fn a_second_run_into_a_folder_that_is_being_written_is_refused() {
    let dir = Dir::new();
    let input = write_corpus(&dir);
    let (out, stages) = (dir.path("out"), dir.path(".out.stages"));
    let mut first = begun_dedup(&input, &out, &stages);
    signal(&first, "STOP");
    let second = dedup(&input, &out);
    assert_eq!(second.code, 2);
    assert!(second.stderr.contains("another run is writing this folder"), "{}", second.stderr);
    signal(&first, "CONT");
    assert!(first.wait().unwrap().success());
    assert_eq!(names(&dir), ["in.jsonl", "out"]);
    let third = dedup(&input, &out).success();
    assert!(third.stderr.contains("complete already"), "{}", third.stderr);
}
