//! Contamination: counts against the definition and against reference values, whatever the corpus
//! lies in and however it is read.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use corpus::reader::{OnBadFile, OnBadLine, SourceConfig};
use corpus::{NormalizedText, Observer, Silent, Unit};
use curation::decontaminate::DecontaminationConfig;
use curation::{CurationConfig, curate};
use evaluation::contamination::{ContaminationPlan, Counts, DocumentOverlap, Measured, measure};
use evaluation::{EvalError, EvalReport};
use proptest::prelude::*;

use super::{positive, published_file};
use crate::support::{Dir, jsonl, words};

fn plan(test_sets: &[PathBuf], corpora: &[PathBuf], sizes: &[usize]) -> ContaminationPlan {
    ContaminationPlan {
        ngram_words: sizes.iter().map(|&size| positive(size)).collect(),
        ..ContaminationPlan::new(test_sets.to_vec(), corpora.to_vec())
    }
}

fn measured(report: &EvalReport) -> Vec<&Measured> {
    let results = report.results.iter().map(|result| match &result.measured {
        evaluation::Measured::Contamination(measured) => &**measured,
        other => panic!("{other:?}"),
    });
    results.collect()
}

/// The one result of a plan for one test set.
fn one(plan: &ContaminationPlan) -> Measured {
    let report = measure(plan, None, &Silent).unwrap();
    let [measured] = measured(&report)[..] else { panic!("one test set") };
    measured.clone()
}

fn problem(plan: &ContaminationPlan) -> String {
    measure(plan, None, &Silent).unwrap_err().to_string()
}

/// Positions, those matched, distinct n-grams, those matched.
fn totals(counts: &Counts) -> [u64; 4] {
    [counts.positions, counts.matched_positions, counts.distinct, counts.matched_distinct]
}

/// Reference: Python's `re.findall("[a-z0-9]+", text.lower())`, 8 words at a time: over the whole
/// file for WikiText, over each text for LAMBADA.
#[test]
fn published_test_sets_overlap_as_is_known() {
    let names = ["wiki.test.tokens", "wiki.valid.tokens", "lambada_test.jsonl"];
    let Some(files) = names.into_iter().map(published_file).collect::<Option<Vec<_>>>() else {
        return;
    };
    let [test, valid, lambada] = &files[..] else { panic!("three files") };
    let both = plan(&[test.clone(), lambada.clone()], from_ref(valid), &[8]);
    let report = measure(&both, None, &Silent).unwrap();
    let [of_wikitext, of_lambada] = measured(&report)[..] else { panic!("two test sets") };
    assert_eq!(totals(&of_wikitext.findings.counts), [206_591, 11, 205_719, 9]);
    let [positions, _, distinct, _] = totals(&of_lambada.findings.counts);
    assert_eq!((positions, distinct), (280_356, 278_588));
    let lambada_in_test = one(&plan(from_ref(lambada), from_ref(test), &[8]));
    assert_eq!(totals(&lambada_in_test.findings.counts), [280_356, 0, 278_588, 0]);

    let sizes: Vec<usize> = (5..=13).collect();
    let itself = one(&plan(from_ref(test), from_ref(test), &sizes));
    assert_eq!(totals(&itself.findings.counts), [206_591, 206_591, 205_719, 205_719]);
    for of_size in &itself.by_ngram_words {
        assert_eq!((of_size.position_share, of_size.distinct_share), (1.0, 1.0));
        assert_eq!(of_size.positions, 206_599 - of_size.ngram_words as u64);
    }
}

/// Counts by the definition: the n-grams of each text of a test set, and those of all documents.
fn plain_totals(items: &[String], documents: &[String], size: usize) -> [u64; 4] {
    let ngrams = |text: &String| -> Vec<Vec<String>> {
        let text = NormalizedText::new(text);
        let words: Vec<String> = text.joined().split(' ').map(str::to_owned).collect();
        words.windows(size).filter(|words| !words[0].is_empty()).map(<[_]>::to_vec).collect()
    };
    let corpus: HashSet<Vec<String>> = documents.iter().flat_map(ngrams).collect();
    let positions: Vec<Vec<String>> = items.iter().flat_map(ngrams).collect();
    let distinct: HashSet<&Vec<String>> = positions.iter().collect();
    let matched = positions.iter().filter(|ngram| corpus.contains(*ngram)).count();
    let matched_distinct = distinct.iter().filter(|ngram| corpus.contains(**ngram)).count();
    [positions.len(), matched, distinct.len(), matched_distinct].map(|count| count as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Texts of few words repeat most n-grams, within and across texts.
    #[test]
    fn counts_are_those_of_sets_of_words_however_the_corpus_is_cut_and_read(
        items in prop::collection::vec("([abAB] |c|é|, ){0,30}", 1..5),
        documents in prop::collection::vec("([ab]{1,2} |[Cc]|-|\u{212a} ){0,40}", 1..8),
        cut in 0_usize..8,
        threads in 1_usize..4,
    ) {
        // A corpus without a word is refused.
        prop_assume!(documents.iter().any(|text| !NormalizedText::new(text).joined().is_empty()));
        // Long enough for every size.
        let items: Vec<String> = items.into_iter().chain(["a b a b c".to_owned()]).collect();
        let dir = Dir::new();
        let test = dir.write("test.jsonl", jsonl(&items));
        let whole = dir.write("whole.jsonl", jsonl(&documents));
        let sizes = [1, 2, 3, 5];
        let found = one(&plan(from_ref(&test), &[whole], &sizes));
        for (of_size, size) in found.by_ngram_words.iter().zip(sizes) {
            let counts = [
                of_size.positions,
                of_size.matched_positions,
                of_size.distinct,
                of_size.matched_distinct,
            ];
            prop_assert_eq!(counts, plain_totals(&items, &documents, size), "{} words", size);
        }
        prop_assert_eq!(found.findings.counts.corpus_documents, documents.len() as u64);

        let (head, tail) = documents.split_at(cut.min(documents.len()));
        let parts: Vec<PathBuf> = [("1.jsonl", head), ("2.jsonl", tail)]
            .into_iter()
            .filter(|(_, part)| !part.is_empty())
            .map(|(name, part)| dir.write(name, jsonl(part)))
            .collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let in_parts = pool.install(|| one(&plan(&[test], &parts, &sizes)));
        prop_assert_eq!(totals(&in_parts.findings.counts), totals(&found.findings.counts));
        prop_assert_eq!(&in_parts.by_ngram_words, &found.by_ngram_words);
        prop_assert_eq!(&in_parts.most_matched_items, &found.most_matched_items);
        let shared = |found: &Measured| -> Vec<(u64, u64, String)> {
            let documents = found.worst_documents.iter();
            documents.map(|it| (it.shared_ngrams, it.positions, it.excerpt.clone())).collect()
        };
        prop_assert_eq!(shared(&in_parts), shared(&found));
    }
}

#[test]
fn a_text_is_one_stream_and_records_are_apart() {
    let dir = Dir::new();
    let corpus = dir.write("corpus.txt", "b t2 c");
    let text = dir.write("test.tokens", " = t1 = \n \n a b \n \n = t2 = \n \n c d \n");
    let found = one(&plan(&[text], from_ref(&corpus), &[3]));
    let counts = &found.findings.counts;
    assert_eq!(totals(counts), [4, 1, 4, 1]);
    assert_eq!((counts.items, counts.matched_items, counts.words), (2, 1, 6));
    let [item] = &found.most_matched_items[..] else { panic!("{found:?}") };
    let (name, ngrams, matched) = (item.name.as_deref(), item.ngrams, item.matched_ngrams);
    assert_eq!((name, item.line, ngrams, matched), (Some("t1"), 1, 3, 1), "it begins there");

    let records = dir.write("test.jsonl", jsonl(&["t1 a b", "t2 c d"]));
    let found = one(&plan(&[records], &[corpus], &[3]));
    assert_eq!(totals(&found.findings.counts), [2, 0, 2, 0]);
    assert!(found.worst_documents.is_empty() && found.most_matched_items.is_empty());
}

#[test]
fn the_documents_that_share_the_most_come_first_with_their_place_and_item() {
    let dir = Dir::new();
    let [one_item, other_item] = [1, 2].map(|seed| words(seed, 60));
    let test = dir.write("test.jsonl", jsonl(&[&one_item, &other_item]));
    let part = |item: &str, words: usize| -> String {
        item.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
    };
    let clean = words(3, 300);
    let lines = [
        serde_json::json!({"id": "clean", "text": clean}),
        serde_json::json!({"id": "little", "text": format!("{clean} {}", part(&one_item, 10))}),
        serde_json::json!({"id": "much", "text": format!("{} {clean}", part(&other_item, 50))}),
        serde_json::json!({"id": "also little", "text": part(&other_item, 10).to_uppercase()}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = dir.path("corpus.jsonl.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&path).unwrap(),
        flate2::Compression::default(),
    );
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let found = one(&plan(from_ref(&test), from_ref(&path), &[8]));
    assert_eq!(found.findings.counts.contaminated_documents, 3);
    let told = |it: &DocumentOverlap| {
        (it.id.clone().unwrap(), it.line.unwrap(), it.shared_ngrams, it.item.line)
    };
    assert_eq!(
        found.worst_documents.iter().map(told).collect::<Vec<_>>(),
        [
            ("much".to_owned(), 3, 43, 2),
            ("little".to_owned(), 2, 3, 1),
            ("also little".to_owned(), 4, 3, 2)
        ]
    );
    let much = &found.worst_documents[0];
    assert!(much.excerpt.starts_with(&part(&other_item, 20)) && much.excerpt.len() <= 300);
    assert_eq!(much.file.as_deref(), Some(path.to_str().unwrap()));
    assert_eq!((much.positions, much.item.shared_ngrams), (343, 43));
    assert_eq!(much.item.file, test.to_str().unwrap());
}

/// A data folder of `texts`, as they are or without what is in `test_sets`.
fn data_folder(dir: &Dir, name: &str, texts: &Path, test_sets: Option<PathBuf>) -> PathBuf {
    let mut config = CurationConfig::of_text(vec![SourceConfig::detect(texts).unwrap()]);
    config.decontamination = test_sets.map(|path| DecontaminationConfig::by_article(vec![path]));
    let out = dir.path(name);
    curate(&config.validate().unwrap(), &out, &Silent).unwrap();
    out
}

#[test]
fn tokens_of_a_data_folder_are_compared_as_their_text() {
    let dir = Dir::new();
    let items: Vec<String> = (0..5).map(|seed| words(seed, 40)).collect();
    let test = dir.write("test.jsonl", jsonl(&items));
    let documents: Vec<String> = (0..30)
        .map(|n| {
            // Most of an item in every second document.
            let held = if n % 2 == 0 { &items[n as usize % 5][..200] } else { "" };
            format!("“Naïve” {} {held}", words(100 + n, 100))
        })
        .collect();
    let texts = dir.write("corpus.jsonl", jsonl(&documents));
    let folder = data_folder(&dir, "data", &texts, None);
    let sizes = [5, 8, 13];
    let of_text = one(&plan(from_ref(&test), from_ref(&texts), &sizes));
    let of_folder = one(&plan(from_ref(&test), from_ref(&folder), &sizes));
    assert!(of_text.findings.metrics.position_share > 0.1);
    assert_eq!(of_folder.by_ngram_words, of_text.by_ngram_words);
    for (in_folder, in_text) in of_folder.worst_documents.iter().zip(&of_text.worst_documents) {
        assert_eq!(in_folder.document, Some(in_text.line.unwrap() - 1));
        assert_eq!((&in_folder.file, in_folder.line), (&in_text.file, in_text.line));
        assert_eq!(in_folder.excerpt, in_text.excerpt);
        assert_eq!(in_folder.shared_ngrams, in_text.shared_ngrams);
    }

    let without = data_folder(&dir, "clean", &texts, Some(test.clone()));
    let clean = one(&plan(from_ref(&test), from_ref(&without), &sizes));
    assert_eq!(clean.findings.metrics.position_share, 0.0, "items were the targets");
    let both = one(&plan(&[test], &[without, texts], &sizes));
    assert_eq!(both.by_ngram_words, of_text.by_ngram_words);
    assert_eq!(both.findings.counts.corpus_documents, 15 + 30);
}

#[test]
fn damaged_folders_and_tokens_without_a_tokenizer_are_refused() {
    let dir = Dir::new();
    let test = dir.write("test.jsonl", jsonl(&[words(1, 40)]));
    let texts = dir.write("corpus.jsonl", jsonl(&[words(2, 400)]));
    let folder = data_folder(&dir, "data", &texts, None);
    let plan = plan(&[test], from_ref(&folder), &[8]);
    let tokens = folder.join("corpus.bin");
    let sound = fs::read(&tokens).unwrap();
    let mut damaged = sound.clone();
    damaged[10] ^= 1;
    fs::write(&tokens, damaged).unwrap();
    assert!(problem(&plan).contains("corpus.bin"), "{}", problem(&plan));
    fs::write(&tokens, &sound[..100]).unwrap();
    assert!(problem(&plan).contains("corpus.bin"), "{}", problem(&plan));
    fs::write(&tokens, &sound).unwrap();
    one(&plan);

    let manifest = folder.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"gpt2\"", "\"tokenizer.json\"")).unwrap();
    assert!(problem(&plan).contains("tokenizer.json"), "{}", problem(&plan));
    fs::remove_file(&manifest).unwrap();
    let message = problem(&plan);
    assert!(message.contains("without the manifest of a data folder"), "{message}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    let dir = Dir::new();
    let test = dir.write("test.jsonl", jsonl(&[words(1, 12)]));
    let corpus = dir.write("corpus.jsonl", jsonl(&[words(2, 40)]));
    let refused = |test: &Path, corpus: &Path, sizes: &[usize], part: &str| {
        let message = problem(&plan(&[test.to_owned()], &[corpus.to_owned()], sizes));
        assert!(message.contains(part), "{message}");
    };
    refused(&test, &corpus, &[13], "no item has the 13 words of an n-gram");
    refused(&test, &corpus, &[300], "n = 300 is too long an n-gram; allowed: 1 to 100 words");
    refused(&dir.write("empty.jsonl", ""), &corpus, &[8], "empty.jsonl: it is empty");
    refused(&dir.write("blank.tokens", " \n"), &corpus, &[8], "blank.tokens: it is empty");
    refused(&dir.path("nowhere.tokens"), &corpus, &[8], "nowhere.tokens: cannot read it");
    refused(&test, &dir.path("nowhere"), &[8], "nowhere");
    let key = dir.write("key.jsonl", "{\"body\": \"a b\"}\n");
    refused(&test, &key, &[8], "key.jsonl:1: no key \"text\"");
    refused(&key, &corpus, &[8], "key.jsonl: line 1: no key \"text\"");
    let broken = dir.write("broken.jsonl", format!("{}not JSON\n", jsonl(&[words(3, 9)])));
    refused(&test, &broken, &[8], "broken.jsonl:2: no JSON");

    let refused = |plan: &ContaminationPlan, part: &str| {
        assert!(problem(plan).contains(part), "{}", problem(plan));
    };
    refused(&plan(&[], from_ref(&corpus), &[8]), "no test set is given");
    refused(&plan(from_ref(&test), &[], &[8]), "no corpus is given");
    refused(&plan(from_ref(&test), from_ref(&corpus), &[]), "no number of words is given");
    refused(&plan(&[test.clone(), test.clone()], from_ref(&corpus), &[8]), "read already");
    refused(&plan(&[test], &[corpus.clone(), corpus], &[8]), "is given twice as a corpus");
}

#[test]
fn results_begin_with_eight_words_or_with_the_first_number_given() {
    let dir = Dir::new();
    let test = dir.write("test.jsonl", jsonl(&[words(1, 40)]));
    for (sizes, primary) in [(&[5, 8, 13][..], 8), (&[13, 5], 13), (&[6, 6], 6)] {
        let found = one(&plan(from_ref(&test), from_ref(&test), sizes));
        assert_eq!(found.findings.settings.ngram_words, primary);
        assert_eq!(found.findings.counts.positions, 41 - primary as u64);
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let told: Vec<usize> = found.by_ngram_words.iter().map(|it| it.ngram_words).collect();
        assert_eq!(told, sizes);
    }
}

#[test]
fn bad_records_and_broken_files_are_passed_over_where_that_is_asked_for() {
    let dir = Dir::new();
    let item = words(1, 40);
    let test = dir.write("test.jsonl", jsonl(&[&item]));
    let lines = jsonl(&[&item]);
    let cut = dir.write("cut.jsonl", format!("not JSON\n{lines}{}", &lines[..lines.len() / 2]));
    let mut plan = plan(&[test], &[cut], &[8]);
    assert!(problem(&plan).contains("cut.jsonl:1: no JSON"), "{}", problem(&plan));
    plan.read_policy.on_bad_line = OnBadLine::Skip;
    assert!(problem(&plan).contains("cut.jsonl: breaks off at byte"), "{}", problem(&plan));
    plan.read_policy.on_bad_file = OnBadFile::KeepPrefix;
    let found = one(&plan);
    let counts = &found.findings.counts;
    assert_eq!((counts.corpus_rejected, counts.corpus_broken_files), (1, 1));
    assert_eq!(found.findings.metrics.position_share, 1.0);
}

/// Asks to stop once it has heard of some bytes.
struct Impatient(std::sync::atomic::AtomicBool);

impl Observer for Impatient {
    fn begin(&self, _stage: &str, _total: Option<u64>, unit: Unit) {
        assert_eq!(unit, Unit::Bytes);
    }

    fn advance(&self, amount: u64) {
        assert!(amount > 0);
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_pass_ends_where_it_is_asked_to() {
    let dir = Dir::new();
    let test = dir.write("test.jsonl", jsonl(&[words(1, 40)]));
    let texts: Vec<String> = (0..2_000).map(|seed| words(seed, 500)).collect();
    let corpus = dir.write("corpus.jsonl", jsonl(&texts));
    let plan = ContaminationPlan::new(vec![test], vec![corpus]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let stopped = pool.install(|| measure(&plan, None, &Impatient(false.into())));
    assert!(matches!(stopped, Err(EvalError::Stopped)), "{stopped:?}");
}

/// A share of 0 is good news, which a corpus that was named wrongly must not bring.
#[test]
fn a_corpus_without_a_word_is_an_error() {
    let dir = Dir::new();
    let test = dir.write("test.jsonl", jsonl(&[words(1, 40)]));
    let nothing = dir.write("nothing.jsonl", jsonl(&["  ", "...", ""]));
    let nulls = dir.write("nulls.jsonl", "{\"text\": null}\n".repeat(2));
    let problem = problem(&plan(from_ref(&test), &[nothing.clone(), nulls], &[8]));
    assert!(problem.contains("nothing.jsonl, "), "{problem}");
    assert!(
        problem.contains("nulls.jsonl) holds no word in 3 documents, 2 of them null"),
        "{problem}"
    );
    // Beside a corpus with words it is told, and no error.
    let text = dir.write("text.jsonl", jsonl(&[words(1, 40)]));
    let found = one(&plan(from_ref(&test), &[nothing, text], &[8]));
    assert_eq!(found.findings.metrics.position_share, 1.0);
}
