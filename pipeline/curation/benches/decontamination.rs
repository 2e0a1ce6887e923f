//! Throughput of the decontamination.
//!
//! ```text
//! cargo bench -p curation --bench decontamination
//! ```
//!
//! Each row is a pass of one thread over the texts, in MB of text per second: the median of seven
//! runs, and the slowest and fastest. *clean* is a generated corpus of 62 MB that shares nothing
//! with the test sets; *test data* is one of them forty times over, every document the whole of it.
//! A test set has 60 articles, 240,000 words in all, as that of WikiText103; the last rows are those
//! of a hundred of them.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

#[path = "../tests/generate/mod.rs"]
mod generate;

use std::path::{Path, PathBuf};
use std::time::Instant;

use corpus::Silent;
use curation::decontaminate::{
    ArticleConfig, Decontamination, DecontaminationConfig, NGramConfig, TitleConfig,
};

const RUNS: usize = 7;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the test sets");
    let mut random = generate::Random::new(2);
    let paths: Vec<PathBuf> =
        (0..100).map(|number| write_test_set(&mut random, folder.path(), number)).collect();
    let clean = generate::documents(1, 4_500);
    let test_data = vec![std::fs::read_to_string(&paths[0]).expect("it was written"); 40];

    let article = DecontaminationConfig::by_article(vec![paths[0].clone()]);
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
    let hundred = DecontaminationConfig { test_sets: paths, ..all.clone() };
    println!("{:<32} {:>9}  {:>19}", "", "MB/s", "slowest to fastest");
    for (name, config) in [
        ("article", article),
        ("ngram", ngram),
        ("all three", all),
        ("all three, 100 test sets", hundred),
    ] {
        let started = Instant::now();
        let test_sets = Decontamination::open(&config, &Silent).expect("the test sets read");
        let ngrams = test_sets.overlap(&test_sets.nothing_seen())[0]
            .test_sets
            .iter()
            .map(|test_set| test_set.ngrams)
            .sum::<u64>();
        println!("{name}: {ngrams} n-grams read in {:.1} s", started.elapsed().as_secs_f64());
        for (name, texts) in [("clean", &clean), ("test data", &test_data)] {
            let rates = rates(&test_sets, texts);
            println!(
                "  {name:<30} {:>9.1}  {:>8.1} to {:>7.1}",
                rates[RUNS / 2],
                rates[0],
                rates[RUNS - 1]
            );
        }
    }
}

fn write_test_set(random: &mut generate::Random, folder: &Path, number: usize) -> PathBuf {
    let articles: String = (0..60)
        .map(|article| {
            format!(
                " = Article {article} of {number} = \n \n {} \n \n",
                random.words(4_000).join(" ")
            )
        })
        .collect();
    let path = folder.join(format!("{number}.tokens"));
    std::fs::write(&path, articles).expect("the test set is written");
    path
}

/// MB of text per second in each run, ascending.
fn rates(test_sets: &Decontamination, texts: &[String]) -> Vec<f64> {
    let bytes: usize = texts.iter().map(String::len).sum();
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let seen = test_sets.nothing_seen();
            let started = Instant::now();
            for text in texts {
                // A title that no article has.
                std::hint::black_box(test_sets.judge(Some("Another title"), text, &seen));
            }
            bytes as f64 / 1e6 / started.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates
}
