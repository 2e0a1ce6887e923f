//! `pipeline dedup`: what becomes of records and documents, and what is said of inputs that cannot
//! be used.

use std::fs;

use serde_json::{Value, json};

use super::{dedup, jsonl, lines_of};
use crate::support::{Dir, pipeline_in, words};

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
        let report = dedup(&dir, "in.jsonl", "--json").success().json();
        assert_eq!(report["documents_kept"], 2);
        assert_eq!(report["dropped"], json!({"empty": 2, "null_text": 1}));

        let shown = |document: &str| {
            pipeline_in(&dir, &format!("shard show out --doc {document} --json")).success().json()
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
fn the_table_tells_how_much_of_each_test_set_the_corpus_holds() {
    let dir = Dir::new();
    let [held, other] = [1, 2].map(|seed| words(seed, 200));
    dir.write("in.jsonl", jsonl(&[&held, &words(3, 200), &words(4, 200)]));
    dir.write("a.tokens", &held);
    dir.write("b.jsonl", jsonl(&[&held, &other]));
    let table = dedup(&dir, "in.jsonl", "").success().stdout;
    assert!(!table.contains("grams found"), "{table}");
    dir.write(
        "with.toml",
        "[[source]]\nname = \"in\"\npaths = [\"in.jsonl\"]\n[source.jsonl]\n\
         [decontamination]\ntest_sets = [\"a.tokens\", \"b.jsonl\"]\n",
    );
    let table = pipeline_in(&dir, "dedup --config with.toml --out with").success().stdout;
    let shares: Vec<_> = table.lines().filter(|line| line.contains("8-grams found of")).collect();
    let [a, b] = shares[..] else { panic!("{table}") };
    assert!(a.contains("a.tokens") && a.ends_with(" 100.00%"), "{table}");
    assert!(b.contains("b.jsonl") && b.ends_with(" 50.00%"), "{table}");
}

#[test]
fn nothing_kept_is_an_error_that_counts_the_reasons() {
    let dir = Dir::new();
    dir.write("in.jsonl", "{\"text\":\"\"}\n{\"text\":\" \"}\n{\"text\":null}\n");
    dedup(&dir, "in.jsonl", "").refused(2, "0 of 3 documents kept (empty 2, null_text 1)");
    assert!(!dir.path("out").exists());
}

#[test]
fn a_missing_key_is_named_with_its_line_and_remedy() {
    let dir = Dir::new();
    let good = words(1, 200);
    let mut text = jsonl(&[&good, &words(2, 200)]);
    text.push_str("{\"content\":\"...\"}\n");
    dir.write("in.jsonl", text);
    let run = dedup(&dir, "in.jsonl", "");
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
    let report = dedup(&dir, "in.jsonl", "--on-bad-line skip --json").success().json();
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
    let run = dedup(&dir, "in.jsonl", "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("in.jsonl:2"), "{}", run.stderr);
    assert!(run.stderr.contains(&bad_byte.to_string()), "{}", run.stderr);

    let report = dedup(&dir, "in.jsonl", "--on-bad-line skip --json").success().json();
    assert_eq!(report["documents_kept"], 1);
    assert_eq!(report["rejected"], json!({"invalid_utf8": 1}));

    let args = "--on-bad-line replace --json --overwrite";
    let report = dedup(&dir, "in.jsonl", args).success().json();
    assert_eq!(report["documents_kept"], 2);
    assert_eq!(report["repaired"], json!({"invalid_utf8": 1}));
}

#[test]
fn every_removed_document_is_listed_with_its_witness() {
    let dir = Dir::new();
    let text = words(1, 300);
    let near = text.replacen("\n", " and\n", 3);
    dir.write("in.jsonl", jsonl(&[&text, &words(2, 300), &text, &near, "too short"]));
    let report = dedup(&dir, "in.jsonl", "--json").success().json();
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
    dir.write(
        "config.toml",
        "[[source]]\nname = \"a\"\npaths = [\"in.jsonl\"]\n[source.jsonl]\n[near_duplicates]\n",
    );
    let report = pipeline_in(&dir, "dedup --config config.toml --out out --json").success().json();
    assert_eq!(report["documents_kept"], 3);
    assert_eq!(report["dropped"], json!({"empty": 2, "exact_duplicate": 1}));
}

#[test]
fn an_output_that_exists_is_refused_and_replaced_only_on_request() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    let made = dedup(&dir, "in.jsonl", "").success();
    let again = dedup(&dir, "in.jsonl", "").success();
    assert!(again.stderr.contains("out: complete already"), "{}", again.stderr);
    assert_eq!(again.stdout, made.stdout);
    dedup(&dir, "in.jsonl", "--set length.min_tokens=10")
        .refused(2, "length.min_tokens: 128 before, 10 now");
    dir.write("in.jsonl", jsonl(&[&words(1, 200), &words(2, 200)]));
    dedup(&dir, "in.jsonl", "").refused(2, "--overwrite");
    dedup(&dir, "in.jsonl", "--overwrite").success();
}

#[test]
fn a_dry_run_tells_that_the_run_would_be_refused() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    let plan = |more: &str| dedup(&dir, "in.jsonl", &format!("--dry-run {more}")).success().stderr;
    assert!(!plan("").contains("refused"));
    let threads = plan("--threads 64 --max-memory 192M");
    assert!(threads.contains("the run would be refused: memory of 192M"), "{threads}");
    dedup(&dir, "in.jsonl", "").success();
    assert!(!plan("").contains("refused"), "it is made already");
    let other = plan("--set length.min_tokens=10");
    assert!(other.contains("length.min_tokens: 128 before, 10 now"), "{other}");
    assert!(!plan("--set length.min_tokens=10 --overwrite").contains("refused"));
}

#[test]
fn memory_is_named_in_bytes_or_with_a_unit() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    for (limit, message) in [
        ("64M", "at least 192M are needed"),
        ("1024", "at least 192M are needed"),
        ("much", "a number of bytes is needed"),
        ("-1G", "'-1'"),
        ("99999999999T", "a number of bytes is needed"),
    ] {
        dedup(&dir, "in.jsonl", &format!("--max-memory {limit}")).refused(2, message);
    }
    for limit in ["192M", "201326592", "1G"] {
        dedup(&dir, "in.jsonl", &format!("--overwrite --max-memory {limit}")).success();
    }
}

#[test]
fn inputs_that_cannot_be_read_are_named() {
    let dir = Dir::new();
    fs::create_dir(dir.path("empty")).unwrap();
    dir.write("data.xyz", "?");
    for input in ["missing.jsonl", "empty", "data.xyz"] {
        dedup(&dir, input, "").refused(2, input);
    }
}

#[test]
fn an_input_named_twice_is_refused_by_both_its_names() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    dedup(&dir, "in.jsonl ./in.jsonl", "").refused(2, "./in.jsonl: read already as in.jsonl");
    assert!(!dir.path("out").exists());
}

#[test]
fn an_output_where_nothing_can_be_made_is_wrong_usage() {
    let dir = Dir::new();
    dir.write("in.jsonl", jsonl(&[&words(1, 200)]));
    pipeline_in(&dir, "dedup in.jsonl --out in.jsonl").refused(2, "It is no folder");
    pipeline_in(&dir, "dedup in.jsonl --out in.jsonl/out").refused(2, "Not a directory");
}

#[test]
fn a_dry_run_lists_files_and_steps_and_reads_no_document() {
    let dir = Dir::new();
    dir.write("in.jsonl", "no JSON at all\n");
    let line = "dedup in.jsonl --out out --on-bad-line skip --text-key body --dry-run";
    let plan = pipeline_in(&dir, &format!("{line} --json")).success().json();
    assert_eq!(plan["bytes"], 15);
    assert_eq!(plan["sources"][0]["files"][0]["file"], "in.jsonl");
    assert_eq!(plan["min_tokens"], 128);
    let sources = &plan["config_sources"];
    for (key, source) in [
        ("source.0.name", "INPUT"),
        ("source.0.paths", "INPUT"),
        ("source.0.jsonl.text_key", "--text-key"),
        ("source.0.jsonl.id_key", "default"),
        ("on_bad_line", "--on-bad-line"),
        ("length.min_tokens", "default"),
    ] {
        assert_eq!(sources[key], source, "{key}");
    }
    let table = pipeline_in(&dir, line).success().stdout;
    for part in
        ["[[source]]\n", "text_key = \"body\" ", "# --text-key\n", "in.jsonl", " 15 B", " 1234\n"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!dir.path("out").exists());
    pipeline_in(&dir, "dedup nowhere.jsonl --out out --dry-run").refused(2, "nowhere.jsonl");
}

#[test]
fn the_largest_cluster_is_shown_with_its_lines() {
    let dir = Dir::new();
    let text = words(1, 300);
    dir.write("in.jsonl", jsonl(&[&words(2, 300), &text, &text]));
    let table = dedup(&dir, "in.jsonl", "").success().stdout;
    let cluster = "2 documents, such as in.jsonl:2 (kept) and in.jsonl:3 (Jaccard 1.00)";
    assert!(table.contains(cluster), "{table}");
}
