//! From text to a trained BERT, through the program.

use std::fs;

use serde_json::Value;

use crate::support::{Dir, Run, jsonl, lines_of, pipeline_in, words};

const TRAIN: &str = "\
[model.bert]
num_layers = 1
hidden_size = 16
num_attention_heads = 2
seq_length = 48

[batch]
micro_batch_size = 2
global_batch_size = 4

[optimizer]
lr = 1e-3

[schedule]
train_steps = 6
warmup_steps = 1

[data]
split = \"80,20,0\"

[validation]
interval_steps = 3
batches = 2

[checkpoint]
interval_steps = 2
";

/// A folder with a configuration, and texts as data for BERT (`data`) and for GPT-2 (`gpt2`).
fn workplace() -> Dir {
    let dir = Dir::new();
    dir.write("train.toml", TRAIN);
    let mut texts: Vec<String> = (0..40).map(|seed| words(seed, 200)).collect();
    texts.push(words(99, 11)); // one sentence
    texts.push(format!("{}.\n\n{}", words(98, 700).replace('.', ""), words(97, 30)));
    dir.write("in.jsonl", jsonl(&texts));
    for (out, tokenizer) in [("data", "bert"), ("gpt2", "gpt2")] {
        let line = format!("shard from-text in.jsonl --out {out} --tokenizer {tokenizer}");
        pipeline_in(&dir, &line).success();
    }
    dir
}

fn train(dir: &Dir, data: &str, out: &str, more: &str) -> Run {
    let line = format!("train --config train.toml --data {data} --out {out} {more}");
    pipeline_in(dir, &line)
}

fn log(dir: &Dir, run: &str, name: &str) -> Vec<Value> {
    lines_of(&fs::read_to_string(dir.path(&format!("{run}/{name}"))).unwrap())
}

/// The losses of a run, without what depends on the clock.
fn losses(dir: &Dir, run: &str) -> Vec<[Value; 5]> {
    let keys = ["step", "mlm_loss", "sop_loss", "validation_loss", "validation_sop_loss"];
    log(dir, run, "metrics.jsonl").iter().map(|line| keys.map(|key| line[key].clone())).collect()
}

#[test]
fn text_becomes_a_trained_bert_and_a_stopped_run_goes_on_to_the_bit() {
    let dir = workplace();
    let plan = train(&dir, "data", "run", "--dry-run --json").success().json();
    let skipped = &plan["sources"][0]["documents_skipped"];
    assert_eq!(
        skipped["of_one_sentence"].as_u64().unwrap()
            + skipped["with_long_sentence"].as_u64().unwrap(),
        0
    );
    train(&dir, "data", "whole", "--log-samples").success();
    let lines = losses(&dir, "whole");
    assert!(lines.iter().any(|line| line[3].is_f64() && line[4].is_f64()), "{lines:?}");
    let first = lines.iter().find(|line| line[1].is_f64()).unwrap();
    // An untrained model guesses: ln 30,522 and ln 2.
    assert!((first[1].as_f64().unwrap() - 10.33).abs() < 0.3, "{first:?}");
    assert!((first[2].as_f64().unwrap() - 0.69).abs() < 0.3, "{first:?}");
    let samples = log(&dir, "whole", "samples.jsonl");
    assert_eq!(samples.len(), 6);

    // From the checkpoint of step 2 on: the samples, and the losses to the last bit.
    train(&dir, "data", "rest", "--log-samples --resume whole/checkpoints/step-2").success();
    assert_eq!(log(&dir, "rest", "samples.jsonl"), samples[2..]);
    let after = |lines: Vec<[Value; 5]>| {
        lines.into_iter().filter(|line| line[0].as_u64() > Some(2)).collect::<Vec<_>>()
    };
    let rest = after(losses(&dir, "rest"));
    assert!(rest.len() >= 5, "four steps, and validations");
    assert_eq!(rest, after(lines));
}

#[test]
fn layouts_train_alike() {
    let dir = workplace();
    train(&dir, "data", "one", "").success();
    for (out, flags) in
        [("two", "--tp 2"), ("copies", "--dp 2"), ("whole", "--set batch.micro_batch_size=4")]
    {
        train(&dir, "data", out, flags).success();
        for (line, other) in losses(&dir, "one").iter().zip(losses(&dir, out)) {
            for (value, other) in line.iter().zip(&other) {
                let (Some(value), Some(other)) = (value.as_f64(), other.as_f64()) else {
                    assert_eq!(value, other, "{out}");
                    continue;
                };
                assert!((value - other).abs() <= 1e-5 * value, "{out}: {value} and {other}");
            }
        }
    }
}

#[test]
fn sources_orders_and_epochs_are_those_of_every_model() {
    let dir = workplace();
    let texts: Vec<String> = (50..60).map(|seed| words(seed, 200)).collect();
    dir.write("more.jsonl", jsonl(&texts));
    pipeline_in(&dir, "shard from-text more.jsonl --out more --tokenizer bert").success();
    let blend = "--data more:0.25 --set model.bert.seq_length=96";
    let plan =
        train(&dir, "data:0.75", "run", &format!("{blend} --dry-run --json")).success().json();
    assert_eq!(plan["sources"][1]["weight"], 0.25);
    for order in ["keyed", "sequential", "megatron"] {
        let run = train(
            &dir,
            "data:0.75",
            order,
            &format!("{blend} --log-samples --set data.order={order}"),
        );
        run.success();
        assert_eq!(log(&dir, order, "samples.jsonl").len(), 6);
    }
    let repeats = "--set data.repeat=refuse --set schedule.train_steps=400";
    train(&dir, "data", "run", repeats).refused(2, "source data has");
}

#[test]
fn data_and_model_of_different_kinds_are_refused_with_what_to_do() {
    let dir = workplace();
    train(&dir, "gpt2", "run", "").refused(2, "with `pipeline dedup --tokenizer bert`");
    // Nor is it the vocabulary that is wrong then.
    train(&dir, "gpt2", "run", "--set model.bert.vocab_size=30522")
        .refused(2, "with `pipeline dedup --tokenizer bert`");
    let gpt2 = TRAIN.replace("[model.bert]", "[model.gpt2]");
    dir.write("train.toml", &gpt2);
    train(&dir, "data", "run", "").refused(2, "its sequences are sentences, for BERT");
    train(&dir, "gpt2", "run", "--set data.masked_lm.mask_prob=0.2")
        .refused(2, "data.masked_lm = given: belongs to [model.bert]");
    dir.write("train.toml", TRAIN);
    for (key, value) in
        [("mask_prob", "0"), ("mask_prob", "1"), ("short_seq_prob", "-1"), ("max_ngram", "0")]
    {
        let set = format!("--set data.masked_lm.{key}={value}");
        train(&dir, "data", "run", &set).refused(2, &format!("data.masked_lm.{key} = {value}"));
    }
    train(&dir, "data", "run", "--set model.bert.seq_length=4").refused(2, "seq_length");
    // What the samples depend on may not change under a run.
    train(&dir, "data", "run", "--set schedule.train_steps=2").success();
    let steps = "--set schedule.train_steps=2";
    train(&dir, "data", "run", &format!("{steps} --set data.masked_lm.max_ngram=3")).success();
    train(&dir, "data", "run", &format!("{steps} --set data.masked_lm.max_ngram=2"))
        .refused(2, "data.masked_lm");
}

#[test]
fn documents_without_a_pair_are_counted_and_told() {
    let dir = workplace();
    dir.write("train.toml", TRAIN.split("[validation]").next().unwrap());
    let run = train(&dir, "data", "run", "--set data.split=100,0,0 --dry-run --json").success();
    let source = run.json()["sources"][0].clone();
    assert_eq!(source["documents_skipped"]["of_one_sentence"], 1);
    assert_eq!(source["documents_skipped"]["with_long_sentence"], 1);
    assert!(
        run.stderr.contains("2 of the 42 documents of the training part give no pair"),
        "{}",
        run.stderr
    );
    let table = train(&dir, "data", "run", "--set data.split=100,0,0 --dry-run").success().stdout;
    assert!(table.contains("documents skipped"), "{table}");
}
