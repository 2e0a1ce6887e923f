//! `pipeline train`: what is refused before it begins, what a dry run tells, and how it ends.

use super::{lines_of, tiny_corpus};
use crate::support::{Dir, Run, pipeline_in};

const TRAIN: &str = "train --config train.toml --data data --out run";

fn train(dir: &Dir, more: &str) -> Run {
    pipeline_in(dir, &format!("{TRAIN} {more}"))
}

#[test]
fn sizes_that_do_not_divide_are_refused_before_training_begins() {
    let dir = tiny_corpus();
    let sizes = |heads: usize, hidden: usize| {
        format!(
            "--set model.gpt2.num_attention_heads={heads} --set model.gpt2.hidden_size={hidden}"
        )
    };
    for (more, message) in [
        (
            sizes(25, 50) + " --tp 4",
            "25 attention heads cannot be split over --tp 4; allowed: 1, 5, 25",
        ),
        (sizes(4, 30), "hidden_size"),
        (sizes(4, 32) + " --tp 4 --set model.gpt2.ffn_hidden_size=50", "ffn_hidden_size"),
    ] {
        train(&dir, &more).refused(2, message);
        train(&dir, &(more + " --dry-run")).refused(2, message);
    }
    assert!(!dir.path("run").exists());
}

#[test]
fn what_is_no_data_folder_is_refused_with_what_would_be() {
    let dir = tiny_corpus();
    for data in ["nowhere", "in.jsonl", "."] {
        let line = format!("train --config train.toml --data {data} --out run");
        let run =
            pipeline_in(&dir, &line).refused(2, &format!("--data {data}: no data folder there"));
        assert!(run.stderr.contains("pipeline dedup"), "{}", run.stderr);
    }
}

#[test]
fn an_output_that_is_no_run_is_refused_even_to_overwrite() {
    let dir = tiny_corpus();
    for (out, message) in [
        ("data", "data is in use"),
        ("in.jsonl", "Not a directory"),
        ("in.jsonl/run", "Not a directory"),
    ] {
        let line = format!("train --config train.toml --data data --overwrite --out {out}");
        pipeline_in(&dir, &line).refused(2, message);
    }
}

#[test]
fn numbers_out_of_range_are_refused_in_plain_words() {
    let dir = tiny_corpus();
    for (more, message) in [
        ("--tp 0", "a whole number of at least 1 is needed"),
        ("--tp many", "a whole number of at least 1 is needed"),
        ("--tokens-per-second 10", "--dry-run"),
        ("--dry-run --tokens-per-second 0", "a number above 0 is needed"),
        ("--set schedule.train_steps=1.5", "expected a whole number of at least 1"),
        ("--set optimizer.lr=fast", "expected a number"),
        ("--set schedule.decay=slow", "unknown choice `slow`, expected one of"),
        ("--set model.bert.num_layers=1", "several choices where one is wanted"),
    ] {
        train(&dir, more).refused(2, message);
    }
    assert!(!dir.path("run").exists());
}

#[test]
fn a_dry_run_tells_what_the_run_amounts_to_and_writes_nothing() {
    let dir = tiny_corpus();
    let plan = train(&dir, "--dry-run --json --tokens-per-second 0.5").success().json();
    assert!(plan["parameters"].as_u64().unwrap() > 50_257 * 16);
    assert_eq!(plan["tokens_per_step"], 32);
    assert_eq!(plan["tokens_total"], 96);
    assert_eq!(plan["days"], 192.0 / 86_400.0);
    let bytes = &plan["bytes_per_rank"];
    assert_eq!(bytes["weights"].as_u64().unwrap() * 2, bytes["optimizer"].as_u64().unwrap());
    assert!(train(&dir, "--dry-run --json").success().json()["days"].is_null());

    let table = train(&dir, "--dry-run").success().stdout;
    assert!(table.contains("tokens per step") && table.contains(" MiB"), "{table}");
    assert!(!dir.path("run").exists());
}

#[test]
fn a_run_ends_with_its_losses_and_is_found_finished_again() {
    let dir = tiny_corpus();
    let report = train(&dir, "--tp 2 --json").success().json();
    assert_eq!(report["steps"], 3);
    assert!(report["validation_loss"].as_f64().unwrap() > 0.0);
    let metrics = lines_of(&std::fs::read_to_string(dir.path("run/metrics.jsonl")).unwrap());
    assert_eq!(metrics.iter().filter(|line| line.get("loss").is_some()).count(), 3);

    let table = train(&dir, "").success().stdout;
    assert!(table.contains("final loss, mean of 3 steps"), "{table}");
    train(&dir, "--set optimizer.lr=2e-3").refused(2, "optimizer.lr was 0.001 and is 0.002");
}
