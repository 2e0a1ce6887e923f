//! The page of small reports.

use super::*;
use crate::records::Location;
use crate::report::{Cluster, ClusterSize, CutWords};

fn location(file: &str, line: u64) -> Location {
    Location { source: None, file: file.to_owned(), line: Some(line), id: None }
}

/// 1,234 documents of a source with a name that HTML would take for markup, 1,000 of them kept.
fn report() -> CurationReport {
    let mut counts = SourceCounts::default();
    (0..1000).for_each(|_| counts.add_kept(2_000, 500));
    (0..200).for_each(|_| counts.add_dropped(900, DropReason::NearDuplicate));
    (0..34).for_each(|_| counts.add_dropped(100, DropReason::TooShort));
    let mut similarity = SimilarityHistogram::default();
    (0..150).for_each(|_| similarity.add(9, 10));
    (0..50).for_each(|_| similarity.add(3, 4));
    let example = ClusterExample {
        kept: location("a.jsonl", 3),
        removed: location("a&b.jsonl", 7),
        jaccard: 0.9,
    };
    CurationReport {
        documents_in: 1_234,
        documents_kept: 1_000,
        dropped: counts.dropped.clone(),
        tokens: counts.tokens,
        bytes_in: 2_500_000,
        seconds: 2.5,
        clusters: vec![Cluster { size: 5, example: example.clone() }],
        cluster_sizes: vec![ClusterSize { from: 4, to: 7, clusters: 50, documents: 250, example }],
        similarity: Some(similarity),
        sources: [("<b>web</b>".to_owned(), counts)].into(),
        cut_words: Some(CutWords { number: 3, documents: 2, first: location("c.txt", 9) }),
        warnings: vec!["source <b> & co".to_owned()],
        ..CurationReport::default()
    }
}

fn settings() -> Value {
    serde_json::json!({
        "tokenizer": "gpt2",
        "source": [{"name": "<b>web</b>", "jsonl": {"text_key": "text"}}],
        "unicode_repair": {},
        "decontamination": null,
        "length": {"min_tokens": 128},
    })
}

#[test]
fn the_page_tells_what_the_report_does() {
    let page = page(&report(), &settings());
    for text in [
        "1000 of 1,234 documents are in it; 234 went".replace("1000", "1,000"),
        "200 (16.2%)".to_owned(),
        "500,000".to_owned(),
        "a.jsonl:3".to_owned(),
        "4 to 7".to_owned(),
        "0.90: 150".to_owned(),
        "unicode_repair = on".to_owned(),
        "length.min_tokens = 128".to_owned(),
        "source.0.jsonl.text_key".to_owned(),
    ] {
        assert!(page.contains(&text), "{text} in {page}");
    }
    assert!(!page.contains("decontamination ="), "what is off is no setting");
}

#[test]
fn names_are_text_and_no_markup() {
    let page = page(&report(), &settings());
    assert!(!page.contains("<b>") && !page.contains("a&b"));
    assert!(page.contains("&#60;b&#62;web") && page.contains("a&#38;b.jsonl:7"));
}

#[test]
fn the_page_needs_no_other_file_and_runs_nothing() {
    let page = page(&report(), &settings());
    for part in ["<script", "src=", "href=", "url(", "http:", "https:", "@import", "onclick"] {
        assert!(!page.contains(part), "{part}");
    }
    for part in ["<!doctype html>", "prefers-color-scheme: dark", "<svg", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_report_of_nothing_is_a_page_too() {
    let page = page(&CurationReport::default(), &Value::Null);
    assert!(page.contains("0 of 0 documents") && page.contains("No kept document has a copy"));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn thousands_are_set_apart() {
    for (number, text) in
        [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (9_876_543, "9,876,543")]
    {
        assert_eq!(grouped(number), text);
    }
}
