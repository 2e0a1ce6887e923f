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

/// `pipeline dedup` at work, halted once it has begun its folder.
fn halted_dedup(input: &Path, out: &Path, partial: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pipeline"))
        .args(["dedup".as_ref(), input.as_os_str(), "--out".as_ref(), out.as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !partial.exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its folder was seen");
        assert!(began.elapsed() < Duration::from_secs(60), "no folder was begun");
        sleep(Duration::from_millis(1));
    }
    signal(&child, "STOP");
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

#[test]
fn a_killed_run_leaves_no_folder_and_is_repeated_to_the_same_bytes() {
    let dir = Dir::new();
    let input = write_corpus(&dir);
    let (out, partial) = (dir.path("out"), dir.path(".out.partial"));
    let mut child = halted_dedup(&input, &out, &partial);
    fs::write(partial.join("removed.jsonl"), "stale").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&dir), [".out.partial", "in.jsonl"]);

    let again = dedup(&input, &out).success();
    assert!(again.stderr.contains("of an earlier run that did not end"), "{}", again.stderr);
    assert_eq!(names(&dir), ["in.jsonl", "out"]);
    dedup(&input, &dir.path("unbroken")).success();
    for file in ["corpus.bin", "corpus.idx", "removed.jsonl", "provenance.jsonl", "rejects.jsonl"] {
        let read = |folder: &str| fs::read(dir.path(folder).join(file)).unwrap();
        assert!(read("out") == read("unbroken"), "{file} differs");
    }
}

#[test]
fn a_second_run_into_a_folder_that_is_being_written_is_refused() {
    let dir = Dir::new();
    let input = write_corpus(&dir);
    let (out, partial) = (dir.path("out"), dir.path(".out.partial"));
    let mut first = halted_dedup(&input, &out, &partial);
    let second = dedup(&input, &out);
    assert_eq!(second.code, 2);
    assert!(second.stderr.contains("another run is writing this folder"), "{}", second.stderr);
    signal(&first, "CONT");
    assert!(first.wait().unwrap().success());
    assert_eq!(names(&dir), ["in.jsonl", "out"]);
    let third = dedup(&input, &out);
    assert_eq!(third.code, 2);
    assert!(third.stderr.contains("exists already"), "{}", third.stderr);
}
