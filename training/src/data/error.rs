//! What can be wrong with the data that a run is given, in the user's words.

use std::path::PathBuf;

use super::sentence_pairs::SkippedDocuments;

/// A reason why a run cannot be trained on the data it was given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Neither a data folder nor a shard.
    #[error(
        "--data {}: no data folder there, for it has no {}; {}",
        path.display(),
        corpus::MANIFEST,
        if *holds_shards {
            "it holds shards: give each by its path without .bin"
        } else {
            "make one with `pipeline dedup`, or give the path of a shard without .bin"
        }
    )]
    NoData {
        /// The path as it was given.
        path: PathBuf,
        /// Whether it is a folder with shards in it.
        holds_shards: bool,
    },

    /// The shard of a data folder, given without the folder.
    #[error(
        "--data {}: is the shard of a data folder, whose manifest says what it is: give the folder, \
         {}",
        path.display(),
        folder.display()
    )]
    ShardOfFolder {
        /// The path as it was given.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },

    /// One place given twice.
    #[error("--data {}: is given twice; give it once, with all its weight", path.display())]
    Twice {
        /// The path as it was given the second time.
        path: PathBuf,
    },

    /// A weight that is none.
    #[error("--data {written}: {weight} is no weight; it must be a finite number, 0 or more")]
    Weight {
        /// What was written.
        written: String,
        /// The weight in it.
        weight: f64,
    },

    /// A part of data whose sources have weights.
    #[error(
        "--data {}: its sources have weights, and its documents no one order in that mix; give a \
         folder without them, or one for each source",
        path.display()
    )]
    WeightedPart {
        /// The data folder.
        path: PathBuf,
    },

    /// A part of data without a whole sample.
    #[error(
        "--data {}: the {part} part has {documents} of {all_documents} documents by the split \
         \"{split}\", with {tokens} tokens; one sequence needs {needed_tokens}; choose another \
         --split, or other split_weights",
        path.display()
    )]
    PartTooSmall {
        /// The data folder or shard.
        path: PathBuf,
        /// The weights as they were written.
        split: String,
        /// Which part.
        part: &'static str,
        /// Documents of all parts.
        all_documents: u64,
        /// Documents of this one.
        documents: u64,
        /// Their tokens.
        tokens: u64,
        /// `seq_length + 1`.
        needed_tokens: u64,
    },

    /// Data of another tokenizer than the model's.
    #[error(
        "--data {}: made by the tokenizer {tokenizer} of {vocab_size} tokens, and the model's is \
         {model_tokenizer} of {model_vocab_size}; give data that this one made",
        path.display()
    )]
    ModelTokenizer {
        /// The data folder.
        path: PathBuf,
        /// Its tokenizer.
        tokenizer: String,
        /// Tokens of that.
        vocab_size: usize,
        /// The model's tokenizer.
        model_tokenizer: String,
        /// Tokens of that.
        model_vocab_size: usize,
    },

    /// All weights are 0.
    #[error("every --data has weight 0, so there is nothing to train on; give one of them more")]
    NoWeight,

    /// Data without a weight beside data with one.
    #[error(
        "--data {without} has no weight, and {with}; give every --data a weight, as in \
         {without}:0.5, or none"
    )]
    MissingWeight {
        /// What has none.
        without: String,
        /// What has one, as a clause: `--data a:0.5 has`.
        with: String,
    },

    /// The sources of a data folder do not agree on their weights.
    #[error(
        "{}: its source \"{source_name}\" has {problem}; curate it again with one weight for every \
         source, or the parts by themselves, each given as --data PART:WEIGHT",
        path.display()
    )]
    SourceWeights {
        /// The folder.
        path: PathBuf,
        /// The source.
        source_name: String,
        /// What is wrong with it.
        problem: String,
    },

    /// A shard that does not say which tokenizer made it.
    #[error(
        "--data {}: a shard without a manifest does not say which tokenizer made it; set \
         data.tokenizer to gpt2, bert or its tokenizer.json, as in --set data.tokenizer=gpt2",
        path.display()
    )]
    NoTokenizer {
        /// The shard.
        path: PathBuf,
    },

    /// Data of different tokenizers.
    #[error(
        "--data {} was made with tokenizer {tokenizer} of {vocab_size} tokens, and {other} with \
         {other_tokenizer} of {other_vocab_size}; a model has one vocabulary: tokenize all of it \
         with one tokenizer",
        path.display()
    )]
    Tokenizers {
        /// The data.
        path: PathBuf,
        /// Its tokenizer.
        tokenizer: String,
        /// Tokens of it.
        vocab_size: usize,
        /// Where another tokenizer is named: other data, or the configuration.
        other: String,
        /// That tokenizer.
        other_tokenizer: String,
        /// Tokens of it.
        other_vocab_size: usize,
    },

    /// A source of a blend holds less than one sample.
    #[error(
        "source {source_name} has {tokens} tokens, one sample needs {needed_tokens}; leave it out \
         or give it weight 0"
    )]
    SourceTooSmall {
        /// The source.
        source_name: String,
        /// Its tokens.
        tokens: u64,
        /// `seq_length + 1`.
        needed_tokens: u64,
    },

    /// A part of a source of a blend holds less than one sample.
    #[error(
        "the {part} part of split \"{split}\" has {tokens} tokens of source {source_name}, one \
         sample needs {needed_tokens}; give it more weight in the split{}",
        if *part == "validation" { ", or leave the [validation] section out" } else { "" }
    )]
    SourceSplitTooSmall {
        /// The source.
        source_name: String,
        /// The weights of the split as they were written.
        split: String,
        /// Which part.
        part: &'static str,
        /// Its tokens.
        tokens: u64,
        /// `seq_length + 1`.
        needed_tokens: u64,
    },

    /// A source ends before the run, and is not to be repeated.
    #[error(
        "source {source_name} has {present} samples, and the run takes {needed} of it ({epochs:.1} \
         epochs); give it less weight, train fewer steps, or let it repeat with data.repeat = \
         \"warn\""
    )]
    Repeats {
        /// The source.
        source_name: String,
        /// Samples that it has.
        present: u64,
        /// Samples that the run takes.
        needed: u64,
        /// How often it is gone through.
        epochs: f64,
    },

    /// Documents where pairs of sentences are asked for.
    #[error(
        "--data {}: its sequences are whole documents, and BERT is trained on pairs of sentences; \
         make it of the text again, with `pipeline dedup --tokenizer bert`",
        path.display()
    )]
    NotSentences {
        /// The data folder.
        path: PathBuf,
    },

    /// Sentences where documents are asked for.
    #[error(
        "--data {}: its sequences are sentences, for BERT, and no token ends its documents; for \
         GPT-2, make it of the text again, with `pipeline dedup --tokenizer gpt2`",
        path.display()
    )]
    NotDocuments {
        /// The data folder.
        path: PathBuf,
    },

    /// A shard without sentences where pairs of them are asked for.
    #[error(
        "--data {}: each of its documents is one sequence, and BERT is trained on pairs of \
         sentences, each a sequence of its own; write the shard so (Megatron-LM: \
         preprocess_data.py --split-sentences), or make it of the text with `pipeline dedup \
         --tokenizer bert`",
        path.display()
    )]
    ShardOfDocuments {
        /// The shard.
        path: PathBuf,
    },

    /// A data folder or shard where questions are asked for.
    #[error(
        "--data {}: is tokenized text, and a model that chooses among answers is trained on \
         questions; give the folder of RACE, with train and dev below it",
        path.display()
    )]
    NotRace {
        /// The data folder or shard.
        path: PathBuf,
    },

    /// RACE in a blend.
    #[error(
        "--data {written}: fine-tuning takes one folder of RACE, without a weight; give \
         --data RACE"
    )]
    RaceMixed {
        /// All that was given.
        written: String,
    },

    /// A part without a pair of sentences.
    #[error(
        "source {source_name}: no document of the {part} part gives a pair of sentences: of its \
         {documents} documents by the split \"{split}\", {} have fewer than two sentences, and {} a \
         sentence of more than 512 tokens; give it other documents, or more weight in the split{}",
        skipped.of_one_sentence,
        skipped.with_long_sentence,
        if *part == "validation" { ", or leave the [validation] section out" } else { "" }
    )]
    NoPairs {
        /// The source.
        source_name: String,
        /// Which part.
        part: &'static str,
        /// The weights of the split as they were written.
        split: String,
        /// Documents of the part.
        documents: u64,
        /// Why they give none.
        skipped: SkippedDocuments,
    },

    /// A sequence too short for two segments.
    #[error(
        "a sequence without its three special tokens has room for {max_length} tokens, and two \
         segments need two; give the model a seq_length of 5 or more"
    )]
    SampleTooShort {
        /// Tokens of its sentences at most.
        max_length: usize,
    },

    /// The map of pairs does not fit into memory.
    #[error(
        "the map of sentence pairs takes {}, and this machine has {}; with data.order = \"keyed\" it \
         is that of one epoch, and each --data has one of its own",
        gibibytes(*needed),
        gibibytes(*present)
    )]
    PairsTooLarge {
        /// Bytes of the map.
        needed: u64,
        /// Bytes of memory.
        present: u64,
    },

    /// A seed that the original implementation's generator does not take.
    #[error(
        "seed = {seed}: data.order = \"megatron\" takes seeds of 32 bits; choose one below \
         4294967296"
    )]
    Seed {
        /// The seed.
        seed: u64,
    },

    /// The tables of an order do not fit into memory.
    #[error(
        "data.order = \"megatron\" keeps tables of {} for {num_samples} samples, and this machine \
         has {}; \"keyed\" is as random and keeps none",
        gibibytes(*needed),
        gibibytes(*present)
    )]
    OrderTooLarge {
        /// Samples of the index.
        num_samples: u64,
        /// Bytes of its tables.
        needed: u64,
        /// Bytes of memory.
        present: u64,
    },

    /// More samples than the order can count.
    #[error(
        "data.order = \"megatron\": the tokens of {num_samples} samples are more than 64 bits \
             count; \"keyed\" has no such limit"
    )]
    OrderTooLong {
        /// Samples that were asked for.
        num_samples: u64,
    },
}

/// `1.2 GiB`, or in smaller units what is less.
pub(super) fn gibibytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 {
        format!("{mebibytes:.1} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}
