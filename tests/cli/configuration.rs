//! Configurations: what is said of a fault in a file and in a `--set`, and where a dry run says
//! that each value comes from.

use std::fs;

use serde_json::json;

use super::{jsonl, tiny_corpus};
use crate::support::{Dir, pipeline_in, words};

const DATA: &str = "\
[[source]]
name = \"a\"
paths = [\"in.jsonl\"]
[source.jsonl]
[length]
";

/// A folder with a corpus of one document and the configuration `data.toml` that ends in `more`.
fn corpus_config(more: &str) -> Dir {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    dir.write("data.toml", format!("{DATA}{more}"));
    dir
}

const DEDUP: &str = "dedup --config data.toml --out out";

#[test]
fn a_misspelt_key_is_shown_with_its_line_even_when_others_are_overridden() {
    let dir = corpus_config("min_token = 128\n");
    for overrides in ["", "--set tokenizer=gpt2", "--set length.min_tokens=3"] {
        let run = pipeline_in(&dir, &format!("{DEDUP} {overrides}"));
        let run = run.refused(2, "data.toml:6: ");
        assert!(
            run.stderr.contains("unknown key `min_token`, expected `min_tokens`"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_fault_in_an_override_names_the_override() {
    let dir = corpus_config("min_tokens = 128\n");
    for (assignment, fault) in [
        ("length.min_token=3", "unknown key `min_token`, expected `min_tokens`"),
        ("lenght.min_tokens=3", "unknown key `lenght`, expected one of"),
        (
            "length.min_tokens=many",
            "invalid type: string \"many\", expected a whole number of at least 1",
        ),
        (
            "length.min_tokens=0",
            "invalid value: integer `0`, expected a whole number of at least 1",
        ),
        ("length=3", "invalid type: integer `3`, expected a section"),
        ("source.0.name.first=b", "source.0.name is a value, not a section"),
        ("tokenizer.name=gpt2", "invalid type: section, expected a string"),
        ("source.1.name=b", "source has 1 entries, counted from 0"),
        ("source.0.jsonl.key=b", "unknown key `key`"),
        ("length", "write it as section.key=value"),
        ("=3", "write it as section.key=value, with no empty key"),
        ("length..min_tokens=3", "write it as section.key=value, with no empty key"),
    ] {
        let run = pipeline_in(&dir, &format!("{DEDUP} --set {assignment} --set on_bad_line=skip"));
        run.refused(2, &format!("error: --set {assignment}: {fault}"));
    }
    assert!(!dir.path("out").exists());
}

#[test]
fn overrides_are_applied_in_their_order_and_flags_win() {
    let dir = corpus_config("min_tokens = 128\n");
    pipeline_in(
        &dir,
        &format!("{DEDUP} --set length.min_tokens=10 --set length.min_tokens=100000"),
    )
    .refused(2, "too_short 1");
    let overridden = "--set source.0.jsonl.text_key=body --set source.0.name=b --text-key text";
    let report = pipeline_in(&dir, &format!("{DEDUP} {overridden} --json")).success().json();
    let sources = report["sources"].as_object().unwrap();
    assert_eq!(sources.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!((&sources["b"]["in"], &sources["b"]["kept"]), (&json!(1), &json!(1)));
}

#[test]
fn files_that_are_no_configuration_are_wrong_usage() {
    let dir = corpus_config("");
    dir.write("empty.toml", "");
    dir.write("syntax.toml", "seed = [1\n");
    fs::create_dir(dir.path("folder")).unwrap();
    for (file, message) in [
        ("missing.toml", "cannot read the configuration missing.toml: No such file"),
        ("folder", "cannot read the configuration folder: Is a directory"),
        ("empty.toml", "missing key"),
        ("syntax.toml", "syntax.toml:1: "),
        ("data.toml", "unknown key `source`"),
    ] {
        let run = format!("train --config {file} --data nowhere --out run");
        pipeline_in(&dir, &run).refused(2, message);
    }
}

#[test]
fn every_value_of_a_dry_run_has_its_source() {
    let dir = tiny_corpus();
    let run = "train --config train.toml --data data --out run --dry-run \
               --set optimizer.beta2=0.95 --set model.gpt2.num_layers=2 --tp 2";
    let plan = pipeline_in(&dir, &format!("{run} --json")).success().json();
    let sources = &plan["config_sources"];
    assert_eq!(plan["config"]["optimizer"]["beta2"], 0.95);
    for (key, source) in [
        ("model.gpt2.hidden_size", "train.toml:3"),
        ("model.gpt2.num_layers", "--set"),
        ("optimizer.lr", "train.toml:12"),
        ("optimizer.beta1", "default"),
        ("optimizer.beta2", "--set"),
        ("parallel.tensor_parallel_size", "--tp"),
        ("data.split", "train.toml:19"),
        ("data.order", "default"),
    ] {
        assert_eq!(sources[key], source, "{key}");
    }

    let table = pipeline_in(&dir, run).success().stdout;
    for (value, source) in [
        ("hidden_size = 16", "# train.toml:3"),
        ("beta2 = 0.95", "# --set"),
        ("tensor_parallel_size = 2", "# --tp"),
        ("order = \"keyed\"", "# default"),
    ] {
        let line =
            table.lines().find(|line| line.starts_with(value)).unwrap_or_else(|| panic!("{table}"));
        assert!(line.ends_with(source), "{line}");
    }
    // What is shown is itself a configuration that gives the same run.
    let toml = table.split("PLAN").next().unwrap();
    dir.write("shown.toml", toml);
    let again = "train --config shown.toml --data data --out run --dry-run --json";
    let again = pipeline_in(&dir, again).success().json();
    assert_eq!(again["config"], plan["config"]);
    assert!(!dir.path("run").exists());
}

#[test]
fn every_corpus_configuration_is_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/data");
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let config: curation::CurationConfig = toml::from_str(&text).unwrap();
        config.validate().unwrap();
    }
}
