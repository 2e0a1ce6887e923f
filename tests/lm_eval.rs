//! A trained model measured by lm-evaluation-harness itself: the numbers that `--protocol lm-eval`
//! gives.
//!
//! Needs an interpreter with `torch`, `transformers` and `lm_eval`, which `peers/run` makes and
//! `PEERS_PYTHON` names; without that the test is left out. The harness reads its data sets from a
//! network; here it reads the same records from files, with its own tasks.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cli::tiny_corpus;
use crate::evaluation::{LM_EVAL_RAW, assert_close};
use crate::support::{Dir, jsonl, lines_of, pipeline_in, read_json, words};

/// What is asked of numbers that two programs compute in `f32`.
const TOLERANCE: f64 = 1e-5;

/// Passages with white space of all kinds around their last words, one longer than the model sees.
fn passages() -> Vec<String> {
    let long = words(3, 40).replace('\n', " ") + "and the last";
    [
        "a stone fell on another stone",
        "she trusted none of them less than Harlin",
        "Nobody came.\n\nStone",
        "one\ntwo",
        "a clear  \n stone",
        "naïve words, \"stone",
        &long,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Our numbers for `task` on `data`, and our items.
fn ours(dir: &Dir, task: &str, data: &str) -> (Value, Vec<Value>) {
    let items = format!("{task}.items.jsonl");
    let protocol = "--protocol lm-eval --json --overwrite";
    let what = format!("--task {task} --data {data} --items {items} {protocol}");
    let report = pipeline_in(dir, &format!("eval --checkpoint run {what}")).success().json();
    let lines = std::fs::read_to_string(dir.path(&items)).unwrap();
    (report["results"][0]["metrics"].clone(), lines_of(&lines))
}

/// The harness's numbers for the model in `exported`.
fn theirs(dir: &Dir) -> Value {
    let interpreter = env::var("PEERS_PYTHON").expect("tests/peers/run sets it");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/check_lm_eval.py");
    let paths = ["exported", "wiki.test.raw", "words.jsonl", "theirs.json"];
    let output = Command::new(interpreter)
        .arg(script)
        .args(paths.map(|path| dir.path(path)))
        // What the harness keeps of records must not outlive them.
        .env("HF_HOME", dir.path("cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read_json(&dir.path("theirs.json"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
#[ignore = "needs Python with lm_eval: tests/peers/run makes it and runs this"]
fn lm_evaluation_harness_measures_what_this_program_does() {
    let dir = tiny_corpus();
    // Every other word is one that passages end in, so that not all of them are guessed wrong.
    let texts: Vec<String> = (0..6).map(|seed| words(seed, 300).replace(' ', " stone ")).collect();
    dir.write("stones.jsonl", jsonl(&texts));
    pipeline_in(&dir, "dedup stones.jsonl --out stones").success();
    let line = "train --config train.toml --data stones --out run --set model.gpt2.seq_length=32 \
                --set schedule.train_steps=20 --set optimizer.lr=1e-2";
    pipeline_in(&dir, line).success();
    pipeline_in(&dir, "checkpoint export run --hf exported").success();
    // Pages of several windows, the last of which are not full, and one page shorter than a window.
    let more: String = (0..3)
        .map(|seed| format!(" = Page {seed} = \n \n {} \n", words(seed, 90).replace('.', " .")))
        .collect();
    dir.write("wiki.test.raw", format!("{LM_EVAL_RAW}{more}"));
    dir.write("words.jsonl", jsonl(&passages()));

    let theirs = theirs(&dir);
    assert_eq!(theirs["max_length"], 32);
    let (metrics, pages) = ours(&dir, "wikitext103", "wiki.test.raw");
    for metric in ["word_perplexity", "byte_perplexity", "bits_per_byte"] {
        let expected = number(&theirs["results"]["wikitext"][metric]);
        assert_close(number(&metrics[metric]), expected, TOLERANCE);
    }
    let their_pages = theirs["samples"]["wikitext"].as_array().unwrap();
    assert_eq!((pages.len(), their_pages.len()), (6, 6));
    for (page, log_likelihood) in pages.iter().zip(their_pages) {
        assert_close(number(&page["nll"]), -number(log_likelihood), TOLERANCE);
    }

    let (metrics, examples) = ours(&dir, "lambada", "words.jsonl");
    let expected = &theirs["results"]["lambada_openai"];
    assert!(number(&metrics["acc"]) > 0.0, "{metrics}");
    assert!((number(&metrics["acc"]) - number(&expected["acc"])).abs() < 1e-12, "{metrics}");
    let difference = number(&metrics["acc_stderr"]) - number(&expected["acc_stderr"]);
    assert!(difference.abs() < 1e-12, "{metrics} {expected}");
    // A mean loss of tens of nats is the exponent.
    let log = |value: &Value| number(value).ln();
    assert_close(log(&metrics["perplexity"]), log(&expected["perplexity"]), TOLERANCE);
    let their_examples = theirs["samples"]["lambada_openai"].as_array().unwrap();
    assert_eq!(examples.len(), their_examples.len());
    for (example, theirs) in examples.iter().zip(their_examples) {
        assert_close(number(&example["nll"]), -number(&theirs[0]), TOLERANCE);
        assert_eq!(example["strict"], theirs[1], "{example}");
    }
    println!("lm_eval {}: {expected} {}", theirs["lm_eval"], theirs["results"]["wikitext"]);
}
