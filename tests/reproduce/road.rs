//! The whole road: what is made, and what is in it.

use std::fs;

use indicatif::HumanCount;
use serde_json::Value;

use super::{LINE, PARTS, content, kept, micro, reproduced, write_sources};
use crate::support::{pipeline_in, read_json, words};

#[test]
fn the_whole_road_runs_and_its_report_tells_every_step() {
    let (dir, run) = reproduced();
    for (index, part) in PARTS.iter().enumerate() {
        let line = format!("{}/{} {part}: ", index + 1, PARTS.len());
        assert!(run.stderr.contains(&line), "{line} {}", run.stderr);
    }
    assert!(kept(&run).is_empty(), "{}", run.stderr);
    assert!(run.stdout.contains("small") && run.stdout.contains("355M"), "{}", run.stdout);
    let page = fs::read_to_string(dir.path("out/table3.html")).unwrap();
    assert!(page.contains("A micro experiment") && page.contains("<svg"), "{page}");
    assert!(fs::read_to_string(dir.path("out/table3.csv")).unwrap().contains("small"));

    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["experiment"], "micro");
    assert_eq!(report["partial"], false);
    assert_eq!(report["paper_scale"], false);
    assert_eq!(
        (&report["text"]["kind"], &report["text"]["documents"]),
        (&"own".into(), &24.into())
    );
    let held_out = report["text"]["held_out_documents"].as_u64().unwrap();
    assert_eq!(report["curation"]["documents_in"], 24 - held_out);
    assert!(report["curation"]["tokens"].as_u64().unwrap() > 1_000);
    let names: Vec<_> =
        report["test_sets"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["demo-wikitext", "demo-lambada"]);
    // Two test sets, each against the text as it was found and as it was curated, by 5 and 8 words.
    let overlaps = report["contamination"].as_array().unwrap();
    assert_eq!(overlaps.len(), 4);
    for overlap in overlaps {
        let sizes = overlap["by_ngram"].as_array().unwrap();
        let words: Vec<_> = sizes.iter().map(|it| it["ngram_words"].as_u64().unwrap()).collect();
        assert_eq!(words, [5, 8]);
        assert!(sizes[0]["positions"].as_u64().unwrap() > 10, "{overlap}");
    }
    for (size, hidden) in report["sizes"].as_array().unwrap().iter().zip([8, 16]) {
        assert_eq!(size["model"]["hidden_size"], hidden);
        assert_eq!(size["training"]["tokens"], 4 * 2 * 32);
        assert_eq!(size["training"]["loss_curve"].as_array().unwrap().len(), 4);
        assert_eq!(size["training"]["validation_curve"].as_array().unwrap().len(), 2);
        assert!(size["wikitext103"]["word_perplexity"].as_f64().unwrap() > 1.0);
        assert!(size["lambada"]["target_perplexity"].as_f64().unwrap() > 1.0);
        assert_eq!(size["wikitext103"]["overlap"], 32);
    }
    // One count of parameters, as the paper's: with the rows that pad the vocabulary.
    let plan = pipeline_in(&dir, &format!("{LINE} --dry-run --json")).success().json();
    let csv = fs::read_to_string(dir.path("out/table3.csv")).unwrap();
    for (size, planned) in [0, 1].map(|size| (&report["sizes"][size], &plan["sizes"][size])) {
        let number = |key: &str| size[key].as_u64().unwrap();
        let parameters = number("parameters");
        assert_eq!(size["parameters"], planned["parameters"]);
        let rows = size["model"]["padded_vocab_size"].as_u64().unwrap() - 50_257;
        assert!(rows > 0);
        let padding = rows * size["model"]["hidden_size"].as_u64().unwrap();
        assert_eq!(number("parameters_without_padding"), parameters - padding);
        let name = size["name"].as_str().unwrap();
        assert!(csv.contains(&format!("ours,{name},{parameters},")), "{csv}");
        let grouped = HumanCount(parameters).to_string();
        assert!(page.contains(&grouped), "{grouped}");
        let line = format!("train {name}: {grouped} parameters, vocabulary padded to 50,304, ");
        assert!(run.stderr.contains(&line), "{}", run.stderr);
    }
    let parts = report["parts"].as_array().unwrap();
    assert_eq!(parts.len(), PARTS.len() - 1);
    assert!(
        parts.iter().all(|part| part["state"] == "done" && part["seconds"].as_f64().unwrap() > 0.0)
    );
}

#[test]
fn sizes_differ_in_their_model_alone() {
    let (dir, _) = reproduced();
    let [small, large] = ["small", "large"].map(|size| {
        let record = read_json(&dir.path(&format!("out/runs/{size}/run.json")));
        (record["config"].clone(), record["data"].clone())
    });
    assert_eq!(small.1, large.1, "the same samples");
    let differing: Vec<_> = small
        .0
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, value)| large.0[*key] != **value)
        .collect();
    assert_eq!(differing.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["model"]);
}

#[test]
fn a_second_call_does_nothing_and_says_so() {
    let (dir, first) = reproduced();
    let before = content(&dir.path("out"));
    let second = pipeline_in(&dir, LINE).success();
    assert_eq!(kept(&second), PARTS);
    assert_eq!(second.stdout, first.stdout);
    // The lock is taken, and nothing else.
    assert!(content(&dir.path("out")) == before, "{}", second.stderr);
    let json = pipeline_in(&dir, &format!("{LINE} --json")).success().json();
    assert_eq!(json, read_json(&dir.path("out/report.json")));
}

#[test]
fn test_files_that_are_named_are_used_and_nothing_is_held_out_for_them() {
    let dir = micro();
    let line = format!("{LINE} --wikitext103 wiki.tokens --lambada lambada.jsonl");
    pipeline_in(&dir, &line).success();
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["text"]["held_out_documents"], 0);
    assert_eq!(report["curation"]["documents_in"], 24);
    for (set, name, file) in [(0, "wikitext103", "wiki.tokens"), (1, "lambada", "lambada.jsonl")] {
        let set = &report["test_sets"][set];
        assert_eq!((&set["name"], &set["file"]), (&name.into(), &file.into()));
        assert_eq!(set["published"], false, "by its size");
    }
    assert_eq!(report["sizes"][0]["lambada"]["examples"], 3);
    // What an evaluation has warned of is told with its part, and on the page.
    let warned = "not WikiText-103's published test split";
    let part = report["parts"].as_array().unwrap().iter();
    let part = part.into_iter().find(|it| it["name"] == "eval.large.wikitext103").unwrap();
    assert!(part["warnings"].to_string().contains(warned), "{part}");
    let page = fs::read_to_string(dir.path("out/table3.html")).unwrap();
    let told = "eval.small.wikitext103, eval.large.wikitext103</td>";
    assert!(page.contains(told) && page.contains("What they warned of"), "{page}");
    // One of the two alone.
    let line = "reproduce --config micro.toml --text text --out other --lambada lambada.jsonl";
    pipeline_in(&dir, line).success();
    let report = read_json(&dir.path("other/report.json"));
    assert_eq!(report["test_sets"][0]["name"], "demo-wikitext");
    assert_eq!(report["test_sets"][1]["name"], "lambada");
    assert_eq!(report["text"]["held_out_documents"], 1);
}

/// A corpus of sources, whose records are not all fit to be read, is searched for the test sets as
/// it is curated.
#[test]
fn a_corpus_of_sources_is_curated_and_searched_as_its_configuration_has_it() {
    let dir = micro();
    let line = write_sources(&dir);
    let run = pipeline_in(&dir, line).success();
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["text"]["root"], "corpus");
    assert_eq!(report["curation"]["documents_in"], 13, "{}", run.stderr);
    let overlap = |state: &str| -> Value {
        let overlaps = report["contamination"].as_array().unwrap();
        let found = overlaps.iter().find(|it| it["test_set"] == "lambada" && it["corpus"] == state);
        found.unwrap()["by_ngram"][1]["matched_positions"].clone()
    };
    // The words of the passage, its own alone, make 36 + 3 - 7 8-grams.
    assert!(overlap("raw").as_u64().unwrap() >= 29, "{report}");
    assert_eq!(overlap("curated"), 0);
    assert!(kept(&run).is_empty());
    assert_eq!(kept(&pipeline_in(&dir, line).success()), PARTS[1..]);
}

#[test]
fn a_test_set_that_the_text_makes_no_more_is_told_and_its_old_score_is_not() {
    let (dir, _) = reproduced();
    for seed in 0..24 {
        // No last word of a passage stands in it before.
        let text = format!("# Document {seed}\n\n{}\n", words(seed + 200, 600));
        dir.write(&format!("text/crate-{seed:02}/README.md"), text);
    }
    pipeline_in(&dir, &format!("{LINE} --redo")).success();
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["test_sets"].as_array().unwrap().len(), 1);
    for size in report["sizes"].as_array().unwrap() {
        assert_eq!(size["lambada"], Value::Null);
    }
    let cautions = report["cautions"].to_string();
    assert!(cautions.contains("LAMBADA is left out"), "{cautions}");
}

#[test]
fn a_test_file_in_the_folder_that_is_written_to_is_refused_and_stays() {
    let (dir, _) = reproduced();
    let own = "out/text/demo-wikitext.tokens";
    let before = fs::read(dir.path(own)).unwrap();
    for more in ["", "--overwrite"] {
        pipeline_in(&dir, &format!("{LINE} --wikitext103 {own} {more}"))
            .refused(2, "lies in the folder that --out names");
    }
    assert_eq!(fs::read(dir.path(own)).unwrap(), before);
}

#[test]
fn a_test_file_that_cannot_be_used_is_found_before_a_model_is_trained() {
    let dir = micro();
    dir.write("bad.jsonl", "{\"text\": \"alone\"}\n");
    dir.write("empty.tokens", " \n");
    dir.write("alone/README.md", words(1, 600));
    for (flag, message) in [
        ("--lambada bad.jsonl", "bad.jsonl:1: "),
        ("--wikitext103 empty.tokens", "empty.tokens is empty"),
        ("--wikitext103 nowhere.tokens", "cannot read --wikitext103"),
        ("--text nowhere", "--text nowhere: there is no such folder"),
        ("--text micro.toml", "--text micro.toml: it is no folder"),
        ("--out micro.toml", "--out micro.toml is no folder"),
        ("--text alone", "all of its 1 documents go to the test sets"),
    ] {
        let line = "reproduce --config micro.toml";
        let text = if flag.contains("--text") { "" } else { "--text text" };
        let out = if flag.contains("--out") { "" } else { "--out out" };
        let run = pipeline_in(&dir, &format!("{line} {text} {out} {flag}")).refused(2, message);
        assert!(run.stderr.matches("os error").count() <= 1, "said once: {}", run.stderr);
        assert!(!dir.path("out").exists() || flag == "--text alone", "{flag}");
    }
}
