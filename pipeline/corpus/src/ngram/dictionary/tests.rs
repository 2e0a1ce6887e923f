use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::search::WINDOW_WORDS;
use super::*;

/// What a search finds: the size, the words and where they begin, in text order by size.
fn found(dictionary: &[NGramDictionary], text: &str) -> Vec<(usize, String, usize)> {
    let mut window = NGramWindow::default();
    let mut found = Vec::new();
    let words = NGramDictionary::search(dictionary, text, &mut window, |at, it| {
        assert_eq!(at, 0);
        let words = NormalizedText::new(&text[it.span.clone()]).joined().to_owned();
        found.push((it.size, words, it.span.start, it.number));
    });
    assert_eq!(words as usize, NormalizedText::new(text).num_words());
    // A number stands for one n-gram and no other.
    let mut numbers = HashMap::new();
    for (size, words, _, number) in &found {
        assert_eq!(numbers.entry((size, number)).or_insert(words), &words);
    }
    let distinct: BTreeSet<_> = found.iter().map(|it| (it.0, &it.1)).collect();
    assert_eq!(distinct.len(), numbers.len());
    found.sort();
    found.into_iter().map(|(size, words, start, _)| (size, words, start)).collect()
}

/// The same by the definition.
fn plainly_found(sizes: &[usize], texts: &[String], text: &str) -> Vec<(usize, String, usize)> {
    let ngrams = |text: &str, size: usize| -> Vec<(String, usize)> {
        let normalized = NormalizedText::new(text);
        let spans = normalized.ngrams(size).map(|ngram| ngram.span);
        spans
            .map(|span| (NormalizedText::new(&text[span.clone()]).joined().to_owned(), span.start))
            .collect()
    };
    let mut found = Vec::new();
    for (place, &size) in sizes.iter().enumerate() {
        let known: BTreeSet<String> =
            texts.iter().flat_map(|text| ngrams(text, size)).map(|(words, _)| words).collect();
        let held = ngrams(text, size).into_iter().filter(|(words, _)| known.contains(words));
        found.extend(held.map(|(words, start)| (place, words, start)));
    }
    found.sort();
    found
}

#[test]
fn numbers_stand_for_distinct_ngrams_and_end_with_their_text() {
    let texts = ["a b a b", "A, b! c"];
    let dictionary = NGramDictionary::new(&[2, 3], texts.into_iter());
    assert_eq!(dictionary.sizes().collect::<Vec<_>>(), [2, 3]);
    assert_eq!(dictionary.texts(), [0..4, 4..7]);
    assert_eq!((dictionary.num_distinct(0), dictionary.num_distinct(1)), (3, 3));
    let numbers: Vec<_> = dictionary.numbers(0, 0..7).collect();
    assert_eq!(numbers[0], numbers[2]);
    assert_eq!(numbers[0], numbers[4], "the same words in another text");
    assert_eq!([numbers[3], numbers[6]], [None, None], "no word is left in the text");
    let distinct: BTreeSet<_> = numbers.iter().flatten().collect();
    assert_eq!(distinct.len(), 3);
    assert_eq!(dictionary.numbers(1, 2..6).collect::<Vec<_>>()[..2], [None, None]);
}

#[test]
fn a_text_of_many_windows_is_searched_without_a_seam() {
    let long: Vec<String> = (0..3 * WINDOW_WORDS).map(|n| format!("w{}", n % 4999)).collect();
    let test = long[WINDOW_WORDS - 20..WINDOW_WORDS + 40].join(" ");
    let sizes = [5, 8, 13];
    let dictionary = [NGramDictionary::new(&sizes, [test.as_str()].into_iter())];
    let text = long.join("\n");
    let found = found(&dictionary, &text);
    assert_eq!(found, plainly_found(&sizes, &[test], &text));
    assert_eq!(found.len(), (56 + 53 + 48));
}

proptest! {
    /// Two words make nearly every n-gram stand often; two bits of each hash make most n-grams
    /// share theirs with others.
    #[test]
    fn what_is_found_is_what_stands_there_whatever_the_hashes(
        texts in prop::collection::vec("([abAB]|K|\u{212a}|é|[ ,.]){0,40}", 1..4),
        text in "([abAB]|k|\u{212a}|\u{130}|[ ,.]){0,80}",
        equal_hashes in any::<bool>(),
        sizes in prop::sample::subsequence(vec![1, 2, 3, 5], 1..4),
    ) {
        let mask = if equal_hashes { 3 << 62 } else { u64::MAX };
        let borrowed = texts.iter().map(String::as_str);
        let dictionary = [NGramDictionary::with_mask(&sizes, borrowed, mask)];
        prop_assert_eq!(found(&dictionary, &text), plainly_found(&sizes, &texts, &text));
        for of_itself in &texts {
            let expected = plainly_found(&sizes, &texts, of_itself);
            prop_assert_eq!(found(&dictionary, of_itself), expected);
        }
    }
}
