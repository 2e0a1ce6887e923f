//! Pairs of sentences: which sentences make a sample, and what becomes of them.

mod map;
mod masks;
mod road;
mod run;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use corpus::Silent;
use corpus::shard::{ShardReader, ShardWriter};
use corpus::tokenizer::{MaskedVocabulary, open};
use training::data::{
    MaskedLmConfig, Masking, PairRecipe, SampleOrder, SentencePairs, TokenStream,
};
use training::parallel::random::KeyedUniform;

/// The built-in vocabulary of BERT.
static VOCABULARY: LazyLock<Arc<MaskedVocabulary>> =
    LazyLock::new(|| Arc::new(open("bert").unwrap().masked_vocabulary().unwrap()));

fn masking(config: MaskedLmConfig) -> Arc<Masking> {
    Arc::new(Masking::new(&config, VOCABULARY.clone()))
}

fn recipe(seq_length: usize) -> PairRecipe {
    let config = MaskedLmConfig::default();
    PairRecipe { seq_length, short_seq_prob: config.short_seq_prob, masking: masking(config) }
}

/// A shard of documents of sentences.
fn shard(folder: &Path, name: &str, documents: &[Vec<Vec<u32>>]) -> Arc<ShardReader> {
    let stem = folder.join(name);
    let mut writer = ShardWriter::create(&stem, 30_522).unwrap();
    for document in documents {
        document.iter().for_each(|sentence| writer.push_sequence(sentence).unwrap());
        writer.end_document().unwrap();
    }
    writer.finish().unwrap();
    Arc::new(ShardReader::open(&stem).unwrap())
}

/// `count` documents of 1 to 16 sentences of 4 to 40 tokens, a quarter of which go on with a word.
fn documents(seed: u64, count: u64) -> Vec<Vec<Vec<u32>>> {
    let continuing: Vec<u32> =
        (1_000..30_522).filter(|&id| VOCABULARY.continues_word(id)).collect();
    let (mut place, draws) = (0, KeyedUniform::new(seed, 0));
    let mut below = |end: usize| {
        place += 1;
        (draws.at(place) * end as f64) as usize
    };
    let mut sentence = || {
        let tokens = (0..4 + below(37)).map(|place| match below(4) {
            0 if place > 0 => continuing[below(continuing.len())],
            _ => 1_996 + below(1_000) as u32, // whole words all
        });
        tokens.collect::<Vec<_>>()
    };
    let mut lengths = KeyedLengths::new(seed);
    (0..count).map(|_| (0..lengths.next()).map(|_| sentence()).collect()).collect()
}

/// Numbers of sentences.
struct KeyedLengths(KeyedUniform, u64);

impl KeyedLengths {
    fn new(seed: u64) -> Self {
        Self(KeyedUniform::new(seed, 1), 0)
    }

    fn next(&mut self) -> usize {
        self.1 += 1;
        1 + (self.0.at(self.1) * 16.0) as usize
    }
}

fn pairs(shard: &Arc<ShardReader>, seq_length: usize) -> SentencePairs {
    let stream = TokenStream::new(shard, 0..shard.num_documents());
    let order = SampleOrder::Keyed;
    SentencePairs::new(stream, &recipe(seq_length), order, 0, 1234, &Silent).unwrap()
}
