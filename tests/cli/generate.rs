//! `pipeline generate`: texts on standard output, the same with and without the cache.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::Value;
use training::parallel::random::KeyedUniform;

use super::tiny_run;
use crate::support::{Dir, Run, pipeline_in, program};

fn generate(dir: &Dir, more: &str) -> Run {
    pipeline_in(dir, &format!("generate --checkpoint run {more}"))
}

/// The text of each sample, without the prompt.
fn texts(run: &Run) -> Vec<String> {
    let report = run.json();
    let samples = report["samples"].as_array().unwrap();
    samples.iter().map(|sample| sample["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_text_is_the_same_with_and_without_cache_and_on_more_ranks_and_follows_the_prompt() {
    let dir = tiny_run();
    for how in ["--temperature 0", "--seed 3", "--temperature 0.7 --top-k 50 --top-p 0.9"] {
        // 40 tokens, and the model sees 16.
        let alone = generate(&dir, &format!("--prompt babob --max-tokens 40 {how} --ignore-end"));
        let alone = alone.success();
        assert!(alone.stdout.starts_with("babob"), "{}", alone.stdout);
        assert!(alone.stdout.ends_with('\n'));
        for more in ["--no-cache", "--tp 2"] {
            let line = format!("--prompt babob --max-tokens 40 {how} --ignore-end {more}");
            assert_eq!(generate(&dir, &line).success().stdout, alone.stdout, "{how} {more}");
        }
        let json =
            generate(&dir, &format!("--prompt babob --max-tokens 40 {how} --ignore-end --json"));
        let json = json.success();
        assert_eq!(format!("babob{}", texts(&json)[0]).trim_end(), alone.stdout.trim_end());
        assert_eq!(json.json()["samples"][0]["tokens"].as_array().unwrap().len(), 40);
        assert_eq!(json.json()["samples"][0]["finish"], "max_tokens");
    }
}

#[test]
fn samples_differ_and_each_is_what_it_would_be_among_fewer() {
    let dir = tiny_run();
    let three =
        texts(&generate(&dir, "--prompt a --num-samples 3 --max-tokens 12 --json").success());
    assert_eq!(three.len(), 3);
    assert!(three[0] != three[1] && three[1] != three[2] && three[0] != three[2], "{three:?}");
    let two = texts(&generate(&dir, "--prompt a --num-samples 2 --max-tokens 12 --json").success());
    assert_eq!(two, three[..2]);
    let table = generate(&dir, "--prompt a --num-samples 3 --max-tokens 12").success().stdout;
    for (number, text) in three.iter().enumerate() {
        let expected =
            format!("--- sample {} of 3 ---\na{}", number + 1, text.trim_end_matches('\n'));
        assert!(table.contains(&expected), "{table}");
    }
}

#[test]
fn settings_and_speed_are_told_beside_the_text() {
    let dir = tiny_run();
    let run = generate(&dir, "--prompt a --max-tokens 5 --temperature 0.5 --top-k 9").success();
    for part in ["temperature 0.5, top-k 9, top-p off, seed 1234", "tokens/s", "keys and values"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert!(!run.stderr.contains("goes on from the second half"), "{}", run.stderr);
    let long = generate(&dir, "--prompt a --max-tokens 16").success();
    assert!(long.stderr.contains("the model sees 16 tokens: a longer text goes on from"));
    let quiet = generate(&dir, "--prompt a --max-tokens 5 --quiet").success();
    assert_eq!(quiet.stderr, "");
    let report = generate(&dir, "--prompt a --max-tokens 5 --json").success().json();
    for key in ["seconds", "tokens_per_second", "prompt_tokens_per_second", "tokens", "slides"] {
        assert!(report[key].is_number(), "{key}: {report}");
    }
    assert_eq!(report["settings"]["seed"], 1234);
    assert_eq!(report["settings"]["top_k"], Value::Null);
}

#[test]
fn prompts_come_from_a_file_from_standard_input_or_not_at_all() {
    let dir = tiny_run();
    let more = "--max-tokens 6 --temperature 0 --json";
    let expected = generate(&dir, &format!("--prompt bab {more}")).success().json();
    dir.write("prompt.txt", "bab");
    let of_file = generate(&dir, &format!("--prompt-file prompt.txt {more}")).success().json();
    assert_eq!(of_file["samples"], expected["samples"]);

    let line = format!("generate --checkpoint run --prompt-file - {more}");
    let mut command = program();
    command.current_dir(dir.path("")).args(line.split_whitespace());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"bab").unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(child.wait().unwrap().success());
    let of_input: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(of_input["samples"], expected["samples"]);

    let from_nothing = generate(&dir, more).success().json();
    assert_eq!(from_nothing["prompt"], "");
    assert_eq!(from_nothing["settings"]["prompt_tokens"], 1);
}

#[test]
fn a_text_ends_with_the_document_unless_that_is_ignored() {
    let dir = tiny_run();
    // So hot that each of 50,257 tokens has the same probability, the end of the document the last
    // of them: a seed is looked for that draws it as the third token after a prompt of one.
    let draws_end = |seed: &u64| KeyedUniform::new(*seed, 0).at(3) * 50_257.0 > 50_256.01;
    let seed = (0..).find(draws_end).unwrap();
    let line = format!("--prompt a --temperature 1e300 --seed {seed} --max-tokens 9 --json");
    let ended = generate(&dir, &line).success().json();
    let ended = &ended["samples"][0];
    assert_eq!(ended["finish"], "end_of_document");
    let on = generate(&dir, &format!("{line} --ignore-end")).success().json();
    let on = &on["samples"][0];
    assert_eq!(on["finish"], "max_tokens");
    let (cut, whole) = (ended["tokens"].as_array().unwrap(), on["tokens"].as_array().unwrap());
    assert_eq!((cut.len(), whole.len()), (2, 9));
    assert_eq!(whole[..2], cut[..]);
    assert_eq!(whole[2], 50_256);
    assert!(on["text"].as_str().unwrap().contains("<|endoftext|>"));
}

#[test]
fn bad_values_are_refused_with_what_would_be_right() {
    let dir = tiny_run();
    dir.write("latin1.txt", b"caf\xe9");
    let long = "word ".repeat(17);
    dir.write("long.txt", long.trim());
    for (more, message) in [
        ("--temperature -1", "a number of at least 0 is needed"),
        ("--temperature nan", "a number of at least 0 is needed"),
        ("--temperature inf", "a number of at least 0 is needed"),
        ("--temperature hot", "a number of at least 0 is needed"),
        ("--top-k 0", "a whole number of at least 1 is needed"),
        ("--top-k -3", "a whole number of at least 1 is needed"),
        ("--top-p 0", "a number above 0 and of at most 1 is needed"),
        ("--top-p 1.5", "a number above 0 and of at most 1 is needed"),
        ("--top-p -0.5", "a number above 0 and of at most 1 is needed"),
        ("--max-tokens 0", "a whole number of at least 1 is needed"),
        ("--num-samples 0", "a whole number of at least 1 is needed"),
        ("--num-samples 1000000000000", "ask for fewer samples or tokens"),
        ("--seed -1", "--seed"),
        ("--tp 3", "2 attention heads cannot be split over --tp 3; allowed: 1, 2"),
        ("--prompt a --prompt-file b", "cannot be used with"),
        ("--prompt-file nowhere.txt", "--prompt-file nowhere.txt: No such file"),
        ("--prompt-file latin1.txt", "latin1.txt: not UTF-8: bad byte at offset 3"),
        ("--prompt-file long.txt", "the prompt has 17 tokens, and the model sees 16 at most"),
        ("--set a=1", "this command reads no configuration"),
    ] {
        let run = generate(&dir, more).refused(2, message);
        assert!(run.stdout.is_empty(), "{more}: {}", run.stdout);
    }
    pipeline_in(&dir, "generate --checkpoint nowhere").refused(2, "nowhere: no checkpoint here");
    pipeline_in(&dir, "generate").refused(2, "--checkpoint <DIR>");
    dir.write("hf/config.json", "{}");
    pipeline_in(&dir, "generate --checkpoint hf").refused(2, "`pipeline checkpoint import` makes");
}

#[test]
fn a_dry_run_tells_the_memory_of_the_cache_and_generates_nothing() {
    let dir = tiny_run();
    let line = "--prompt a --max-tokens 9 --num-samples 2 --dry-run";
    let plan = generate(&dir, &format!("{line} --json")).success().json();
    // One layer of 16 numbers, keys and values, 10 positions, 2 texts, 4 bytes.
    assert_eq!(plan["bytes"]["cache"], 2 * 16 * 10 * 2 * 4);
    assert_eq!(plan["prompt_tokens"], 1);
    assert_eq!(plan["step"], 3);
    let weights = plan["bytes"]["weights"].as_u64().unwrap();
    assert_eq!(weights, 4 * plan["parameters"].as_u64().unwrap());
    let table = generate(&dir, line).success().stdout;
    assert!(table.contains("cache") && table.contains("2.50 KiB"), "{table}");
    // The window bounds what is kept.
    let long = generate(&dir, "--prompt a --max-tokens 999 --dry-run --json").success().json();
    assert_eq!(long["bytes"]["cache"], 2 * 16 * 16 * 4);
}

#[test]
fn a_reader_that_goes_away_and_a_full_disk_are_told_apart() {
    let dir = tiny_run();
    let line = "generate --checkpoint run --prompt a --max-tokens 100000 --ignore-end --quiet";
    let mut command = program();
    command.current_dir(dir.path("")).args(line.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert!(child.wait().unwrap().success(), "{messages}");
    assert_eq!(messages, "");

    if std::path::Path::new("/dev/full").exists() {
        let mut command = program();
        command.current_dir(dir.path("")).args(line.split_whitespace());
        let output = command.stdout(fs::File::create("/dev/full").unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("cannot write to standard output"), "{message}");
    }
}
