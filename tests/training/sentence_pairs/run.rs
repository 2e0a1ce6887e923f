//! Pairs in the order of a run: batches, layouts, going on, and held-out samples.

use std::collections::HashSet;
use std::fs;

use corpus::{DataFolder, Silent, TokenizerIdentity, tokenizer};
use training::data::{
    Batch, BatchSampler, Blend, DataPart, MaskedLmConfig, OrderedSamples, Part, PartRequest,
    SampleForm, SampleOrder, Samples, SentencePairs, SourceSamples, SplitWeights, TokenStream,
};

use super::{documents, pairs, recipe, shard};
use crate::support::{Dir, pipeline_in};

fn ordered(seed: u64, order: SampleOrder) -> (tempfile::TempDir, OrderedSamples) {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("one", 40), ("two", 90)].map(|(name, count)| {
        let shard = shard(folder.path(), name, &documents(count, count));
        let stream = TokenStream::new(&shard, 0..count);
        let pairs = SentencePairs::new(stream, &recipe(64), order, 300, 1234, &Silent).unwrap();
        SourceSamples::SentencePairs(pairs)
    });
    let blend = Blend::new(&[(0.25, vec![1.0]), (0.75, vec![1.0])], 400, &Silent).unwrap();
    (folder, OrderedSamples::blended(Samples::of_sources(sources.to_vec()), order, seed, blend))
}

fn sampler(samples: &OrderedSamples, micro_batch_size: usize) -> BatchSampler {
    BatchSampler { samples: samples.clone(), micro_batch_size, global_batch_size: 12 }
}

/// The rows of batches put together.
fn joined(batches: impl Iterator<Item = Batch>) -> (Vec<u32>, Vec<u32>, Vec<f32>, Vec<u32>) {
    let (mut tokens, mut targets, mut weights, mut labels) = (vec![], vec![], vec![], vec![]);
    for batch in batches {
        let segments = batch.segments.unwrap();
        assert_eq!(segments.lengths.len(), batch.num_samples);
        tokens.extend(batch.tokens);
        targets.extend(batch.targets);
        weights.extend(batch.loss_weights);
        labels.extend(segments.labels);
    }
    (tokens, targets, weights, labels)
}

#[test]
fn layouts_see_the_same_samples_with_weights_that_add_up() {
    for order in [SampleOrder::Keyed, SampleOrder::Sequential, SampleOrder::Megatron] {
        let (_folder, samples) = ordered(7, order);
        for position in [0, 36, 240] {
            let whole =
                joined(sampler(&samples, 12).global_batch(position, 0..12).map(Result::unwrap));
            for (micro, share) in [(1, 12), (4, 12), (2, 6), (3, 3)] {
                let parts = (0..12).step_by(share).flat_map(|first| {
                    let sampler = sampler(&samples, micro);
                    let places = first..first + share as u64;
                    let batches: Vec<_> =
                        sampler.global_batch(position, places).map(Result::unwrap).collect();
                    batches
                });
                assert_eq!(joined(parts), whole, "{order:?}, {micro} of {share}");
            }
            let (_, _, weights, _) = &whole;
            let predicted = weights.iter().filter(|&&weight| weight > 0.0).count();
            assert!(weights.iter().all(|&it| it == 0.0 || it == 1.0 / predicted as f32));
            assert!(predicted > 12);
        }
    }
}

#[test]
fn choices_belong_to_the_place_in_the_run_and_its_seed() {
    let (_folder, samples) = ordered(7, SampleOrder::Keyed);
    // The same sample at the same place, whoever asks and when; at another place it is masked anew.
    let fresh = ordered(7, SampleOrder::Keyed).1;
    assert_eq!(samples.pair(5, 77).unwrap(), fresh.pair(5, 77).unwrap());
    let at_other_places: HashSet<Vec<u32>> =
        (0..20).map(|place| samples.pair(5, place).unwrap().tokens).collect();
    assert!(at_other_places.len() > 15);
    let other_seed = ordered(8, SampleOrder::Keyed).1;
    assert_ne!(samples.pair(5, 77).unwrap(), other_seed.pair(5, 77).unwrap());
    // Held-out samples are chosen alike under any seed.
    let (one, other) = (samples.held_out(), other_seed.held_out());
    assert_eq!(one.pair(5, 77).unwrap(), other.pair(5, 77).unwrap());
}

#[test]
fn an_epoch_visits_every_pair_once() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = pairs(&shard(folder.path(), "pairs", &documents(2, 60)), 64);
    let per_epoch = pairs.per_epoch();
    let samples = Samples::of_sources(vec![SourceSamples::SentencePairs(pairs)]);
    let ordered = OrderedSamples::new(samples, SampleOrder::Keyed, 5);
    let epochs: Vec<Vec<u64>> = (0..2)
        .map(|epoch| ordered.ids(epoch * per_epoch..(epoch + 1) * per_epoch).collect())
        .collect();
    assert_ne!(epochs[0], epochs[1]);
    for mut epoch in epochs {
        epoch.sort_unstable();
        assert!(epoch.into_iter().eq(0..per_epoch));
    }
}

const TEXTS: &str =
    "One sentence of the text. A second one follows it! Is there a third? Yes, there is.";

/// A data folder of sentences, made of texts by the program.
fn workplace(texts: usize) -> Dir {
    let dir = Dir::new();
    let texts: Vec<String> =
        (0..texts).map(|number| format!("Text {number} begins. {TEXTS}")).collect();
    dir.write("in.jsonl", crate::support::jsonl(&texts));
    dir
}

fn bert() -> TokenizerIdentity {
    TokenizerIdentity::of(&*tokenizer::open("bert").unwrap())
}

fn open(dir: &Dir, data: &str, part: Part, form: SampleForm) -> Result<DataPart, String> {
    let (split, tokenizer) = ("80,20,0".parse::<SplitWeights>().unwrap(), bert());
    let request = PartRequest { part, split: &split, form, seq_length: 32, tokenizer: &tokenizer };
    DataPart::open(&dir.path(data), &request, &Silent).map_err(|error| error.to_string())
}

#[test]
fn held_out_pairs_of_a_data_folder_are_scored_with_weight_one() {
    let dir = workplace(20);
    pipeline_in(&dir, "shard from-text in.jsonl --out data --tokenizer bert").success();
    let form = SampleForm::SentencePairs(MaskedLmConfig::default());
    let part = open(&dir, "data", Part::Validation, form).unwrap();
    assert_eq!((part.num_documents(), part.skipped().unwrap().total()), (4, 0));
    let count = part.num_samples();
    let batch = part.pairs(0..count).unwrap();
    let scored = batch.loss_weights.iter().filter(|&&weight| weight == 1.0).count() as u64;
    assert_eq!(part.scored_targets(0..count).unwrap(), scored);
    assert!(scored > 0 && batch.loss_weights.iter().all(|weight| [0.0, 1.0].contains(weight)));
    let halves = [part.pairs(0..2).unwrap(), part.pairs(2..count).unwrap()];
    assert_eq!(halves.map(|half| half.tokens).concat(), batch.tokens);
    assert_eq!(batch.segments.unwrap().label_weights, vec![1.0; count as usize]);
}

#[test]
fn data_of_another_form_is_refused_with_what_to_do() {
    let dir = workplace(20);
    for tokenizer in ["bert", "gpt2"] {
        let line = format!("shard from-text in.jsonl --out {tokenizer} --tokenizer {tokenizer}");
        pipeline_in(&dir, &line).success();
    }
    pipeline_in(
        &dir,
        "shard from-text in.jsonl --out whole --tokenizer bert --set sequences=documents",
    )
    .success();
    let masked = SampleForm::SentencePairs(MaskedLmConfig::default());
    let error = open(&dir, "bert", Part::Train, SampleForm::Windows).unwrap_err();
    assert!(error.contains("its sequences are sentences, for BERT"), "{error}");
    let error = open(&dir, "whole", Part::Train, masked).unwrap_err();
    assert!(
        error.contains("make it of the text again, with `pipeline dedup --tokenizer bert`"),
        "{error}"
    );
    // Without a manifest, the shard itself tells.
    for (from, to) in [("whole", "foreign"), ("bert", "sentences")] {
        for extension in ["bin", "idx"] {
            let file = dir.path(&format!("{from}/corpus.{extension}"));
            fs::copy(file, dir.path(&format!("{to}.{extension}"))).unwrap();
        }
    }
    let error = open(&dir, "foreign", Part::Train, masked).unwrap_err();
    assert!(error.contains("each of its documents is one sequence"), "{error}");
    assert!(open(&dir, "sentences", Part::Train, masked).is_ok());
    let gpt2 = TokenizerIdentity::of(&*tokenizer::open("gpt2").unwrap());
    let split = SplitWeights::default();
    let request = PartRequest {
        part: Part::Train,
        split: &split,
        form: masked,
        seq_length: 32,
        tokenizer: &gpt2,
    };
    let error = DataPart::open(&dir.path("sentences"), &request, &Silent).unwrap_err().to_string();
    assert!(error.contains("tokenizer gpt2: has no [CLS], [SEP], [MASK]"), "{error}");
}

#[test]
fn part_without_a_pair_is_refused_with_the_counts() {
    let dir = Dir::new();
    let texts: Vec<String> =
        (0..10).map(|number| format!("One sentence, number {number}.")).collect();
    dir.write("in.jsonl", crate::support::jsonl(&texts));
    pipeline_in(&dir, "shard from-text in.jsonl --out data --tokenizer bert").success();
    assert_eq!(DataFolder::open(&dir.path("data")).unwrap().manifest().sentences, Some(10));
    let form = SampleForm::SentencePairs(MaskedLmConfig::default());
    let error = open(&dir, "data", Part::Train, form).unwrap_err();
    // A folder of one-sentence documents is one of sentences all the same.
    let expected =
        "of its 8 documents by the split \"80,20,0\", 8 have fewer than two sentences, and 0";
    assert!(error.contains(expected), "{error}");
}
