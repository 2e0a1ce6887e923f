//! The decontamination inside a whole curation: nothing is flagged wrongly, nothing silently.
#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod generate;
mod workspace;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use corpus::reader::{JsonlConfig, SourceFormat};
use curation::decontaminate::{DecontaminationConfig, NGramConfig, Rule, TitleConfig};
use curation::filter::DropReason;
use curation::{CurationConfig, CurationReport};
use serde_json::{Value, json};

use workspace::{Workspace, words};

/// The rule `ngram` against one test set, and no other step.
fn by_ngram(workspace: &Workspace, test_set: PathBuf) -> CurationConfig {
    CurationConfig {
        length: None,
        near_duplicates: None,
        decontamination: Some(DecontaminationConfig {
            article: None,
            ngram: Some(NGramConfig::default()),
            ..DecontaminationConfig::by_article(vec![test_set])
        }),
        ..workspace.config()
    }
}

/// The first words of a text.
fn first_words(text: &str, count: usize) -> String {
    text.split(' ').take(count).collect::<Vec<_>>().join(" ")
}

/// Three paragraphs of a test set, and 20 documents: one with a paragraph verbatim, one with it in
/// another spelling, one that shares 7 words in a row, one that shares 8, and 16 clean ones.
fn paragraphs_and_documents() -> ([String; 3], Vec<String>) {
    let paragraphs = [1, 2, 3].map(|seed| words(seed, 60));
    let around = |seed: u64, passage: &str| {
        format!("{}\n{passage}\n{}", words(seed, 80), words(seed + 1, 80))
    };
    let respelled = paragraphs[1].to_uppercase().replacen(' ', " @-@ ", 20).replace(' ', " \t");
    let mut documents: Vec<String> = (0..16).map(|seed| words(100 + seed, 160)).collect();
    documents.insert(2, around(200, &paragraphs[0]));
    documents.insert(5, around(202, &respelled));
    documents.insert(9, around(204, &first_words(&paragraphs[2], 7)));
    documents.insert(13, around(206, &first_words(&paragraphs[2], 8)));
    (paragraphs, documents)
}

/// The distinct n-grams of a text, by the definition.
fn grams(text: &str, n: usize) -> HashSet<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(n).map(|gram| gram.join(" ")).collect()
}

/// Numbers of the n-grams of all items, and of those that some document holds, by position and
/// distinct.
fn brute_force_overlap(items: &[&str], documents: &[String]) -> [u64; 4] {
    let corpus: HashSet<String> = documents.iter().flat_map(|text| grams(text, 8)).collect();
    let distinct: HashSet<String> = items.iter().flat_map(|text| grams(text, 8)).collect();
    let positions: Vec<String> = items
        .iter()
        .flat_map(|text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.windows(8).map(|gram| gram.join(" ").to_lowercase()).collect::<Vec<_>>()
        })
        .collect();
    [
        positions.len(),
        positions.iter().filter(|gram| corpus.contains(*gram)).count(),
        distinct.len(),
        distinct.intersection(&corpus).count(),
    ]
    .map(|count| count as u64)
}

fn overlap_of(report: &CurationReport) -> [u64; 4] {
    let [of_file] = &report.contamination.as_ref().unwrap().overlap[0].test_sets[..] else {
        panic!("one test set")
    };
    assert!((of_file.share - of_file.matched_ngrams as f64 / of_file.ngrams as f64).abs() < 1e-15);
    [
        of_file.ngrams,
        of_file.matched_ngrams,
        of_file.distinct_ngrams,
        of_file.matched_distinct_ngrams,
    ]
}

#[test]
fn eight_words_in_a_row_are_flagged_in_any_spelling_and_seven_are_not() {
    let (paragraphs, documents) = paragraphs_and_documents();
    let workspace = Workspace::new();
    workspace.write_texts(&documents);
    let test_set = workspace.write("test.jsonl", &workspace::jsonl(&paragraphs));
    let report = workspace.curate(by_ngram(&workspace, test_set.clone())).unwrap();

    assert_eq!(report.dropped, [(DropReason::Contaminated, 3)].into());
    let removed = workspace.json_lines("removed.jsonl");
    let ids: Vec<&str> = removed.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["2", "5", "13"]);
    for (line, (document, item, share)) in
        removed.iter().zip([(2, 0, 1.0), (5, 1, 1.0), (13, 2, 1.0 / 53.0)])
    {
        let [span] = &line["spans"].as_array().unwrap()[..] else { panic!("{line}") };
        let [start, end] = [0, 1].map(|side| span[side].as_u64().unwrap() as usize);
        let spelled = documents[document][start..end].to_lowercase().replace(" \t@-@ \t", " ");
        let expected = first_words(&paragraphs[item], if item == 2 { 8 } else { 60 });
        assert_eq!(spelled.replace(" \t", " "), expected);
        assert_eq!((&line["rule"], &line["num_spans"]), (&json!("ngram"), &json!(1)));
        assert_eq!(
            line["witness"],
            json!({
                "source": null, "file": test_set.display().to_string(), "line": item + 1,
                "id": item.to_string(),
            })
        );
        assert!((line["witness_share"].as_f64().unwrap() - share).abs() < 1e-12, "{line}");
    }
    let items = paragraphs.each_ref().map(String::as_str);
    assert_eq!(overlap_of(&report), brute_force_overlap(&items, &documents));
    assert_eq!(overlap_of(&report)[1], 53 + 53 + 1);
    assert_eq!(report.contamination.unwrap().flagged, [(Rule::NGram, 3)].into());
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn the_form_of_a_test_set_does_not_change_what_is_flagged() {
    let (paragraphs, documents) = paragraphs_and_documents();
    for (name, content) in [
        (
            "wiki.tokens",
            paragraphs.each_ref().map(|text| format!(" = T = \n \n {text} \n \n")).concat(),
        ),
        ("plain.txt", paragraphs.join("\n\n")),
    ] {
        let workspace = Workspace::new();
        workspace.write_texts(&documents);
        let test_set = workspace.write(name, &content);
        let report = workspace.curate(by_ngram(&workspace, test_set)).unwrap();
        assert_eq!(report.dropped, [(DropReason::Contaminated, 3)].into(), "{name}");
    }
}

#[test]
fn flagging_nothing_and_flagging_most_are_warned_of() {
    let (paragraphs, documents) = paragraphs_and_documents();
    let warnings = |documents: &[String]| {
        let workspace = Workspace::new();
        workspace.write_texts(documents);
        let test_set = workspace.write("test.jsonl", &workspace::jsonl(&paragraphs));
        let config = by_ngram(&workspace, test_set);
        let report = workspace.curate(config).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&workspace.bytes("report.json")).unwrap()["warnings"],
            json!(report.warnings)
        );
        report.warnings
    };
    let clean: Vec<String> = (0..20).map(|seed| words(300 + seed, 100)).collect();
    assert_eq!(
        warnings(&clean),
        [
            "decontamination removed none of 20 documents; it compared them with 159 test 8-grams, of \
          which 0 occur"
        ]
    );
    let most: Vec<String> = [2, 5, 13, 0, 1].map(|number: usize| documents[number].clone()).into();
    let [of_source, of_stage] = &warnings(&most)[..] else { panic!("two warnings") };
    assert!(of_source.contains("lost 60% of its documents"), "{of_source}");
    assert!(of_stage.contains("removed 60% of the documents that reached it (3 of 5)"));
}

#[test]
fn titles_are_compared_with_level_1_headings() {
    let titles = [
        (json!("Tom-Tit's"), true),
        (json!("ROBERT  BOULTER"), true),
        (json!("Career"), false),
        (json!("Dick"), false),
        (json!("Dick <unk>"), false),
        (json!(""), false),
        (Value::Null, false),
        (json!("Robert Boulter (actor)"), false),
    ];
    let workspace = Workspace::new();
    let lines: String = titles
        .iter()
        .zip(1..)
        .map(|((title, _), seed)| {
            format!("{}\n", json!({"id": seed, "title": title, "text": words(seed, 150)}))
        })
        .collect();
    workspace.write("in/a.jsonl", &lines);
    let test_set = workspace.write(
        "wiki.tokens",
        " = Tom @-@ Tit 's = \n \n text \n \n = Robert Boulter = \n \n = = Career = = \n \n \
         = Dick <unk> = \n",
    );
    let mut config = by_ngram(&workspace, test_set.clone());
    let keys = JsonlConfig { title_key: Some("title".to_owned()), ..JsonlConfig::default() };
    config.sources[0].format = SourceFormat::Jsonl(keys);
    let table = config.decontamination.as_mut().unwrap();
    (table.ngram, table.title) = (None, Some(TitleConfig {}));
    let report = workspace.curate(config).unwrap();

    assert_eq!(report.dropped, [(DropReason::Title, 2)].into());
    let removed = workspace.json_lines("removed.jsonl");
    for (line, (id, heading, at)) in
        removed.iter().zip([("1", "Tom @-@ Tit 's", 1), ("2", "Robert Boulter", 5)])
    {
        assert_eq!((&line["id"], &line["reason"]), (&json!(id), &json!("title")));
        let file = test_set.display().to_string();
        assert_eq!(
            line["witness"],
            json!({"source": null, "file": file, "line": at, "id": heading})
        );
    }
    let contamination = report.contamination.unwrap();
    assert_eq!((contamination.test_titles, contamination.titled_documents), (Some(2), 7));
    assert_eq!(contamination.flagged, [(Rule::Title, 2)].into());
}

#[test]
fn an_empty_or_unreadable_test_set_ends_the_run_before_it_begins() {
    let workspace = Workspace::new();
    workspace.write("in/a.jsonl", "no JSON");
    for (name, content, problem) in [
        ("empty.tokens", Some(&b"\n \n"[..]), "it is empty"),
        ("short.tokens", Some(b"a few words"), "would be found"),
        ("short.jsonl", Some(b"{\"text\": \"a few words\"}\n{\"text\": \"\"}\n"), "would be found"),
        ("no-words.txt", Some("!!! ... 日本語の本".as_bytes()), "would be found"),
        ("null.jsonl", Some(b"{\"text\": null}\n"), "it is empty"),
        ("no-text.jsonl", Some(b"{\"sentence\": \"a b\"}\n"), "Set decontamination.text_key"),
        ("no-json.jsonl", Some(b"a b c d e f g h i"), "Mend or remove the line"),
        ("bad.tokens", Some(b"one\n\xff"), "line 2 is no UTF-8 (byte 4)"),
        ("missing.tokens", None, "cannot read it"),
    ] {
        let path = workspace.path(name);
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let error = workspace.curate(by_ngram(&workspace, path)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(problem), "{error}");
    }
    fs::create_dir(workspace.path("folder")).unwrap();
    let error = workspace.curate(by_ngram(&workspace, workspace.path("folder"))).unwrap_err();
    assert!(error.to_string().contains("folder: "), "{error}");
    assert!(!workspace.path("out").exists());
}

/// The real test sets, against each other. Reference: Python's `re.findall("[a-z0-9]+",
/// text.lower())`, 8 words at a time.
#[test]
fn wikitext_and_lambada_overlap_as_is_known() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let [wiki, lambada] = ["wiki.test.tokens", "lambada_test.jsonl"].map(|name| data.join(name));
    if !wiki.exists() || !lambada.exists() {
        println!("skipped: no WikiText-103 and LAMBADA in {}", data.display());
        return;
    }
    let workspace = Workspace::new();
    fs::copy(&lambada, workspace.path("in/lambada.jsonl")).unwrap();
    let mut config = by_ngram(&workspace, wiki);
    config.decontamination.as_mut().unwrap().test_sets.push(lambada);
    // A corpus that is a test set goes in whole, so that something must stay.
    workspace.write("in/z.jsonl", &json!({"text": words(1, 100)}).to_string());
    let report = workspace.curate(config).unwrap();
    assert_eq!((report.documents_in, report.documents_kept), (5_154, 1));
    let contamination = report.contamination.unwrap();
    let [of_wiki, of_lambada] = &contamination.overlap[0].test_sets[..] else { panic!("two") };
    // As one stream it has 206,591 positions; between two of its 60 items there are 7 n-grams that
    // are of neither.
    assert_eq!((of_wiki.ngrams, of_wiki.matched_ngrams), (206_591 - 7 * 59, 0));
    assert_eq!((of_lambada.ngrams, of_lambada.share), (280_356, 1.0));
}
