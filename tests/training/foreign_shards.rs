//! Shards that other stacks wrote: trained on as they are, and refused where they do not fit.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use corpus::shard::ShardReader;
use corpus::{DataFolder, Silent};
use training::data::{MegatronIndex, Samples, TokenStream};

use crate::support::{Dir, Run, pipeline_in, sparse_shard};

/// A model of one layer on sequences of 16 tokens, for three steps.
const TRAIN: &str = "\
[model.gpt2]
num_layers = 1
hidden_size = 16
num_attention_heads = 2
seq_length = 16

[batch]
micro_batch_size = 1
global_batch_size = 2

[optimizer]
lr = 1e-3

[schedule]
train_steps = 3
warmup_steps = 1

[data]
split = \"90,10,0\"
";

/// A folder with a configuration and the shards of the fixtures.
fn workplace() -> Dir {
    let dir = Dir::new();
    dir.write("train.toml", TRAIN);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/indexed");
    for name in ["gpt2_u16", "gpt2_i32", "bert_u16"] {
        for extension in ["bin", "idx"] {
            let file = format!("{name}.{extension}");
            dir.write(&file, fs::read(fixtures.join(&file)).unwrap());
        }
    }
    dir
}

fn train(dir: &Dir, data: &str, more: &str) -> Run {
    let line = format!("train --config train.toml --data {data} {more} --out run --overwrite");
    pipeline_in(dir, &line)
}

const GPT2: &str = "--set data.tokenizer=gpt2";

#[test]
fn shards_of_megatron_core_train_as_they_are() {
    let dir = workplace();
    let mut losses = Vec::new();
    for data in ["gpt2_u16", "gpt2_u16.bin", "gpt2_u16.idx", "gpt2_i32"] {
        let report = train(&dir, data, &format!("{GPT2} --json")).success().json();
        assert_eq!(report["steps"], 3, "{data}");
        losses.push(report["final_loss"].as_f64().unwrap());
    }
    assert!(losses.iter().all(|&loss| loss == losses[0]), "the same tokens: {losses:?}");
    for order in ["megatron", "sequential"] {
        train(&dir, "gpt2_u16", &format!("{GPT2} --set data.order={order}")).success();
    }
    // Ids of BERT's vocabulary are GPT-2 tokens too; 75 sentences are 17 documents.
    train(&dir, "bert_u16", GPT2).success();
}

#[test]
fn shards_and_data_folders_are_blended() {
    let dir = workplace();
    let texts: Vec<String> = (0..6).map(|seed| crate::support::words(seed, 300)).collect();
    dir.write("in.jsonl", crate::support::jsonl(&texts));
    pipeline_in(&dir, "dedup in.jsonl --out data").success();
    let run = train(&dir, "data:0.25", &format!("--data gpt2_i32:0.75 {GPT2} --dry-run --json"));
    let sources = run.success().json()["sources"].clone();
    assert_eq!(sources[1]["source"], "gpt2_i32");
    assert_eq!(sources[1]["weight"], 0.75);
    train(&dir, "data:0.25", &format!("--data gpt2_i32:0.75 {GPT2}")).success();
    // The folder's tokenizer does not speak for the shard.
    train(&dir, "data:0.25", "--data gpt2_i32:0.75").refused(2, "does not say which tokenizer");
    train(&dir, "data/corpus", GPT2).refused(2, "give the folder, data");
}

#[test]
fn shard_without_a_tokenizer_is_refused_with_what_is_missing() {
    let dir = workplace();
    train(&dir, "gpt2_u16", "").refused(
        2,
        "--data gpt2_u16: a shard without a manifest does not say which tokenizer made it; \
         set data.tokenizer to gpt2, bert or its tokenizer.json, as in --set data.tokenizer=gpt2",
    );
    train(&dir, "gpt2_u16", "--set data.tokenizer=gpt3").refused(2, "tokenizer gpt3: no such name");
    let run = train(&dir, ".", GPT2).refused(2, "--data .: no data folder there");
    assert!(run.stderr.contains("it holds shards: give each by its path"), "{}", run.stderr);
    train(&dir, "gpt2", GPT2).refused(2, "--data gpt2: no data folder there");
}

#[test]
fn token_outside_the_vocabulary_is_named_with_its_place() {
    let dir = workplace();
    let mut bytes = fs::read(dir.path("gpt2_i32.bin")).unwrap();
    // Sequences 0 to 2 have 40, 22 and 5 tokens.
    bytes[4 * (40 + 22 + 3)..][..4].copy_from_slice(&50_257_i32.to_le_bytes());
    dir.write("gpt2_i32.bin", bytes);
    train(&dir, "gpt2_i32", GPT2).refused(
        2,
        "gpt2_i32.bin: token 3 of sequence 2 is 50257: expected 0 to 50256, the vocabulary that \
         the data is said to have",
    );
    train(&dir, "gpt2_u16", &format!("{GPT2} --set model.gpt2.vocab_size=128")).refused(
        2,
        "vocab_size = 128, but the tokenizer of gpt2_u16 has 50257 tokens; leave vocab_size out",
    );
}

#[test]
fn broken_shards_are_refused_by_file() {
    let dir = workplace();
    let index = fs::read(dir.path("gpt2_u16.idx")).unwrap();
    let data = fs::read(dir.path("gpt2_u16.bin")).unwrap();
    let with_index = |bytes: &[u8]| {
        dir.write("gpt2_u16.idx", bytes);
        train(&dir, "gpt2_u16", GPT2)
    };
    with_index(&index[..index.len() - 1])
        .refused(2, "gpt2_u16.idx: index of 501 bytes: expected 502 for 23 sequences");
    with_index(b"").refused(2, "gpt2_u16.idx: index of 0 bytes: expected at least 34");
    let mut legacy = index.clone();
    legacy[..8].copy_from_slice(b"TNTIDX\0\0");
    with_index(&legacy).refused(2, "gpt2_u16.idx: index in the legacy TNTIDX format");
    for code in [6, 7] {
        let mut floats = index.clone();
        floats[17] = code;
        with_index(&floats).refused(2, "is floating-point: expected an integer format");
    }
    let mut flipped = index.clone();
    flipped[34] ^= 1;
    with_index(&flipped).refused(2, "gpt2_u16.idx: sequence 1 begins at byte 80");
    dir.write("gpt2_u16.idx", &index);
    dir.write("gpt2_u16.bin", &data[..data.len() - 2]);
    train(&dir, "gpt2_u16", GPT2).refused(2, "gpt2_u16.bin: data of 1108 bytes: expected 1110");
    fs::remove_file(dir.path("gpt2_u16.bin")).unwrap();
    train(&dir, "gpt2_u16", GPT2).refused(2, "gpt2_u16.bin: missing");
}

#[test]
fn shard_is_known_again_by_its_content() {
    let dir = workplace();
    let resumed = |data: &str| {
        let line = format!("train --config train.toml --data {data} {GPT2} --out run");
        pipeline_in(&dir, &line)
    };
    resumed("gpt2_u16").success();
    for extension in ["bin", "idx"] {
        let [from, to] = ["gpt2_u16", "moved"].map(|name| dir.path(&format!("{name}.{extension}")));
        fs::rename(from, to).unwrap();
    }
    let again = resumed("moved").success();
    assert!(again.stderr.contains("already at step 3 of 3"), "{}", again.stderr);
    let mut bytes = fs::read(dir.path("moved.bin")).unwrap();
    bytes[0] ^= 1;
    dir.write("moved.bin", bytes);
    resumed("moved").refused(2, "of other content");
}

#[test]
fn documents_of_several_sequences_are_whole() {
    let dir = workplace();
    let shard = Arc::new(ShardReader::open(&dir.path("bert_u16")).unwrap());
    let stream = TokenStream::new(&shard, 0..shard.num_documents());
    assert_eq!((stream.num_documents(), stream.num_tokens()), (17, 1_775));
    // The first document is sentences 0 to 2, of 14, 28 and 5 tokens.
    assert_eq!(stream.document_tokens(0), 0..47);
    let mut first = vec![0; 47];
    stream.read(0, &mut first).unwrap();
    assert_eq!(first, shard.document(0).unwrap());
    // The index of the original implementation goes through documents, too.
    let index = MegatronIndex::build(&stream, 50, 30, 1, None, &Silent).unwrap();
    let mut tokens = Vec::new();
    index.read(&stream, 0, &mut tokens).unwrap();
    let document = shard.document(index.document_at(0)).unwrap();
    let shared = document.len().min(51);
    assert_eq!(tokens[..shared], document[..shared]);
}

#[test]
fn tokens_past_32_bits_are_found() {
    let dir = Dir::new();
    let stem = dir.path("sparse");
    // 6 GiB and 5 tokens, of which the file holds some.
    let lengths = [i32::MAX, i32::MAX, i32::MAX, 3, 5];
    let total = sparse_shard(&stem, &lengths);
    assert!(total > 1 << 32);
    let shard = Arc::new(ShardReader::open(&stem).unwrap());
    let samples = Samples::new(&shard, 0..5, 4);
    assert_eq!(samples.len(), (total - 1) / 4);
    let mut tokens = Vec::new();
    samples.read(samples.len() - 1, &mut tokens).unwrap();
    let end = (samples.len() * 4 + 1) as usize - total as usize + 5;
    assert_eq!(tokens[5 - end..], [1, 2, 3, 4, 5][..end]);

    // Megatron-LM's index over them: the last document is where the sums say.
    let stream = TokenStream::new(&shard, 0..5);
    let index = MegatronIndex::build(&stream, 1 << 20, 10_000, 1, None, &Silent).unwrap();
    assert_eq!(index.epochs(), 2);
    let length = |entry| {
        let tokens = stream.document_tokens(index.document_at(entry));
        tokens.end - tokens.start
    };
    for sample in [0, 1, 4_095, 4_096, 6_145, index.num_samples() - 1, index.num_samples()] {
        let (entry, offset) = index.row(&stream, sample);
        assert!(offset < length(entry));
        let before: u64 = (0..entry).map(length).sum();
        assert_eq!(before + offset, sample << 20, "sample {sample}");
    }
    assert!(index.num_samples() << 20 > 1 << 33);
}

#[test]
fn joined_documents_read_on_from_shard_to_shard() {
    let dir = Dir::new();
    let folder = |name: &str, documents: &[Vec<u32>]| {
        let path = super::data_folder(&dir.path(name), 101, documents);
        Arc::new(DataFolder::open(&path).unwrap().shard().unwrap())
    };
    let first = folder("first", &[vec![1, 2], vec![3], vec![4, 5, 6]]);
    let second = folder("second", &[vec![7], vec![8, 9]]);
    let joined = TokenStream::join([
        TokenStream::new(&first, 2..3),
        TokenStream::new(&first, 0..0),
        TokenStream::new(&second, 0..2),
        TokenStream::new(&first, 0..1),
    ]);
    let all = [4, 5, 6, 100, 7, 100, 8, 9, 100, 1, 2, 100];
    assert_eq!((joined.num_documents(), joined.num_tokens()), (4, 12));
    for begin in 0..=12 {
        for end in begin..=12 {
            let mut tokens = vec![0; end - begin];
            joined.read(begin as u64, &mut tokens).unwrap();
            assert_eq!(tokens, all[begin..end]);
        }
    }
    let places: Vec<_> = (0..4).map(|document| joined.document_tokens(document)).collect();
    assert_eq!(places, [0..4, 4..6, 6..9, 9..12]);
    let part = joined.part(&(1..3));
    assert_eq!((part.num_documents(), part.num_tokens()), (2, 5));
    let mut tokens = vec![0; 5];
    part.read(0, &mut tokens).unwrap();
    assert_eq!(tokens, all[4..9]);
    assert_eq!(joined.part(&(2..2)).num_tokens(), 0);
}
