//! Questions as samples.

use std::collections::BTreeSet;

use corpus::Silent;
use corpus::race::{RaceLevel, RaceRows, RaceSet, RaceSplit, clean_text};
use corpus::tokenizer::{Tokenizer, open};
use training::data::{
    BatchSampler, OrderedSamples, Questions, SampleOrder, Samples, SourceSamples,
};

use super::{BENCH, QUESTIONS};

const SEQ_LENGTH: usize = 14;

fn set() -> RaceSet {
    let race = BENCH.path("RACE");
    RaceSet::read(&race, RaceSplit::Train, &RaceLevel::ALL, &Silent).unwrap()
}

fn tokenizer() -> std::sync::Arc<dyn Tokenizer> {
    open(BENCH.path("tokenizer.json").to_str().unwrap()).unwrap()
}

fn questions(seq_length: usize) -> Questions {
    Questions::encode(&set(), &*tokenizer(), seq_length, &Silent).unwrap()
}

fn ordered(order: SampleOrder) -> OrderedSamples {
    let samples = Samples::of_sources(vec![SourceSamples::Questions(questions(SEQ_LENGTH))]);
    OrderedSamples::new(samples, order, 7)
}

#[test]
fn rows_of_a_question_are_those_of_its_texts() {
    let (set, tokenizer) = (set(), tokenizer());
    // One length for everything, and one that cuts the end of the article and keeps the question.
    for seq_length in [24, 10] {
        let encoded = questions(seq_length);
        assert_eq!(encoded.len(), QUESTIONS[0] as u64);
        let rows = RaceRows::new(&tokenizer.masked_vocabulary().unwrap(), seq_length);
        let encode = |text: &str| {
            let mut tokens = Vec::new();
            tokenizer.encode(&clean_text(text), &mut tokens).unwrap();
            tokens
        };
        let all = set
            .articles
            .iter()
            .flat_map(|article| article.questions.iter().map(move |question| (article, question)));
        for (number, (article, question)) in all.enumerate() {
            let sample = encoded.read(number as u64);
            assert_eq!(sample.answer as usize, question.answer);
            for (row, text) in sample.rows.iter().zip(question.answered()) {
                let expected = rows.row(&encode(&text), &encode(&article.text));
                assert_eq!(row, &expected);
                assert!(row.tokens.len() <= seq_length);
                assert_eq!(row.article_tokens_cut > 0, seq_length == 10, "{row:?}");
                assert_eq!(row.first_segment, encode(&text).len() + 2);
            }
        }
    }
}

#[test]
fn every_epoch_takes_each_question_once_in_an_order_of_its_own() {
    let samples = ordered(SampleOrder::Keyed);
    let count = QUESTIONS[0] as u64;
    let epochs = [0, 1].map(|epoch| samples.ids(epoch * count..(epoch + 1) * count));
    let epochs = epochs.map(Iterator::collect::<Vec<u64>>);
    for epoch in &epochs {
        assert_eq!(epoch.iter().copied().collect::<BTreeSet<_>>(), (0..count).collect());
    }
    assert_ne!(epochs[0], epochs[1]);
    let sequential: Vec<u64> = ordered(SampleOrder::Sequential).ids(0..count).collect();
    assert_eq!(sequential, (0..count).collect::<Vec<_>>());
}

#[test]
fn labels_weigh_alike_in_the_global_batch_whatever_the_micro_batch() {
    let sampler = |micro_batch_size| BatchSampler {
        samples: ordered(SampleOrder::Keyed),
        micro_batch_size,
        global_batch_size: 12,
    };
    let whole: Vec<_> = sampler(12).global_batch(24, 0..12).map(Result::unwrap).collect();
    let [whole] = &whole[..] else { panic!("one batch") };
    assert_eq!((whole.num_samples, whole.seq_length), (4 * 12, SEQ_LENGTH));
    let segments = whole.segments.as_ref().unwrap();
    assert_eq!(segments.labels.len(), 12);
    assert_eq!(segments.label_weights, [1.0 / 12.0; 12]);
    assert!(whole.loss_weights.iter().all(|&weight| weight == 0.0));
    for row in 0..whole.num_samples {
        let elements = row * SEQ_LENGTH..(row + 1) * SEQ_LENGTH;
        let (tokens, types) = (&whole.tokens[elements.clone()], &segments.token_types[elements]);
        let length = segments.lengths[row];
        assert_eq!((tokens[0], tokens[length - 1]), (2, 3), "[CLS] and [SEP]");
        assert!(tokens[length..].iter().chain(&types[length..]).all(|&it| it == 0), "padding");
        let first = tokens.iter().position(|&token| token == 3).unwrap() + 1;
        assert!(types[..first].iter().all(|&it| it == 0));
        assert!(types[first..length].iter().all(|&it| it == 1));
    }

    // Micro-batches of the copies' shares are the same rows, at the same places.
    let mut place = 0;
    for share in [0..6, 6..12] {
        for part in sampler(2).global_batch(24, share).map(Result::unwrap) {
            assert_eq!((part.num_samples, part.first_sample), (8, 4 * place));
            let rows = place * 4 * SEQ_LENGTH..(place + 2) * 4 * SEQ_LENGTH;
            assert_eq!(part.tokens, whole.tokens[rows]);
            let own = part.segments.unwrap();
            assert_eq!(own.labels, segments.labels[place..place + 2]);
            assert_eq!(own.label_weights, segments.label_weights[place..place + 2]);
            place += 2;
        }
    }
    assert_eq!(place, 12);
}
