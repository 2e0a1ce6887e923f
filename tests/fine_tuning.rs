//! A pre-trained BERT that learns to choose among the answers to questions in RACE's form.

mod layouts;
mod learning;
mod planner;
mod refusals;
mod resume;
mod samples;
mod start;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use corpus::Silent;
use serde_json::json;
use training::checkpoint::{Checkpoint, Existing, export};
use training::config::TrainConfig;
use training::model::ParameterSource;
use training::plan::RunOptions;
use training::{TrainError, TrainPlan, TrainReport, train};

use crate::support::word_pieces::word_pieces_of;
use crate::support::{Dir, jsonl, pipeline_in};

/// What the model is in every configuration here.
const MODEL: &str = r#"
seed = 7

[model.bert]
num_layers = 2
hidden_size = 32
num_attention_heads = 4
seq_length = 24
hidden_dropout = 0.1
attention_dropout = 0.1

[optimizer]
lr = 1e-3
min_lr = 0.0
weight_decay = 0.1
"#;

const PRE_TRAINING: &str = r#"
[batch]
micro_batch_size = 4
global_batch_size = 4

[schedule]
train_steps = 2
warmup_steps = 1
decay = "linear"
"#;

const FINE_TUNING: &str = r#"
[finetune.race]
epochs = 0.5
warmup_share = 0.25

[batch]
micro_batch_size = 4
global_batch_size = 8

[schedule]
decay = "linear"

[validation]
interval_steps = 3
"#;

/// Questions of the split `train`, and of `dev`.
const QUESTIONS: [usize; 2] = [96, 48];

/// Words of the right answers, and of the others.
const WORDS: usize = 12;

/// `w3`
fn word(number: usize) -> String {
    format!("w{number}")
}

/// Numbers that look random, the same in every run.
fn drawn(seed: usize, place: usize, below: usize) -> usize {
    let state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (place as u64) << 17;
    let state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((state ^ state >> 32) % below as u64) as usize
}

/// Article `number` of a split with its two questions. The right answer is a word of the article,
/// and of those alone that are right answers.
pub(crate) fn article(split: &str, number: usize) -> serde_json::Value {
    let seed = number + if split == "dev" { 10_000 } else { 0 };
    let text: Vec<usize> = (0..4).map(|place| drawn(seed, place, WORDS)).collect();
    let question = |question: usize| {
        let draw = |place: usize, below: usize| drawn(seed, 10 + 20 * question + place, below);
        let answer = draw(0, 4);
        let options: Vec<String> = (0..4)
            .map(|option| match option == answer {
                true => word(text[draw(1, 4)]),
                false => word(WORDS + draw(2 + option, WORDS)),
            })
            .collect();
        (options, ["A", "B", "C", "D"][answer])
    };
    let [first, second] = [question(0), question(1)];
    json!({
        "article": text.iter().map(|&number| word(number)).collect::<Vec<_>>().join(" "),
        "questions": ["what is there?", "there is _."],
        "options": [first.0, second.0],
        "answers": [first.1, second.1],
        "id": format!("{number}.txt"),
    })
}

/// A folder in RACE's form at `dir/name`.
fn write_race(dir: &Dir, name: &str) {
    for (split, questions) in ["train", "dev"].into_iter().zip(QUESTIONS) {
        for number in 0..questions / 2 {
            let level = ["middle", "high"][number % 2];
            let path = format!("{name}/{split}/{level}/{number}.txt");
            dir.write(&path, article(split, number).to_string());
        }
    }
}

/// What every test begins with: `RACE`, the pre-trained run `bert` and its model as a folder of
/// Hugging Face's, `hf`.
pub(crate) static BENCH: LazyLock<Dir> = LazyLock::new(|| {
    let dir = Dir::new();
    write_race(&dir, "RACE");
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "what", "is", "there", "?", "."];
    let tokens = special.map(str::to_owned).into_iter().chain((0..2 * WORDS).map(word));
    dir.write("tokenizer.json", word_pieces_of(&tokens.collect::<Vec<_>>()));
    let texts: Vec<String> = (0..40)
        .map(|document| {
            (0..6).fold(String::new(), |mut text, sentence| {
                let seed = document * 100 + sentence;
                let words: Vec<_> = (0..6).map(|at| word(drawn(seed, at, 2 * WORDS))).collect();
                write!(text, "There is {}. ", words.join(" ")).unwrap();
                text
            })
        })
        .collect();
    dir.write("in.jsonl", jsonl(&texts));
    let line = "shard from-text in.jsonl --out data --tokenizer tokenizer.json --set \
                sequences=sentences";
    pipeline_in(&dir, line).success();
    dir.write("pre.toml", format!("{MODEL}{PRE_TRAINING}"));
    pipeline_in(&dir, "train --config pre.toml --data data --out bert").success();
    let checkpoint = Checkpoint::open(&dir.path("bert")).unwrap();
    export(&checkpoint, &dir.path("hf"), Existing::Refuse, &Silent).unwrap();
    dir
});

/// The configuration of a fine-tuning of six steps, changed by `change`.
pub(crate) fn config(change: impl FnOnce(&mut TrainConfig)) -> TrainConfig {
    let mut config = toml::from_str(&format!("{MODEL}{FINE_TUNING}")).unwrap();
    change(&mut config);
    config
}

/// A run of it into `out`, which begins with the pre-trained model.
fn options(out: &Path) -> RunOptions {
    RunOptions {
        init_from: Some(BENCH.path("bert")),
        log_samples: true,
        ..RunOptions::new(BENCH.path("RACE"), out.to_owned())
    }
}

fn plan(out: &Path, config: TrainConfig) -> Result<TrainPlan, TrainError> {
    config.validate(options(out))
}

/// Trains into `out`.
pub(crate) fn run(out: &Path, config: TrainConfig) -> TrainReport {
    train(&plan(out, config).unwrap(), &Silent).unwrap()
}

/// The whole parameters of a checkpoint by name.
fn weights(checkpoint: &Path) -> Vec<(String, Vec<f32>)> {
    let checkpoint = Checkpoint::open(checkpoint).unwrap();
    let specs = checkpoint.architecture().parameters();
    specs.iter().map(|spec| (spec.name.clone(), checkpoint.local(spec, 0, 1).unwrap())).collect()
}

/// A folder for runs, and the paths of those in it.
fn runs<const N: usize>(names: [&str; N]) -> (tempfile::TempDir, [PathBuf; N]) {
    let folder = tempfile::tempdir().unwrap();
    let paths = names.map(|name| folder.path().join(name));
    (folder, paths)
}
