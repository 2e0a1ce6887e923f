//! Throughput of the decontamination.
//!
//! ```text
//! cargo bench -p curation --bench decontamination
//! ```
//!
//! Each row is a pass of one thread over the texts, in MB of text per second: the median of seven
//! runs, and the slowest and fastest. *clean* is a generated corpus of 62 MB that shares nothing
//! with a test set of 240,000 words; *test data* is that test set forty times over, every document
//! the whole of it.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::path::Path;
use std::time::Instant;

use corpus::{Document, Provenance};
use curation::decontaminate::{
    ArticleConfig, Decontamination, DecontaminationConfig, NGramConfig, TitleConfig,
};

const RUNS: usize = 7;

fn main() {
    let mut random = generate::Random::new(2);
    let test_set: String = (0..60)
        .map(|number| {
            format!(" = Article {number} = \n \n {} \n \n", random.words(4_000).join(" "))
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder for the test set");
    let path = folder.path().join("test.tokens");
    std::fs::write(&path, &test_set).expect("the test set is written");

    let clean = documents(generate::documents(1, 4_500));
    let test_data = documents(vec![test_set; 40]);
    let article = DecontaminationConfig::by_article(vec![path]);
    let ngram = DecontaminationConfig {
        article: None,
        ngram: Some(NGramConfig::default()),
        ..article.clone()
    };
    let all = DecontaminationConfig {
        article: Some(ArticleConfig::default()),
        title: Some(TitleConfig {}),
        ..ngram.clone()
    };
    println!("{:<24} {:>9}  {:>19}", "", "MB/s", "slowest to fastest");
    for (rules, config) in [("article", article), ("ngram", ngram), ("all three", all)] {
        let test_sets = Decontamination::open(&config).expect("the test set reads");
        for (name, documents) in [("clean", &clean), ("test data", &test_data)] {
            let rates = rates(&test_sets, documents);
            println!(
                "{:<24} {:>9.1}  {:>8.1} to {:>7.1}",
                format!("{rules}, {name}"),
                rates[RUNS / 2],
                rates[0],
                rates[RUNS - 1]
            );
        }
    }
}

/// Documents with titles that no article has.
fn documents(texts: Vec<String>) -> Vec<Document> {
    texts
        .into_iter()
        .map(|text| Document {
            provenance: Provenance {
                source: "bench".into(),
                file: Path::new("bench.jsonl").into(),
                line: None,
                id: None,
            },
            title: Some("Another title".to_owned()),
            text,
        })
        .collect()
}

/// MB of text per second in each run, ascending.
fn rates(test_sets: &Decontamination, documents: &[Document]) -> Vec<f64> {
    let bytes: usize = documents.iter().map(|document| document.text.len()).sum();
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let seen = test_sets.nothing_seen();
            let started = Instant::now();
            for document in documents {
                std::hint::black_box(test_sets.judge(
                    document.title.as_deref(),
                    &document.text,
                    &seen,
                ));
            }
            bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}
