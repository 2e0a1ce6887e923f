//! `pipeline eval --task contamination`: what is printed, and which flags fit.

use std::fs;

use serde_json::Value;

use super::tiny_run;
use crate::support::{Dir, Run, jsonl, lines_of, pipeline_in, words};

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

/// A run, a test set of three articles and one of three passages, and a corpus that holds the second
/// article and passage.
fn made_with_run() -> Dir {
    let dir = tiny_run();
    let articles = [11, 12, 13].map(|seed| {
        format!(" = Title {seed} = \n \n {} \n \n", words(seed, 40).replace('\n', " "))
    });
    dir.write("three.tokens", format!(" \n{}", articles.concat()));
    let passages = [21, 22, 23].map(|seed| words(seed, 24).trim().to_owned());
    dir.write("three.jsonl", jsonl(&passages));
    dir.write("corpus.jsonl", jsonl(&[&articles[1], &passages[1], &words(31, 200)]));
    dir
}

fn scored(dir: &Dir, data: &str, corpus: &str, more: &str) -> Value {
    let line = format!(
        "eval --task contamination --data {data} --corpus {corpus} --checkpoint run \
         --set overlap=4 --json {more}"
    );
    pipeline_in(dir, &line).success().json()["results"][0].clone()
}

#[test]
fn the_score_on_what_the_corpus_does_not_hold_stands_beside_the_full_one() {
    let dir = made_with_run();
    let result = scored(&dir, "three.tokens", "corpus.jsonl", "");
    let [all, under_80, under_20, clean] = &subsets(&result)[..] else { panic!("{result}") };
    let task = "eval --checkpoint run --task wikitext103 --data three.tokens --set overlap=4";
    let full = pipeline_in(&dir, &format!("{task} --json --items items.jsonl")).success().json();
    let full = &full["results"][0]["metrics"];
    let close = |one: &Value, other: f64| {
        assert!((one.as_f64().unwrap() / other - 1.0).abs() < 1e-9, "{one} {other}");
    };
    close(&all["score"]["word_perplexity"], full["word_perplexity"].as_f64().unwrap());
    close(&all["score"]["token_perplexity"], full["token_perplexity"].as_f64().unwrap());
    assert_eq!((&all["items"], &clean["items"]), (&3.into(), &2.into()));
    // The n-grams that reach into the third article are not in the corpus.
    assert_eq!((&under_80["items"], &under_20["items"]), (&2.into(), &2.into()));

    let items = lines_of(&fs::read_to_string(dir.path("items.jsonl")).unwrap());
    let sum = |key: &str| -> f64 {
        [0, 2].iter().map(|&article| items[article][key].as_f64().unwrap()).sum()
    };
    close(&clean["score"]["total_nll"], sum("nll"));
    close(&clean["score"]["token_perplexity"], (sum("nll") / sum("targets")).exp());
    // Words of the test have several tokens: a model that knows none of them loses more than 20 on
    // each, where the task cuts.
    close(&clean["score"]["word_perplexity"], (sum("nll") / sum("words")).min(20.0).exp());
    assert_eq!(clean["score"]["capped"], full["capped"]);
    close(&clean["targets"], sum("targets"));

    let result = scored(&dir, "three.jsonl", "corpus.jsonl", "");
    let [all, .., clean] = &subsets(&result)[..] else { panic!("{result}") };
    assert_eq!((&all["items"], &clean["items"]), (&3.into(), &2.into()));
    for metric in ["strict_accuracy", "last_token_accuracy", "target_perplexity"] {
        assert!(all["score"][metric].is_number() && clean["score"][metric].is_number());
    }
    assert_ne!(all["score"]["target_perplexity"], clean["score"]["target_perplexity"]);
}

#[test]
fn a_subset_without_items_has_no_score() {
    let dir = made_with_run();
    let result = scored(&dir, "three.tokens", "three.tokens", "");
    let [all, under_80, under_20, clean] = &subsets(&result)[..] else { panic!("{result}") };
    assert!(all["score"]["word_perplexity"].is_number());
    for empty in [under_80, under_20, clean] {
        assert_eq!((&empty["items"], &empty["score"]), (&0.into(), &Value::Null));
    }
    let line = "eval --task contamination --data three.tokens --corpus three.tokens \
                --checkpoint run --set overlap=4 --limit 1";
    let table = pipeline_in(&dir, line).success().stdout;
    assert!(table.contains("no item, no score") && table.contains("PARTIAL"), "{table}");
}

fn subsets(result: &Value) -> Vec<Value> {
    result["clean_subset"]["subsets"].as_array().unwrap().clone()
}

#[test]
fn text_of_another_name_is_read_where_it_is_named_by_itself() {
    let dir = Dir::new();
    let text = words(3, 60);
    dir.write("test.jsonl", jsonl(&[text.as_str()]));
    dir.write("docs/one.md", &text);
    let line = "eval --task contamination --data test.jsonl --json --corpus";
    pipeline_in(&dir, &format!("{line} docs"))
        .refused(2, "a file that --corpus names by itself is read as text");
    let report = pipeline_in(&dir, &format!("{line} docs/one.md")).success().json();
    assert_eq!(report["results"][0]["metrics"]["position_share"], 1.0);
}
