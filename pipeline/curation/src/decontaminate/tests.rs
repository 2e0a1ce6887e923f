//! The rules on small test sets, and against sets of strings.

use std::collections::HashSet;

use corpus::Silent;
use proptest::prelude::*;

use super::*;

/// `count` different words.
fn words(prefix: &str, count: usize) -> String {
    (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().join(" ")
}

/// Rules as their tables are written, against one test set.
fn open(rules: serde_json::Value, name: &str, content: &[u8]) -> Result<Decontamination, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let mut table = serde_json::json!({"test_sets": [path]});
    table.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
    let table: DecontaminationConfig = serde_json::from_value(table).unwrap();
    Decontamination::open(&table.with_a_rule(), &Silent).map_err(|error| error.to_string())
}

fn by(rules: serde_json::Value, test_set: &str) -> Decontamination {
    open(rules, "test.tokens", test_set.as_bytes()).unwrap()
}

fn judge(test_sets: &Decontamination, text: &str) -> Option<Contamination> {
    test_sets.judge(None, text, &test_sets.nothing_seen())
}

/// What document and item share, where the rule `article` applies.
fn by_article(test_sets: &Decontamination, text: &str) -> Option<Shared> {
    match judge(test_sets, text)? {
        Contamination::Article(shared) => Some(shared),
        other => panic!("{other:?}"),
    }
}

/// Two articles: `Alpha` of 1 + 46 words (40 n-grams), `Beta` of 1 + 100.
fn two_articles() -> String {
    format!(
        " \n = Alpha = \n \n {} \n \n = = History = = \n \n = Beta = \n \n {} \n",
        words("a", 45),
        words("b", 100)
    )
}

fn article() -> serde_json::Value {
    serde_json::json!({"article": {}})
}

#[test]
fn a_verbatim_article_inside_a_longer_document_is_found() {
    let test_sets = by(article(), &two_articles());
    let text = format!("{} Alpha {} History {}", words("x", 500), words("a", 45), words("y", 500));
    let found = by_article(&test_sets, &text).unwrap();
    assert_eq!((found.item, found.shared, found.item_ngrams), (0, 40, 40));
    assert_eq!(found.document_ngrams, 1047 - 7);
    let [span] = &found.spans[..] else { panic!("{:?}", found.spans) };
    assert!(text[span.clone()].starts_with("Alpha a0") && text[span.clone()].ends_with("History"));
    assert_eq!((test_sets.items()[0].line, test_sets.items()[0].name()), (2, Some("Alpha")));
}

#[test]
fn case_spacing_and_wikitext_marks_make_no_difference() {
    let test_set = format!(" = T = \n \n about 3 @-@ 4 , or {} \n", words("a", 20));
    let text = format!("ABOUT 3-4; OR\n\n{}", words("A", 20).replace(' ', " \t "));
    assert!(judge(&by(article(), &test_set), &text).is_some());
}

#[test]
fn an_excerpt_is_found_by_its_own_share() {
    // 15 words of Beta are 8 of its 94 n-grams; the document has 15 - 7 + 7 = 15 or 16 of its own.
    let test_sets = by(article(), &two_articles());
    let excerpt = |foreign| format!("{} {}", words("b", 15), words("x", foreign));
    let found = by_article(&test_sets, &excerpt(7)).unwrap();
    assert_eq!((found.item, found.shared, found.document_ngrams), (1, 8, 15));
    assert_eq!(by_article(&test_sets, &excerpt(8)), None, "8 of 16 are not more than half");
}

#[test]
fn half_an_article_stays_and_one_n_gram_more_goes() {
    let test_sets = by(article(), &two_articles());
    let part = |count| format!("{} Alpha {}", words("x", 500), words("a", count));
    assert_eq!(by_article(&test_sets, &part(26)), None, "20 of 40");
    assert_eq!(by_article(&test_sets, &part(27)).unwrap().shared, 21);
}

#[test]
fn repeated_passages_count_once() {
    let text = format!("{} {}", words("x", 500), format!("{} | ", words("a", 20)).repeat(10));
    assert_eq!(judge(&by(article(), &two_articles()), &text), None);
}

#[test]
fn one_shared_n_gram_is_enough_for_the_rule_ngram() {
    let test_sets = by(serde_json::json!({"ngram": {}}), &two_articles());
    let text = |count| format!("{} {}. {}", words("x", 500), words("b", count), words("y", 500));
    assert_eq!(judge(&test_sets, &text(7)), None);
    let found = judge(&test_sets, &text(8)).unwrap();
    assert_eq!((found.rule(), found.item()), (Rule::NGram, 1));
    let text = text(8);
    let spans: Vec<&str> =
        found.shared().unwrap().spans.iter().map(|span| &text[span.clone()]).collect();
    assert_eq!(spans, [words("b", 8)]);
}

#[test]
fn the_rule_ngram_shows_every_passage_and_the_item_that_shares_most() {
    let test_sets = by(serde_json::json!({"ngram": {"ngram_words": 4}}), &two_articles());
    let text = format!("{} - {} - {}", words("a", 5), words("b", 6), words("a", 4));
    let found = judge(&test_sets, &text).unwrap();
    assert_eq!((found.item(), found.shared().unwrap().shared), (1, 3));
    assert_eq!(found.shared().unwrap().spans.len(), 3);
    // Equally many: the first.
    let even = judge(&test_sets, &format!("{} - {}", words("b", 5), words("a", 5))).unwrap();
    assert_eq!((even.item(), even.shared().unwrap().shared), (0, 2));
}

#[test]
fn n_grams_do_not_cross_items() {
    let lines =
        format!("{{\"text\": \"{}\"}}\n{{\"text\": \"{}\"}}\n", words("a", 12), words("b", 8));
    let test_sets =
        open(serde_json::json!({"ngram": {}}), "lambada.jsonl", lines.as_bytes()).unwrap();
    assert!(judge(&test_sets, "a8 a9 a10 a11 b0 b1 b2 b3").is_none());
    let found = judge(&test_sets, &words("b", 8)).unwrap();
    assert_eq!((found.item(), test_sets.items()[1].line), (1, 2));
}

#[test]
fn the_first_rule_that_applies_is_the_one_that_counts() {
    let rules = serde_json::json!({"article": {}, "ngram": {}, "title": {}});
    let test_sets = by(rules, &two_articles());
    assert_eq!(test_sets.rules(), [Rule::Article, Rule::NGram, Rule::Title]);
    let rule = |text: &str| {
        let found = test_sets.judge(Some("alpha"), text, &test_sets.nothing_seen());
        found.unwrap().rule()
    };
    assert_eq!(rule(&words("a", 45)), Rule::Article);
    assert_eq!(rule(&format!("{} {}", words("a", 9), words("x", 99))), Rule::NGram);
    assert_eq!(rule(&words("x", 99)), Rule::Title);
    assert_eq!(judge(&test_sets, &words("x", 99)), None, "without a title");
    let other = test_sets.judge(Some("History"), &words("x", 99), &test_sets.nothing_seen());
    assert_eq!(other, None, "a lower heading");
}

#[test]
fn rules_may_count_different_numbers_of_words() {
    let rules = serde_json::json!({"article": {"ngram_words": 3}, "ngram": {"ngram_words": 13}});
    let test_sets = by(rules, &two_articles());
    let padded = |count| format!("{} {}", words("b", count), words("x", 500));
    assert_eq!(judge(&test_sets, &padded(12)), None);
    assert_eq!(judge(&test_sets, &padded(13)).unwrap().rule(), Rule::NGram);
    assert_eq!(judge(&test_sets, &words("b", 4)).unwrap().rule(), Rule::Article);
    let overlap = test_sets.overlap(&test_sets.nothing_seen());
    let sizes: Vec<_> = overlap.iter().map(|it| (it.ngram_words, &it.rules[..])).collect();
    assert_eq!(sizes, [(3, &[Rule::Article][..]), (13, &[Rule::NGram])]);
}

#[test]
fn clean_and_short_documents_stay() {
    let test_sets = by(serde_json::json!({"article": {}, "ngram": {}}), &two_articles());
    for text in ["", "a1 a2 a3", &words("clean", 1000), &words("a", 7)] {
        assert_eq!(judge(&test_sets, text), None);
    }
}

#[test]
fn spans_are_cut_at_the_words_of_any_script() {
    let test_set = format!("{} naïve \u{212a}elvin \u{130}x end", words("a", 8));
    let test_sets = by(serde_json::json!({"ngram": {"ngram_words": 7}}), &test_set);
    let text = "日本 — İ a7 NAÏVE kelvin\u{301} «i X END» ß";
    let found = judge(&test_sets, text).unwrap();
    let [span] = &found.shared().unwrap().spans[..] else { panic!("{found:?}") };
    assert_eq!(&text[span.clone()], "a7 NAÏVE kelvin\u{301} «i X END");
}

#[test]
fn overlap_is_counted_by_position_and_by_distinct_n_gram() {
    // 3 + 2 positions of 2-grams, of which "a b" stands twice.
    let test_sets = by(
        serde_json::json!({"ngram": {"ngram_words": 2}}),
        " = T = \n \n a b a \n \n = U = \n \n a b \n",
    );
    let seen = test_sets.nothing_seen();
    for text in ["x a b y", "clean words", "A, B"] {
        let _ = test_sets.judge(None, text, &seen);
    }
    let [overlap] = &test_sets.overlap(&seen)[..] else { panic!("one number of words") };
    let [of_file] = &overlap.test_sets[..] else { panic!("one test set") };
    assert_eq!((of_file.items, of_file.items_without_ngrams, of_file.matched_items), (2, 0, 2));
    assert_eq!((of_file.matched_ngrams, of_file.ngrams), (2, 5));
    assert_eq!((of_file.matched_distinct_ngrams, of_file.distinct_ngrams), (1, 4));
    assert!((of_file.share - 0.4).abs() < 1e-12);
    let items: Vec<_> = of_file
        .most_matched
        .iter()
        .map(|item| (item.line, item.id.as_deref(), item.matched_ngrams, item.ngrams))
        .collect();
    assert_eq!(items, [(5, Some("U"), 1, 2), (1, Some("T"), 1, 3)], "largest share first");
}

#[test]
fn parts_of_a_corpus_come_to_what_the_whole_does() {
    let rules = serde_json::json!({"article": {"ngram_words": 3}, "ngram": {"ngram_words": 8}});
    let test_sets = by(rules, &two_articles());
    let mut texts: Vec<String> = (0..40).map(|n| words(["a", "b", "x"][n % 3], n)).collect();
    texts.extend((10..30).map(|n| format!("{} {}", words("b", n), words("x", 300))));
    let judged = |texts: &[String]| {
        let (seen, mut counts) = (test_sets.nothing_seen(), ContaminationCounts::default());
        let mut verdicts = Vec::new();
        for (text, title) in texts.iter().zip([None, Some("alpha")].iter().cycle()) {
            let found = test_sets.judge(*title, text, &seen);
            counts.add(*title, found.as_ref());
            verdicts.push(found);
        }
        serde_json::to_vec(&(seen, counts, verdicts)).unwrap()
    };
    let read = |bytes: &[u8]| -> (Seen, ContaminationCounts, Vec<Option<Contamination>>) {
        serde_json::from_slice(bytes).unwrap()
    };
    let (whole, whole_counts, whole_verdicts) = read(&judged(&texts));
    let (seen, mut counts, mut verdicts) =
        (test_sets.nothing_seen(), ContaminationCounts::default(), Vec::new());
    for part in texts.chunks(22) {
        let (part_seen, part_counts, part_verdicts) = read(&judged(part));
        assert!(part_seen.has_shape_of(&seen));
        seen.merge(&part_seen);
        counts.merge(&part_counts);
        verdicts.extend(part_verdicts);
    }
    assert_eq!(verdicts, whole_verdicts);
    assert!(counts.flagged[&Rule::NGram] > 0 && counts.flagged[&Rule::Article] > 0);
    assert_eq!(
        ContaminationReport::new(&test_sets, &seen, counts),
        ContaminationReport::new(&test_sets, &whole, whole_counts)
    );
    assert!(!by(article(), &two_articles()).nothing_seen().has_shape_of(&seen));
}

#[test]
fn a_test_set_that_finds_nothing_is_an_error() {
    let problem = |rules, name, content: &str| open(rules, name, content.as_bytes()).err().unwrap();
    let short = problem(article(), "short", " = A = \n \n b c d \n");
    assert!(
        short.contains("short: no item has the 8 words of an n-gram, so nothing would be found")
    );
    let title = serde_json::json!({"title": {}});
    for (name, content) in
        [("a.tokens", " = <unk> = \n \n text \n"), ("a.jsonl", "{\"text\":\"a\"}")]
    {
        let error = problem(title.clone(), name, content);
        assert!(error.contains("no test set has a level-1 heading without <unk>"), "{error}");
    }
    // Titles need no n-grams.
    assert_eq!(by(title, " = A = \n").num_titles(), Some(1));
}

#[test]
fn records_without_text_are_counted_and_warned_of() {
    let lines = format!("{{\"text\": null}}\n{{\"text\": \"{}\"}}\n", words("a", 9)).repeat(2);
    let test_sets = open(article(), "a.jsonl", lines.as_bytes()).unwrap();
    let mut counts = ContaminationCounts::default();
    counts.add(None, Some(&Contamination::Title { item: 0 }));
    counts.add(None, None);
    let report = ContaminationReport::new(&test_sets, &test_sets.nothing_seen(), counts);
    let [(file, 2)] =
        &report.null_records.iter().map(|(file, n)| (file, *n)).collect::<Vec<_>>()[..]
    else {
        panic!("{:?}", report.null_records)
    };
    assert_eq!(
        report.warnings(),
        [format!("2 records of the test set {file} have null for a text, and match nothing")]
    );
}

/// N-grams of two words, as strings.
fn grams(words: &[String]) -> HashSet<String> {
    words.windows(2).map(|pair| pair.join(" ")).collect()
}

proptest! {
    #[test]
    fn verdicts_and_overlap_are_those_of_sets_of_strings(
        articles in prop::collection::vec(prop::collection::vec("[a-d]", 2..12), 1..4),
        documents in prop::collection::vec(prop::collection::vec("[a-d]", 0..20), 1..4),
    ) {
        // The heading is the first word of the article.
        let items: Vec<_> =
            articles.iter().map(|words| [&["title".to_owned()], &words[..]].concat()).collect();
        let sets: Vec<HashSet<String>> = items.iter().map(|words| grams(words)).collect();
        let test_set: String =
            articles.iter().map(|words| format!(" = Title = \n\n {} \n\n", words.join(" "))).collect();
        let two = serde_json::json!({"ngram_words": 2});
        let by_article = by(serde_json::json!({"article": two}), &test_set);
        let by_ngram = by(serde_json::json!({"ngram": two}), &test_set);

        let (seen, also_seen) = (by_article.nothing_seen(), by_ngram.nothing_seen());
        for words in &documents {
            let own = grams(words);
            let shared = |of_item: &HashSet<String>| own.intersection(of_item).count();
            let covered = sets.iter().position(|of_item| {
                2 * shared(of_item) > of_item.len() || 2 * shared(of_item) > own.len()
            });
            let text = words.join(", ");
            let found = by_article.judge(None, &text, &seen);
            prop_assert_eq!(found.map(|found| found.item()), covered);

            let most = sets.iter().map(shared).max().unwrap();
            let closest = sets.iter().position(|of_item| shared(of_item) == most && most > 0);
            let found = by_ngram.judge(None, &text, &also_seen);
            prop_assert_eq!(found.as_ref().map(Contamination::item), closest);
            if let Some(shared) = found.as_ref().and_then(Contamination::shared) {
                prop_assert_eq!((shared.shared, shared.document_ngrams), (most, own.len()));
            }
        }

        let corpus: HashSet<String> = documents.iter().flat_map(|words| grams(words)).collect();
        let of_test: HashSet<String> = sets.iter().flatten().cloned().collect();
        let positions = items.iter().flat_map(|words| words.windows(2).map(|pair| pair.join(" ")));
        let (held, missing): (Vec<_>, Vec<_>) = positions.partition(|gram| corpus.contains(gram));
        for overlap in [by_article.overlap(&seen), by_ngram.overlap(&also_seen)] {
            let found = &overlap[0].test_sets[0];
            prop_assert_eq!(found.distinct_ngrams as usize, of_test.len());
            prop_assert_eq!(
                found.matched_distinct_ngrams as usize,
                of_test.intersection(&corpus).count()
            );
            prop_assert_eq!(found.ngrams as usize, held.len() + missing.len());
            prop_assert_eq!(found.matched_ngrams as usize, held.len());
        }
    }
}
