//! `pipeline eval --task contamination`: what is printed, and which flags fit.

use super::tiny_run;
use crate::support::{Dir, Run, jsonl, pipeline_in, words};

/// A folder with a test set of two records and a corpus that holds the half of one.
fn made() -> Dir {
    let dir = Dir::new();
    let items = [words(1, 40), words(2, 40)];
    dir.write("test.jsonl", jsonl(&items));
    dir.write("other.jsonl", jsonl(&[words(7, 40)]));
    let half: String = items[0].chars().take(items[0].len() / 2).collect();
    dir.write("corpus.jsonl", jsonl(&[words(3, 100), format!("{half} {}", words(4, 50))]));
    dir
}

fn contamination(dir: &Dir, more: &str) -> Run {
    pipeline_in(dir, &format!("eval --task contamination --data test.jsonl {more}"))
}

#[test]
fn shares_counts_and_documents_are_printed_without_a_checkpoint() {
    let dir = made();
    let report = contamination(&dir, "--corpus corpus.jsonl --n 5..9 --json").success().json();
    let result = &report["results"][0];
    assert_eq!((&result["task"], &result["partial"]), (&"contamination".into(), &false.into()));
    let counts = &result["counts"];
    let share =
        counts["matched_positions"].as_f64().unwrap() / counts["positions"].as_f64().unwrap();
    assert_eq!(result["metrics"]["position_share"].as_f64(), Some(share));
    assert!(share > 0.1 && share < 0.3, "{result}");
    assert_eq!(result["by_ngram_words"].as_array().unwrap().len(), 5);
    assert_eq!(result["settings"]["ngram_words"], 8);
    assert_eq!(result["worst_documents"][0]["line"], 2);
    assert!(result["clean_subset"].is_null());
    let table = contamination(&dir, "--corpus corpus.jsonl").success().stdout;
    for part in ["position_share", "matched_distinct", "corpus.jsonl:2", "n-grams at", "comparison"]
    {
        assert!(table.contains(part), "no {part} in {table}");
    }
}

#[test]
fn several_test_sets_are_measured_in_one_pass_and_one_that_is_the_corpus_is_warned_of() {
    let dir = made();
    let run = pipeline_in(
        &dir,
        "eval --task contamination --data test.jsonl other.jsonl --corpus other.jsonl --json",
    )
    .success();
    let report = run.json();
    let share = |place: usize| report["results"][place]["metrics"]["position_share"].as_f64();
    assert_eq!((share(0), share(1)), (Some(0.0), Some(1.0)));
    assert!(run.stderr.contains("it measures itself"), "{}", run.stderr);
}

#[test]
fn a_report_goes_to_a_file_and_a_dry_run_reads_no_corpus() {
    let dir = made();
    contamination(&dir, "--corpus corpus.jsonl --out report.json").success();
    contamination(&dir, "--corpus corpus.jsonl --out report.json").refused(2, "exists already");
    contamination(&dir, "--corpus corpus.jsonl --out report.json --overwrite").success();
    let plan = contamination(&dir, "--corpus corpus.jsonl --dry-run --json").success().json();
    assert_eq!(plan["test_sets"][0]["positions"][0], 66);
    assert_eq!(
        (&plan["corpora"][0]["form"], &plan["corpora"][0]["files"]),
        (&"JSONL".into(), &1.into())
    );
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let dir = made();
    for (more, message) in [
        ("", "with --corpus"),
        ("--corpus corpus.jsonl --n 0", "numbers of words from 1 to 100 are needed"),
        ("--corpus corpus.jsonl --n 5..4", "5..4 is empty"),
        ("--corpus corpus.jsonl --n 300", "numbers of words from 1 to 100 are needed"),
        ("--corpus corpus.jsonl --n 41", "no item has the 41 words of an n-gram"),
        ("--corpus corpus.jsonl --n eight", "numbers of words from 1 to 100 are needed"),
        ("--corpus corpus.jsonl --overlap 4", "scores no model without --checkpoint"),
        ("--corpus nowhere", "nowhere"),
        ("--corpus corpus.jsonl --text-key body", "no key \"body\""),
        ("--corpus corpus.jsonl --checkpoint nowhere", "nowhere"),
    ] {
        contamination(&dir, more).refused(2, message);
    }
    for (line, message) in [
        ("--task lambada --data test.jsonl", "--checkpoint"),
        (
            "--task lambada --checkpoint run --data test.jsonl --n 8",
            "--n: only --task contamination",
        ),
        (
            "--task lambada --checkpoint run --data test.jsonl other.jsonl",
            "only contamination takes",
        ),
    ] {
        pipeline_in(&dir, &format!("eval {line}")).refused(2, message);
    }
}
