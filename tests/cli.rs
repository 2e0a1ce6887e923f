//! The program from outside: files in; exit codes, messages and results out.

mod checkpoint;
mod configuration;
mod contamination;
mod dedup;
mod dedup_bert;
mod doctor;
mod eval;
mod eval_stopped;
mod generate;
mod race;
mod signals;
mod train;

use crate::support::{Dir, Run, jsonl, lines_of, pipeline, pipeline_in, words};

/// `pipeline dedup INPUT --out out MORE` in `dir`.
fn dedup(dir: &Dir, input: &str, more: &str) -> Run {
    pipeline_in(dir, &format!("dedup {input} --out out {more}"))
}

/// A folder with a corpus of six documents in `data` and a configuration for a model of a few
/// thousand parameters in `train.toml`.
pub(crate) fn tiny_corpus() -> Dir {
    let dir = Dir::new();
    let texts: Vec<String> = (0..6).map(|seed| words(seed, 300)).collect();
    dir.write("in.jsonl", jsonl(&texts));
    pipeline_in(&dir, "dedup in.jsonl --out data").success();
    dir.write("train.toml", TRAIN);
    dir
}

pub(crate) const TRAIN: &str = "\
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
split = \"5,1,0\"

[validation]
interval_steps = 3
batches = 1
";

/// [`tiny_corpus`] with a finished run in `run` and a test set in `test.tokens`.
fn tiny_run() -> Dir {
    let dir = tiny_corpus();
    pipeline_in(&dir, "train --config train.toml --data data --out run").success();
    let words = words(9, 100).replace('\n', " ");
    dir.write("test.tokens", format!(" \n = Title = \n \n {words} \n"));
    dir
}

#[test]
fn help_names_every_command_and_wrong_usage_is_exit_code_2() {
    let help = pipeline(["--help"]).success();
    for command in
        ["demo", "dedup", "train", "eval", "reproduce", "generate", "checkpoint", "shard", "doctor"]
    {
        assert!(help.stdout.contains(command), "{command}");
        assert!(pipeline([command, "--help"]).success().stdout.contains("Usage"), "{command}");
    }
    for wrong in
        [&["no-such-command"][..], &["dedup"], &["dedup", "a.jsonl"], &["doctor", "--set", "a=1"]]
    {
        let run = pipeline(wrong);
        assert_eq!(run.code, 2, "{wrong:?}");
        assert!(run.stdout.is_empty(), "{wrong:?}");
    }
}
