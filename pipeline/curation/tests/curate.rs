//! The data stage as a whole, on small files.
#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod generate;
mod workspace;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use corpus::reader::OnBadLine;
use corpus::{DataFolder, Existing, Observer, Silent, Unit};
use curation::config::{LengthConfig, NearDuplicatesConfig};
use curation::decontaminate::{DecontaminationConfig, NGramConfig};
use curation::filter::DropReason;
use curation::{CurationConfig, CurationReport, curate};
use serde_json::{Value, json};

use generate::Random;
use workspace::{Workspace, jsonl, words};

const EOD: u32 = 50_256;

#[test]
fn empty_and_null_texts_are_dropped_by_name_wherever_they_stand() {
    let mut lines = [
        json!({"text": ""}),
        json!({"text": "   \n"}),
        json!({"text": null}),
        json!({"text": words(1, 200)}),
        json!({"text": words(2, 200)}),
    ];
    for _ in 0..lines.len() {
        let workspace = Workspace::new();
        let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
        workspace.write("in/a.jsonl", &content);
        let report = workspace.curate(workspace.config()).unwrap();
        assert_eq!((report.documents_in, report.documents_kept), (5, 2));
        let dropped = [(DropReason::Empty, 2), (DropReason::NullText, 1)];
        assert_eq!(report.dropped, dropped.into());

        let shard = DataFolder::open(&workspace.path("out")).unwrap().shard().unwrap();
        for document in 0..2 {
            let tokens = shard.document(document).unwrap();
            assert!(tokens.len() > 128);
            assert_eq!(tokens.iter().filter(|&&token| token == EOD).count(), 1);
            assert_eq!(tokens.last(), Some(&EOD));
        }
        lines.rotate_left(1);
    }
}

#[test]
fn nothing_kept_is_an_error_that_says_why_and_leaves_nothing() {
    let workspace = Workspace::new();
    workspace.write("in/a.jsonl", "{\"text\":\"\"}\n{\"text\":\" \\n\"}\n{\"text\":null}\n");
    let error = workspace.curate(workspace.config()).unwrap_err();
    assert_eq!(error.to_string(), "0 of 3 documents kept (empty 2, null_text 1)");
    assert_eq!(workspace.leftovers(), [""; 0]);
}

#[test]
fn documents_of_fewer_than_128_tokens_are_dropped() {
    // " a" is one token of GPT-2, and so is the first "a".
    let workspace = Workspace::new();
    workspace.write_texts(&[["a"; 127].join(" "), ["a"; 128].join(" "), "…".repeat(10)]);
    let report = workspace.curate(workspace.config()).unwrap();
    assert_eq!(report.dropped, [(DropReason::TooShort, 2)].into());
    assert_eq!((workspace.kept_ids(), report.tokens), (vec!["1".to_owned()], 129));
}

#[test]
fn short_texts_do_not_collapse_together() {
    let workspace = Workspace::new();
    workspace.write_texts(&["cat", "dog", "cat", "", "", "a b c d"]);
    let report = workspace.curate(workspace.config_without_length()).unwrap();
    assert_eq!(workspace.kept_ids(), ["0", "1", "5"]);
    assert_eq!(report.dropped, [(DropReason::Empty, 2), (DropReason::ExactDuplicate, 1)].into());

    let workspace = Workspace::new();
    workspace.write_texts(&["cat", "dog", "cat", "", "", "a b c d", "Dog!", "—"]);
    let report = workspace.curate(workspace.config_without_length()).unwrap();
    assert_eq!(workspace.kept_ids(), ["0", "1", "5", "7"]);
    assert_eq!(
        report.dropped,
        [(DropReason::Empty, 2), (DropReason::ExactDuplicate, 1), (DropReason::NearDuplicate, 1)]
            .into()
    );
}

#[test]
fn every_removal_is_listed_with_its_witness() {
    let workspace = Workspace::new();
    let original = Random::new(1).words(184); // 180 shingles
    let mut edited = original.clone();
    for place in [20, 60, 100, 140] {
        edited[place] = "changed".to_owned(); // 5 of them each
    }
    let article = words(3, 300);
    workspace.write_texts(&[
        original.join(" "),
        words(2, 200),
        original.join(" "),
        edited.join("\n"),
        format!("{} {}", words(4, 50), article.to_uppercase()),
        String::new(),
    ]);
    let test_set = workspace.write("test.tokens", &format!(" = Title = \n \n {article} \n"));
    let config = CurationConfig {
        decontamination: Some(DecontaminationConfig::by_article(vec![test_set.clone()])),
        ..workspace.config()
    };
    let report = workspace.curate(config).unwrap();

    assert_eq!(workspace.kept_ids(), ["0", "1"]);
    let file = workspace.path("in/a.jsonl").display().to_string();
    let first = json!({"source": "test", "file": file, "line": 1, "id": "0"});
    let removed = |line: u64, rest: Value| {
        let mut record = json!({
            "source": "test", "file": file, "line": line, "id": (line - 1).to_string(),
            "jaccard": null, "witness": null, "rule": null, "witness_share": null,
            "document_share": null, "spans": null, "num_spans": null,
        });
        record.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        record
    };
    let lines = workspace.json_lines("removed.jsonl");
    assert_eq!(
        lines[0],
        removed(3, json!({"reason": "exact_duplicate", "jaccard": 1.0, "witness": first}))
    );
    let near = json!({"reason": "near_duplicate", "jaccard": 0.8, "witness": first});
    assert_eq!(lines[1], removed(4, near));
    assert_eq!(lines[3], removed(6, json!({"reason": "empty"})));

    let contaminated = &lines[2];
    assert_eq!(contaminated["reason"], "contaminated");
    assert_eq!((&contaminated["rule"], &contaminated["num_spans"]), (&json!("article"), &json!(1)));
    assert_eq!(
        contaminated["witness"],
        json!({"source": null, "file": test_set.display().to_string(), "line": 1, "id": "Title"})
    );
    let before = words(4, 50).len() + 1;
    assert_eq!(contaminated["spans"], json!([[before, before + article.len()]]));
    // The title is a word of the article that the document lacks: one of 294 n-grams.
    let share = contaminated["witness_share"].as_f64().unwrap();
    assert!((share - 293.0 / 294.0).abs() < 1e-12, "{share}");

    assert_eq!(report.clusters.len(), 1);
    assert_eq!(report.clusters[0].size, 3);
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_contaminated_document_takes_no_clean_neighbor_with_it() {
    // 60 words of an article of 100 make the first document contaminated; the second shares most of
    // the rest with it.
    let article = Random::new(1).words(100);
    let rest = Random::new(2).words(400);
    let first = [&article[..60], &rest[..]].concat().join(" ");
    let workspace = Workspace::new();
    workspace.write_texts(&[first, rest.join(" ")]);
    let test_set =
        workspace.write("test.tokens", &format!(" = T = \n \n {} \n", article.join(" ")));
    let mut config = workspace.config();
    config.decontamination = Some(DecontaminationConfig::by_article(vec![test_set]));
    workspace.curate(config).unwrap();
    assert_eq!(workspace.kept_ids(), ["1"]);
}

#[test]
fn chains_are_not_closed_over_and_clusters_are_reported() {
    let chain_words = Random::new(3).words(50 * 10 + 94);
    let header = Random::new(4).words(304);
    let mut random = Random::new(5);
    let chain = (0..50).map(|n| chain_words[n * 10..n * 10 + 94].join(" "));
    let headed = (0..1_000).map(|_| [header.clone(), random.words(200)].concat().join(" "));
    let texts: Vec<String> = chain.chain(headed).collect();
    let workspace = Workspace::new();
    workspace.write_texts(&texts);
    let report = workspace.curate(workspace.config_without_length()).unwrap();
    assert_eq!(report.dropped, [(DropReason::NearDuplicate, 25)].into());
    assert_eq!(report.clusters.len(), 10);
    for (cluster, first) in report.clusters.iter().zip((1..).step_by(2)) {
        assert_eq!((cluster.size, cluster.example.jaccard), (2, 0.8));
        let lines = (cluster.example.kept.line, cluster.example.removed.line);
        assert_eq!(lines, (Some(first), Some(first + 1)));
    }
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn a_source_that_loses_most_of_its_documents_is_warned_of() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200), words(1, 200), words(1, 200)]);
    let report = workspace.curate(workspace.config()).unwrap();
    assert_eq!(
        report.warnings,
        ["source test lost 67% of its documents (2 of 3, 2 of them exact_duplicate)"]
    );
    assert_eq!((report.sources["test"].documents_in, report.sources["test"].kept), (3, 1));
}

/// 2,000 documents of 130 to 330 words, of which 300 are near-duplicates of an earlier one: 1 in 60
/// words is another.
fn documents_with_planted_near_duplicates() -> Vec<String> {
    let mut random = Random::new(7);
    let mut documents: Vec<Vec<String>> = Vec::new();
    for number in 0..2_000 {
        let document = if number % 20 >= 17 {
            let original = &documents[random.below(number)];
            random.edited(original, original.len() / 60)
        } else {
            let length = 130 + random.below(200);
            random.words(length)
        };
        documents.push(document);
    }
    documents.iter().map(|words| words.join(" ")).collect()
}

#[test]
fn threads_and_the_split_into_files_do_not_change_a_byte() {
    let texts = documents_with_planted_near_duplicates();
    let run = |threads: usize, files: usize| {
        let workspace = Workspace::new();
        let lines: Vec<String> = jsonl(&texts).lines().map(|line| format!("{line}\n")).collect();
        for (number, part) in lines.chunks(lines.len().div_ceil(files)).enumerate() {
            workspace.write(&format!("in/part-{number}.jsonl"), &part.concat());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let report = pool.install(|| workspace.curate(workspace.config())).unwrap();
        // Lists name the file and line, which are not the same in another division.
        let without_place = |mut record: Value| {
            record["file"] = Value::Null;
            record["line"] = Value::Null;
            if record["witness"].is_object() {
                record["witness"]["file"] = Value::Null;
                record["witness"]["line"] = Value::Null;
            }
            record
        };
        let removed: Vec<Value> =
            workspace.json_lines("removed.jsonl").into_iter().map(without_place).collect();
        (
            workspace.bytes("corpus.bin"),
            workspace.bytes("corpus.idx"),
            workspace.kept_ids(),
            removed,
            report.dropped,
            report.tokens,
        )
    };
    let one = run(1, 1);
    assert!(one.3.len() >= 290, "{} removals test little", one.3.len());
    assert!(run(2, 1) == one);
    assert!(run(8, 1) == one);
    assert!(run(8, 7) == one);
    assert!(run(1, 7) == one);
}

#[test]
fn unreadable_records_end_the_run_or_are_listed() {
    let workspace = Workspace::new();
    let good =
        |seed: u64| format!("{}\n", json!({"id": seed.to_string(), "text": words(seed, 200)}));
    let content = format!("{}{{\"content\": \"x\"}}\n{}[1, 2]\n", good(1), good(2));
    workspace.write("in/a.jsonl", &content);

    let error = workspace.curate(workspace.config()).unwrap_err().to_string();
    assert!(error.contains("a.jsonl:2: no key \"text\" (keys present: content)"), "{error}");
    assert_eq!(workspace.leftovers(), [""; 0]);

    let skipping = CurationConfig { on_bad_line: OnBadLine::Skip, ..workspace.config() };
    let report = workspace.curate(skipping).unwrap();
    assert_eq!((report.documents_in, workspace.kept_ids().len()), (2, 2));
    assert_eq!(report.rejected, [("missing_key".into(), 1), ("not_an_object".into(), 1)].into());
    let rejects = workspace.json_lines("rejects.jsonl");
    assert_eq!((&rejects[0]["line"], &rejects[1]["line"]), (&json!(2), &json!(4)));
    assert_eq!(rejects[0]["byte_offset"], json!(good(1).len()));
}

#[test]
fn a_folder_of_something_else_is_refused_unless_it_may_be_replaced() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200)]);
    workspace.curate(workspace.config()).unwrap();
    workspace.write_texts(&[words(2, 200), words(3, 200)]);
    let error = workspace.curate(workspace.config()).unwrap_err().to_string();
    assert!(error.contains("a.jsonl: ") && error.contains("--overwrite"), "{error}");

    let mut plan = workspace.config().validate().unwrap();
    plan.existing = Existing::Replace;
    curate(&plan, &workspace.path("out"), &Silent).unwrap();
    assert_eq!(DataFolder::open(&workspace.path("out")).unwrap().manifest().documents, 2);
}

/// Counts how often it is asked to stop, and never does.
#[derive(Default)]
struct Questions(AtomicU64);

impl Observer for Questions {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }
}

#[test]
fn one_long_document_leaves_chances_to_stop() {
    let workspace = Workspace::new();
    workspace.write_texts(&["word ".repeat(2_000_000)]);
    let plan = workspace.config().validate().unwrap();
    let observer = Questions::default();
    curate(&plan, &workspace.path("out"), &observer).unwrap();
    // Forty pieces are tokenized, and each of five stages before that asks once.
    let questions = observer.0.into_inner();
    assert!(questions >= 45, "{questions} chances to stop");
}

/// Adds up what each stage says.
#[derive(Default)]
struct Stages(std::sync::Mutex<Vec<(String, Option<u64>, u64)>>);

impl Observer for Stages {
    fn begin(&self, stage: &str, total: Option<u64>, _unit: Unit) {
        self.0.lock().unwrap().push((stage.to_owned(), total, 0));
    }

    fn advance(&self, amount: u64) {
        self.0.lock().unwrap().last_mut().unwrap().2 += amount;
    }

    fn finish(&self) {}
}

#[test]
fn every_stage_reaches_its_announced_total() {
    let workspace = Workspace::new();
    workspace.write_texts(&generate::documents(8, 30));
    let stages = Stages::default();
    let plan = workspace.config().validate().unwrap();
    curate(&plan, &workspace.path("out"), &stages).unwrap();
    let stages = stages.0.into_inner().unwrap();
    assert_eq!(stages.len(), 6);
    for (stage, total, done) in stages {
        assert_eq!(total, Some(done), "{stage}");
    }
}

#[test]
fn the_manifest_holds_the_config_and_the_counts() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200), words(1, 200)]);
    let config = workspace.config();
    let report = workspace.curate(config.clone()).unwrap();
    let folder = DataFolder::open(&workspace.path("out")).unwrap();
    folder.verify(&Silent).unwrap();
    let manifest = folder.manifest();
    assert_eq!(manifest.config, serde_json::to_value(&config).unwrap());
    assert_eq!(manifest.dropped, [("exact_duplicate".to_owned(), 1)].into());
    assert_eq!((manifest.documents, manifest.tokens), (1, report.tokens));
    let mut read: CurationReport = serde_json::from_slice(&workspace.bytes("report.json")).unwrap();
    assert!((read.seconds - report.seconds).abs() < 1e-9); // JSON may cost the last bit
    read.seconds = report.seconds;
    assert_eq!(read, report);
}

#[test]
fn a_summary_tells_what_a_plan_amounts_to_without_reading_a_document() {
    let workspace = Workspace::new();
    workspace.write("in/b.jsonl", "no JSON at all");
    workspace.write("in/a.jsonl", "");
    workspace.write("in/.hidden.jsonl", "");
    let wiki = workspace.write("wiki.tokens", &format!(" = Title = \n \n {} \n", words(1, 20)));
    let item = |seed| json!({"text": words(seed, 10)}).to_string();
    let lambada = workspace.write("lambada.jsonl", &format!("{}\n{}\n", item(2), item(3)));
    let mut table = DecontaminationConfig::by_article(vec![wiki.clone(), lambada.clone()]);
    table.ngram = Some(NGramConfig { ngram_words: NonZeroUsize::new(5).unwrap() });
    let config = CurationConfig { decontamination: Some(table), ..workspace.config() };
    let summary = serde_json::to_value(config.validate().unwrap().summary().unwrap()).unwrap();

    let files = [("in/a.jsonl", 0), ("in/b.jsonl", 14)].map(
        |(name, bytes)| json!({"file": workspace.path(name).display().to_string(), "bytes": bytes}),
    );
    assert_eq!(
        summary["sources"],
        json!([{"name": "test", "format": "jsonl", "files": files, "bytes": 14}])
    );
    assert_eq!((&summary["bytes"], &summary["min_tokens"]), (&json!(14), &json!(128)));
    let hidden = workspace.path("in/.hidden.jsonl").display().to_string();
    assert_eq!(summary["skipped_files"], json!([{"file": hidden, "reason": "hidden"}]));
    assert_eq!(summary["tokenizer"]["vocab_size"], 50_257);
    let counts = |of_8: u64, of_5: u64| {
        json!([
            {"ngram_words": 8, "positions": of_8, "distinct": of_8},
            {"ngram_words": 5, "positions": of_5, "distinct": of_5},
        ])
    };
    assert_eq!(
        summary["decontamination"],
        json!({
            "rules": [{"rule": "article", "ngram_words": 8}, {"rule": "ngram", "ngram_words": 5}],
            "test_sets": [
                {"file": wiki.display().to_string(), "items": 1, "ngrams": counts(14, 17)},
                {"file": lambada.display().to_string(), "items": 2, "ngrams": counts(6, 12)},
            ],
            "titles": null,
        })
    );
    assert_eq!(summary["near_duplicates"]["threshold"], 0.7);
    assert_eq!(summary["near_duplicates"]["bands"], 26);
    assert_eq!(workspace.leftovers(), ["lambada.jsonl", "wiki.tokens"]);
}

#[test]
fn the_example_config_is_the_papers_cleaning() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/data/openwebtext.toml");
    let config: CurationConfig = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(config.length, Some(LengthConfig::default()));
    assert_eq!(config.near_duplicates, Some(NearDuplicatesConfig::default()));
    let test_set = PathBuf::from("data/raw/wikitext-103/wiki.test.tokens");
    assert_eq!(config.decontamination, Some(DecontaminationConfig::by_article(vec![test_set])));
    config.validate().unwrap();
}
