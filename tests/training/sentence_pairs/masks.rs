//! The rules of masking, by their statistics over 100,000 sentences and sample by sample.

use std::ops::Range;

use training::data::{DrawKey, KeyedDraws, MaskedLmConfig, PairSample};

use super::{VOCABULARY, documents, masking, pairs, recipe, shard};

/// The words of a sample by the plain rule: a token that goes on belongs to the one before it.
fn words(sample: &PairSample) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for place in 1..sample.length - 1 {
        if place == sample.second_segment - 1 {
            continue; // [SEP]
        }
        let begins = !VOCABULARY.continues_word(sample.targets[place])
            || place == 1
            || place == sample.second_segment;
        if begins { words.push(place..place + 1) } else { words.last_mut().unwrap().end += 1 }
    }
    words
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() < tolerance, "{what}: {found}, not {expected}");
}

#[test]
fn statistics_of_100_000_sentences_are_those_of_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let texts = documents(1, 12_500);
    assert!(texts.iter().map(Vec::len).sum::<usize>() > 100_000);
    let shard = shard(folder.path(), "pairs", &texts);
    let pairs = pairs(&shard, 128);
    let recipe = recipe(128);
    let (mut budget, mut predicted, mut real) = (0, 0, 0);
    let (mut masked, mut kept, mut other) = (0, 0, 0);
    let (mut swapped, mut full, mut full_predicted) = (0, 0, 0);
    for sample in 0..pairs.len() {
        let pair = pairs.read(sample, DrawKey::Run(7), sample).unwrap();
        let target = pairs.map().pair(sample).target_length;
        let most = recipe.masking.budget(pair.length, target);
        assert!(pair.predicted.len() <= most, "never over the budget");
        assert!(pair.predicted.is_sorted_by(|one, next| one < next));
        for word in words(&pair) {
            let taken = word.clone().filter(|place| pair.predicted.contains(place)).count();
            assert!(taken == 0 || taken == word.len(), "whole words only");
        }
        for place in 0..pair.length {
            if !pair.predicted.contains(&place) {
                assert_eq!(pair.tokens[place], pair.targets[place]);
                continue;
            }
            assert!(![VOCABULARY.cls, VOCABULARY.sep].contains(&pair.targets[place]));
            match pair.tokens[place] {
                token if token == VOCABULARY.mask => masked += 1,
                token if token == pair.targets[place] => kept += 1,
                _ => other += 1,
            }
        }
        budget += most;
        predicted += pair.predicted.len();
        real += pair.length;
        swapped += usize::from(pair.is_swapped);
        if target == 125 {
            full += pair.length;
            full_predicted += pair.predicted.len();
        }
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    // Some 150,000 predicted tokens: a share of 0.8 is off by 0.001 in a standard deviation.
    assert!(predicted > 100_000, "{predicted}");
    assert_near(share(masked, predicted), 0.8, 0.005, "[MASK]");
    assert_near(share(kept, predicted), 0.1, 0.004, "kept");
    assert_near(share(other, predicted), 0.1, 0.004, "another token");
    assert!(share(predicted, budget) > 0.99, "{predicted} of {budget}");
    // 15%, less what is cut from 0.15 · 125 = 18.75 where a sample is full: 18 of 128 are 14.1%.
    assert_near(share(full_predicted, full), 0.145, 0.005, "share of full samples");
    assert!(share(predicted, real) < 0.15);
    assert_near(share(swapped, pairs.len() as usize), 0.5, 0.02, "swapped");
}

#[test]
fn ngrams_are_drawn_in_proportion_to_one_over_their_words() {
    let masking = masking(MaskedLmConfig::default());
    let words: Vec<_> = (0..300).map(|place| place..place + 1).collect();
    let mut counts = [0_usize; 3];
    for sample in 0..30_000 {
        let mut draws = KeyedDraws::new(DrawKey::Run(3), sample);
        // The first that is taken is as drawn: nothing is covered yet, and all fit.
        let first = masking.choose(&words, 40, &mut draws).swap_remove(0);
        if first.end < words.len() {
            counts[first.len() - 1] += 1;
        }
    }
    let total: usize = counts.iter().sum();
    for (words, &count) in (1..).zip(&counts) {
        let expected = 1.0 / f64::from(words) / (1.0 + 0.5 + 1.0 / 3.0);
        assert_near(count as f64 / total as f64, expected, 0.015, "n-grams");
    }
    let single = super::masking(MaskedLmConfig { max_ngram: 1, ..MaskedLmConfig::default() });
    let chosen = single.choose(&words, 40, &mut KeyedDraws::new(DrawKey::Run(3), 0));
    assert!(chosen.len() == 40 && chosen.iter().all(|ngram| ngram.len() == 1));
}

#[test]
fn ngram_that_does_not_fit_is_shortened_or_left_out() {
    let masking = masking(MaskedLmConfig::default());
    for place in 0..200 {
        let draws = &mut KeyedDraws::new(DrawKey::Run(1), place);
        // Words of three tokens and one of one: of five tokens, one long word and the short one.
        let words: Vec<_> = [0..3, 3..6, 6..9, 9..10].to_vec();
        let chosen = masking.choose(&words, 5, draws);
        let tokens: usize =
            chosen.into_iter().flat_map(|ngram| words[ngram].to_vec()).map(|word| word.len()).sum();
        assert_eq!(tokens, 4);
        assert!(masking.choose(&words[..3], 2, draws).is_empty(), "no word fits");
        assert!(masking.choose(&words, 0, draws).is_empty());
    }
}

#[test]
fn samples_are_cut_swapped_and_truncated_by_the_rules() {
    let masking = masking(MaskedLmConfig::default());
    // Tokens tell their sentence and place: 2000 + 100·sentence + place.
    let lengths = [5, 9, 30, 2, 14];
    let sentences: Vec<Vec<u32>> = (0..)
        .zip(lengths)
        .map(|(sentence, length)| (0..length).map(|place| 2_000 + 100 * sentence + place).collect())
        .collect();
    let tokens: Vec<u32> = sentences.concat();
    let ends: Vec<usize> = lengths
        .iter()
        .scan(0, |end, &length| {
            *end += length as usize;
            Some(*end)
        })
        .collect();
    let mut cuts = [0; 5];
    for place in 0..2_000 {
        let draws = &mut KeyedDraws::new(DrawKey::Run(9), place);
        let target = if place % 2 == 0 { 60 } else { 21 };
        let pair = PairSample::new(&tokens, &ends, target, 64, &masking, draws);
        let (a, b) = (
            &pair.targets[1..pair.second_segment - 1],
            &pair.targets[pair.second_segment..pair.length - 1],
        );
        assert_eq!(pair.targets[0], VOCABULARY.cls);
        assert_eq!(pair.targets[pair.second_segment - 1], VOCABULARY.sep);
        assert_eq!(pair.targets[pair.length - 1], VOCABULARY.sep);
        assert!(pair.targets[pair.length..].iter().all(|&token| token == VOCABULARY.pad));
        assert_eq!(a.len() + b.len(), target.min(60));
        let (first, second) = if pair.is_swapped { (b, a) } else { (a, b) };
        // Each segment is a run of the text, and the first lies before the second.
        let at = |token: u32| tokens.iter().position(|&other| other == token).unwrap();
        for segment in [first, second] {
            assert_eq!(tokens[at(segment[0])..][..segment.len()], *segment);
        }
        let cut = (second[0] - 2_000) / 100;
        assert!((first[first.len() - 1] - 2_000) / 100 < cut && cut >= 1);
        if target == 60 {
            assert_eq!(second[0] % 100, 0, "a segment begins with a sentence");
            cuts[cut as usize] += 1;
        } else {
            // The longer one was cut until they were alike, or one token apart; a segment that was
            // shorter than half from the start is whole.
            let short = if a.len() < b.len() { a } else { b };
            let last = short[short.len() - 1] - 2_000;
            let is_whole = short[0] % 100 == 0 && last % 100 + 1 == lengths[(last / 100) as usize];
            assert!(short.len() == 10 || (short.len() < 10 && is_whole));
        }
    }
    assert_eq!(cuts[0], 0);
    for cut in &cuts[1..] {
        assert!((200..300).contains(cut), "{cuts:?}: uniform over four cuts of 1,000 samples");
    }
}

#[test]
fn short_aims_leave_nothing_to_predict() {
    let masking = masking(MaskedLmConfig::default());
    assert_eq!(masking.budget(128, 125), 18);
    assert_eq!(masking.budget(103, 100), 15);
    assert_eq!([5, 9, 10].map(|length| masking.budget(length, length - 3)), [0, 0, 1]);
    // Half to even, as Python rounds: 0.15 · 30 = 4.5.
    assert_eq!(masking.budget(30, 125), 4);
    // A long aim, a short document: one token at least.
    assert_eq!(masking.budget(6, 125), 1);
    let draws = &mut KeyedDraws::new(DrawKey::Run(9), 0);
    let pair = PairSample::new(&[2_000; 9], &[4, 9], 2, 64, &masking, draws);
    assert_eq!((pair.length, pair.predicted.len()), (5, 0));
    assert_eq!(pair.tokens, pair.targets);
}
