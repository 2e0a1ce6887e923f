//! The program from outside: files in; exit codes, messages and results out.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Dir, Run, pipeline, read_json, words};

/// JSONL of one record per text.
fn jsonl(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("{}\n", json!({ "text": text }))).collect()
}

/// `pipeline dedup INPUT --out OUT` in `dir`, with more arguments.
fn dedup(dir: &Dir, input: &str, more: &[&str]) -> Run {
    let (input, out) = (dir.path(input), dir.path("out"));
    let mut args = vec!["dedup".as_ref(), input.as_os_str(), "--out".as_ref(), out.as_os_str()];
    args.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    pipeline(args)
}

fn lines_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn help_names_every_command_and_wrong_usage_is_exit_code_2() {
    let help = pipeline(["--help"]).success();
    for command in ["demo", "dedup", "train", "eval", "shard"] {
        assert!(help.stdout.contains(command), "{command}");
        assert!(pipeline([command, "--help"]).success().stdout.contains("Usage"), "{command}");
    }
    for wrong in
        [&["no-such-command"][..], &["dedup"], &["dedup", "a.jsonl"], &["train", "--tp", "0"]]
    {
        let run = pipeline(wrong);
        assert_eq!(run.code, 2, "{wrong:?}");
        assert!(run.stdout.is_empty(), "{wrong:?}");
    }
}

#[test]
fn empty_and_null_texts_are_counted_and_the_rest_is_kept_in_any_order() {
    let (one, other) = (words(1, 200), words(2, 200));
    let lines = [
        json!({"text": ""}),
        json!({"text": "   \n"}),
        json!({"text": null}),
        json!({"text": one}),
        json!({"text": other}),
    ];
    for shift in 0..lines.len() {
        let dir = Dir::new();
        let text: String =
            (0..5).map(|index| format!("{}\n", lines[(index + shift) % 5])).collect();
        dir.write("in.jsonl", text);
        let report = dedup(&dir, "in.jsonl", &["--json"]).success().json();
        assert_eq!(report["documents_kept"], 2);
        assert_eq!(report["dropped"], json!({"empty": 2, "null_text": 1}));

        let out = dir.path("out");
        let shown = |document: &str| {
            pipeline([
                "shard".as_ref(),
                "show".as_ref(),
                out.as_os_str(),
                "--doc".as_ref(),
                document.as_ref(),
                "--json".as_ref(),
            ])
            .success()
            .json()
        };
        let tokens: Vec<_> = ["0", "1"].map(|document| shown(document)["tokens"].clone()).into();
        for tokens in &tokens {
            let ends: Vec<usize> = (0..tokens.as_array().unwrap().len())
                .filter(|&index| tokens[index] == 50_256)
                .collect();
            assert_eq!(ends, [tokens.as_array().unwrap().len() - 1]);
        }
    }
}

#[test]
fn nothing_kept_is_an_error_that_counts_the_reasons() {
    let dir = Dir::new();
    dir.write("in.jsonl", "{\"text\":\"\"}\n{\"text\":\" \"}\n{\"text\":null}\n");
    let run = dedup(&dir, "in.jsonl", &[]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("0 of 3 documents kept (empty 2, null_text 1)"), "{}", run.stderr);
    assert!(!dir.path("out").exists());
}

#[test]
fn a_missing_key_is_named_with_its_line_and_remedy() {
    let dir = Dir::new();
    let good = words(1, 200);
    let mut text = jsonl(&[&good, &words(2, 200)]);
    text.push_str("{\"content\":\"...\"}\n");
    dir.write("in.jsonl", text);
    let run = dedup(&dir, "in.jsonl", &[]);
    assert_eq!(run.code, 2);
    let message = "in.jsonl:3: no key \"text\" (keys present: content). Use --text-key content";
    assert!(run.stderr.contains(message), "{}", run.stderr);
    assert!(!dir.path("out").exists());
}

#[test]
fn bad_lines_are_skipped_on_request_and_each_is_listed() {
    let dir = Dir::new();
    let mut text = jsonl(&[&words(1, 200)]);
    for bad in [
        "{\"content\":\"...\"}",
        "{\"text\":42}",
        "{\"text\":[\"a\",\"b\"]}",
        "[1,2]",
        "",
        "{\"text\":\"ok\"} trailing",
    ] {
        text.push_str(bad);
        text.push('\n');
    }
    text.push_str(&jsonl(&[&words(2, 200)]));
    dir.write("in.jsonl", &text);
    let report = dedup(&dir, "in.jsonl", &["--on-bad-line", "skip", "--json"]).success().json();
    assert_eq!(report["documents_kept"], 2);
    let rejected: u64 =
        report["rejected"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(rejected, 6);

    let rejects = lines_of(&fs::read_to_string(dir.path("out/rejects.jsonl")).unwrap());
    let numbers: Vec<_> = rejects.iter().map(|reject| reject["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7]);
    let third_line = text.lines().take(2).map(|line| line.len() as u64 + 1).sum::<u64>();
    assert_eq!(rejects[1]["byte_offset"], third_line);
    for reject in &rejects {
        assert!(reject["file"].as_str().unwrap().ends_with("in.jsonl"));
        assert!(!reject["message"].as_str().unwrap().is_empty());
    }
}

#[test]
fn invalid_utf8_is_found_by_byte_and_follows_the_policy() {
    let mut bytes = jsonl(&[&words(1, 200)]).into_bytes();
    let bad_byte = bytes.len() + "{\"text\":\"ab".len();
    bytes.extend(b"{\"text\":\"ab\xff\xfe\xe6 ");
    bytes.extend(words(2, 200).replace('\n', " ").bytes());
    bytes.extend(b"\"}\n");

    let dir = Dir::new();
    dir.write("in.jsonl", &bytes);
    let run = dedup(&dir, "in.jsonl", &[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("in.jsonl:2"), "{}", run.stderr);
    assert!(run.stderr.contains(&bad_byte.to_string()), "{}", run.stderr);

    let report = dedup(&dir, "in.jsonl", &["--on-bad-line", "skip", "--json"]).success().json();
    assert_eq!(report["documents_kept"], 1);
    assert_eq!(report["rejected"], json!({"invalid_utf8": 1}));

    let args = ["--on-bad-line", "replace", "--json", "--overwrite"];
    let report = dedup(&dir, "in.jsonl", &args).success().json();
    assert_eq!(report["documents_kept"], 2);
    assert_eq!(report["repaired"], json!({"invalid_utf8": 1}));
}

#[test]
fn every_removed_document_is_listed_with_its_witness() {
    let dir = Dir::new();
    let text = words(1, 300);
    let near = text.replacen("\n", " and\n", 3);
    dir.write("in.jsonl", jsonl(&[&text, &words(2, 300), &text, &near, "too short"]));
    let report = dedup(&dir, "in.jsonl", &["--json"]).success().json();
    assert_eq!(
        report["dropped"],
        json!({"exact_duplicate": 1, "near_duplicate": 1, "too_short": 1})
    );

    let removed = lines_of(&fs::read_to_string(dir.path("out/removed.jsonl")).unwrap());
    let by_line = |line: u64| removed.iter().find(|removed| removed["line"] == line).unwrap();
    assert_eq!(by_line(3)["reason"], "exact_duplicate");
    assert_eq!(by_line(3)["witness"]["line"], 1);
    assert_eq!(by_line(4)["reason"], "near_duplicate");
    assert_eq!(by_line(4)["witness"]["line"], 1);
    assert!(by_line(4)["jaccard"].as_f64().unwrap() > 0.7);
    assert_eq!(by_line(5)["reason"], "too_short");
    assert_eq!(by_line(5)["witness"], Value::Null);
    assert_eq!(report["clusters"][0]["size"], 3);
}

#[test]
fn short_and_empty_texts_do_not_collapse_without_the_length_filter() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&["cat", "dog", "cat", "", "", "a b c d"]));
    let input = dir.path("in.jsonl");
    let config = dir.write(
        "config.toml",
        format!(
            "[[source]]\nname = \"a\"\npaths = [{input:?}]\n[source.jsonl]\n[near_duplicates]\n"
        ),
    );
    let out = dir.path("out");
    let run = pipeline([
        "dedup".as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
        "--json".as_ref(),
    ]);
    let report = run.success().json();
    assert_eq!(report["documents_kept"], 3);
    assert_eq!(report["dropped"], json!({"empty": 2, "exact_duplicate": 1}));
}

#[test]
fn an_output_that_exists_is_refused_and_replaced_only_on_request() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    dedup(&dir, "in.jsonl", &[]).success();
    let run = dedup(&dir, "in.jsonl", &[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--overwrite"), "{}", run.stderr);
    dedup(&dir, "in.jsonl", &["--overwrite"]).success();
}

#[test]
fn inputs_that_cannot_be_read_are_named() {
    let dir = Dir::new();
    fs::create_dir(dir.path("empty")).unwrap();
    dir.write("data.xyz", "?");
    for input in ["missing.jsonl", "empty", "data.xyz"] {
        let run = dedup(&dir, input, &[]);
        assert_eq!(run.code, 2, "{input}: {}", run.stderr);
        assert!(run.stderr.contains(input), "{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

#[test]
fn a_misspelt_key_is_shown_with_its_line_and_an_override_with_its_own_words() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    let input = dir.path("in.jsonl");
    let source = format!("[[source]]\nname = \"a\"\npaths = [{input:?}]\n[source.jsonl]\n");
    let wrong = dir.write("wrong.toml", format!("{source}[length]\nmin_token = 128\n"));
    let right = dir.write("right.toml", format!("{source}[length]\nmin_tokens = 128\n"));
    let with = |config: &std::path::Path, more: &[&str]| {
        let out = dir.path("out");
        let mut args = vec![
            "dedup".as_ref(),
            "--config".as_ref(),
            config.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
        ];
        args.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        pipeline(args)
    };
    let run = with(&wrong, &[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("wrong.toml") && run.stderr.contains("line 6"), "{}", run.stderr);
    assert!(run.stderr.contains("min_token"), "{}", run.stderr);

    for (assignment, part) in [
        ("length.min_token=3", "min_token"),
        ("length", "section.key=value"),
        ("length.min_tokens=many", "min_tokens"),
        ("tokenizer.name=gpt2", "tokenizer"),
    ] {
        let run = with(&right, &["--set", assignment]);
        assert_eq!(run.code, 2, "{assignment}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{assignment}: {}", run.stderr);
    }
    let run = with(&right, &["--set", "length.min_tokens=100000"]);
    assert!(run.stderr.contains("too_short 1"), "{}", run.stderr);
    with(&right, &["--set", "length.min_tokens=10"]).success();
}

#[test]
fn sizes_that_do_not_divide_are_refused_before_training_begins() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 400), &words(2, 400)]));
    dedup(&dir, "in.jsonl", &[]).success();
    let train = |heads: usize, hidden: usize, more: &[&str]| {
        let config = dir.write(
            "train.toml",
            format!(
                "[model.gpt2]\nnum_layers = 1\nhidden_size = {hidden}\nnum_attention_heads = {heads}\nseq_length = 16\n\
                 [batch]\nmicro_batch_size = 1\nglobal_batch_size = 1\n[optimizer]\nlr = 1e-3\n\
                 [schedule]\ntrain_steps = 1\nwarmup_steps = 1\n[data]\nsplit = \"1,0,0\"\n"
            ),
        );
        let (data, out) = (dir.path("out"), dir.path("run"));
        let mut args = vec![
            "train".as_ref(),
            "--config".as_ref(),
            config.as_os_str(),
            "--data".as_ref(),
            data.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
        ];
        args.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        pipeline(args)
    };
    for (run, message) in [
        (
            train(25, 50, &["--tp", "4"]),
            "25 attention heads cannot be split over --tp 4; allowed: 1, 5, 25",
        ),
        (train(4, 30, &[]), "hidden_size"),
        (train(4, 32, &["--tp", "4", "--set", "model.gpt2.ffn_hidden_size=50"]), "ffn_hidden_size"),
    ] {
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert!(!dir.path("run").exists());
    }
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["documents_kept"], 2);
}

#[test]
fn the_three_commands_hand_on_to_one_another() {
    let dir = Dir::new();
    let texts: Vec<String> = (0..6).map(|seed| words(seed, 300)).collect();
    dir.write("in.jsonl", jsonl(&texts.iter().map(String::as_str).collect::<Vec<_>>()));
    dedup(&dir, "in.jsonl", &[]).success();
    let config = dir.write(
        "train.toml",
        "[model.gpt2]\nnum_layers = 1\nhidden_size = 16\nnum_attention_heads = 2\nseq_length = 16\n\
         [batch]\nmicro_batch_size = 1\nglobal_batch_size = 2\n[optimizer]\nlr = 1e-3\n\
         [schedule]\ntrain_steps = 3\nwarmup_steps = 1\n[data]\nsplit = \"5,1,0\"\n[validation]\ninterval_steps = 3\nbatches = 1\n",
    );
    let (data, out) = (dir.path("out"), dir.path("run"));
    let train = || {
        pipeline([
            "train".as_ref(),
            "--config".as_ref(),
            config.as_os_str(),
            "--data".as_ref(),
            data.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
            "--tp".as_ref(),
            "2".as_ref(),
            "--json".as_ref(),
        ])
    };
    let report = train().success().json();
    assert_eq!(report["steps"], 3);
    assert!(report["validation_loss"].as_f64().unwrap() > 0.0);
    let metrics = lines_of(&fs::read_to_string(dir.path("run/metrics.jsonl")).unwrap());
    assert_eq!(metrics.iter().filter(|line| line.get("loss").is_some()).count(), 3);

    let test = dir.write(
        "test.tokens",
        format!(" \n = Title = \n \n {} \n", words(9, 100).replace('\n', " ")),
    );
    let eval = |more: &[&str]| {
        let mut args = vec![
            "eval".as_ref(),
            "--checkpoint".as_ref(),
            out.as_os_str(),
            "--task".as_ref(),
            "wikitext103".as_ref(),
            "--data".as_ref(),
            test.as_os_str(),
            "--overlap".as_ref(),
            "4".as_ref(),
        ];
        args.extend(more.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        pipeline(args)
    };
    let result = eval(&["--json"]).success().json();
    let nll = |result: &Value| result["results"][0]["metrics"]["total_nll"].as_f64().unwrap();
    let at_two = eval(&["--tp", "2", "--json"]).success().json();
    assert!((nll(&result) / nll(&at_two) - 1.0).abs() < 1e-6, "{result} {at_two}");
    let table = eval(&[]).success().stdout;
    for word in ["word_perplexity", "overlap", "detokenizer", "token_ratio"] {
        assert!(table.contains(word), "{table}");
    }
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
