//! Figure 7: BERT in both arrangements at two depths, on a small text.

use std::fs;

use super::{content, kept, sentences};
use crate::support::{Dir, pipeline_in, read_json};

/// What of the configuration is not a model.
const HEAD: &str = "\
experiment = \"figure7\"
title = \"A micro figure\"

[text]
max_bytes = 1_000_000

[data]
tokenizer = \"bert\"

[data.length]
min_tokens = 16

[train.batch]
micro_batch_size = 2
global_batch_size = 2

[train.optimizer]
lr = 1e-3

[train.schedule]
train_steps = 4
warmup_steps = 1

[train.data]
split = \"8,2,0\"

[train.validation]
interval_steps = 2
batches = 1
";

const LINE: &str = "reproduce --config figure.toml --text text --out out";

const PARTS: [&str; 7] = [
    "text",
    "corpus",
    "train post-norm-1",
    "train post-norm-2",
    "train pre-norm-1",
    "train pre-norm-2",
    "page",
];

fn size(arrangement: &str, num_layers: usize) -> String {
    format!(
        "\n[[size]]\nname = \"{arrangement}-{num_layers}\"\n[size.model.bert]\n\
         arrangement = \"{arrangement}\"\nnum_layers = {num_layers}\nhidden_size = 8\n\
         num_attention_heads = 2\nseq_length = 32\n"
    )
}

fn figure() -> String {
    let sizes = ["post-norm", "pre-norm"].map(|it| [size(it, 1), size(it, 2)].concat());
    format!("{HEAD}{}", sizes.concat())
}

fn folder() -> Dir {
    let dir = sentences();
    dir.write("figure.toml", figure());
    dir
}

#[test]
fn both_arrangements_are_trained_at_both_depths_and_told_on_one_page() {
    let dir = folder();
    let run = pipeline_in(&dir, LINE).success();
    for (index, part) in PARTS.iter().enumerate() {
        let line = format!("{}/{} {part}: ", index + 1, PARTS.len());
        assert!(run.stderr.contains(&line), "{line} {}", run.stderr);
    }
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["text"]["held_out_documents"], 0, "no test set is made of it");
    assert_eq!(report["partial"], false);
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let name = run["name"].as_str().unwrap();
        let record = read_json(&dir.path(&format!("out/runs/{name}/run.json")));
        assert_eq!(record["config"]["model"]["bert"]["arrangement"], run["arrangement"]);
        // The curves are those of masked tokens, as the run has written them down.
        let metrics =
            fs::read_to_string(dir.path(&format!("out/runs/{name}/metrics.jsonl"))).unwrap();
        let lines = crate::support::lines_of(&metrics);
        let of =
            |key: &str| -> Vec<f64> { lines.iter().filter_map(|it| it[key].as_f64()).collect() };
        let curve = |curve: &str, key: &str| -> Vec<f64> {
            let points = run.pointer(curve).unwrap().as_array().unwrap();
            points.iter().map(|point| point[key].as_f64().unwrap()).collect()
        };
        assert_eq!(curve("/training/loss_curve", "loss"), of("mlm_loss"));
        assert_eq!(curve("/training/validation_curve", "loss"), of("validation_loss"));
        assert_eq!(curve("/grad_norm_curve", "grad_norm"), of("grad_norm"));
        let behind_warmup = of("grad_norm")[1..].iter().copied().fold(0.0, f64::max);
        assert_eq!(run["largest_grad_norm"].as_f64(), Some(behind_warmup));
        let mean = of("mlm_loss").iter().sum::<f64>() / 4.0;
        assert!((run["training"]["final_loss"].as_f64().unwrap() - mean).abs() < 1e-12);
    }
    // Arrangements own the same parameters.
    assert_eq!(runs[0]["parameters"], runs[2]["parameters"]);
    // A few masked tokens tell nothing of models that have learned nothing.
    assert!(report["statements"].as_array().unwrap().iter().all(|it| it["holds"].is_null()));
    assert!(runs.iter().all(|run| run["validation_targets"].as_u64().unwrap() > 0));
    let page = fs::read_to_string(dir.path("out/figure7.html")).unwrap();
    assert!(page.contains("A micro figure") && page.contains("figure-grad-norms"), "{page}");
    let csv = fs::read_to_string(dir.path("out/figure7.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(run.stdout.contains("post-norm-2"), "{}", run.stdout);

    let before = content(&dir.path("out"));
    let second = pipeline_in(&dir, LINE).success();
    assert_eq!(kept(&second), PARTS);
    assert_eq!(second.stdout, run.stdout);
    assert!(content(&dir.path("out")) == before);
    let json = pipeline_in(&dir, &format!("{LINE} --json")).success().json();
    assert_eq!(json, report);
}

#[test]
fn a_model_that_loses_its_numbers_is_a_result() {
    let dir = folder();
    let line = format!("{LINE} --set train.optimizer.lr=1e38 --set train.schedule.warmup_steps=0");
    let run = pipeline_in(&dir, &line).success();
    assert!(run.stderr.contains("diverges: step "), "{}", run.stderr);
    let report = read_json(&dir.path("out/report.json"));
    for run in report["runs"].as_array().unwrap() {
        let step = run["diverged_at"].as_u64().unwrap();
        assert_eq!(run["training"]["steps"], step - 1);
        assert_eq!(run["training"]["tokens"], (step - 1) * 2 * 32);
        assert!(run["training"]["validation_loss"].is_null());
    }
    let page = fs::read_to_string(dir.path("out/figure7.html")).unwrap();
    assert!(page.contains("diverged in step"), "{page}");
    assert_eq!(kept(&pipeline_in(&dir, &line).success()), PARTS);
}

#[test]
fn what_the_experiment_has_no_use_for_is_refused() {
    let dir = folder();
    for (arguments, message) in [
        ("--wikitext103 wiki.tokens", "the experiment figure7 is scored on no test set"),
        ("--lambada lambada.jsonl", "--lambada lambada.jsonl: the experiment figure7"),
        ("--set eval.overlap=16", "[eval] is of no use in the experiment figure7"),
        ("--set contamination.ngram_words=[8]", "[contamination] is of no use"),
        ("--set data.decontamination.article={}", "[data.decontamination] is of no use"),
        ("--set size.0.paper=\"355M\"", "paper is a row of Table 3"),
        ("--set size.1.model.bert.num_layers=1", "have the same arrangement and num_layers"),
        (
            "--set size.1.model.bert.hidden_size=16",
            "differ in more than arrangement and num_layers",
        ),
        ("--set data.tokenizer=gpt2", "data.tokenizer: "),
    ] {
        pipeline_in(&dir, &format!("{LINE} {arguments}")).refused(2, message);
        assert!(!dir.path("out").exists(), "{arguments}");
    }
    let without = figure().replace("[train.validation]\ninterval_steps = 2\nbatches = 1\n", "");
    dir.write("figure.toml", without);
    pipeline_in(&dir, LINE).refused(2, "[train.validation] is not given");
    let gpt2 =
        size("pre-norm", 1).replace("bert", "gpt2").replace("arrangement = \"pre-norm\"\n", "");
    dir.write("figure.toml", format!("{HEAD}{gpt2}"));
    pipeline_in(&dir, LINE).refused(2, "[size.model.gpt2] is no model of the experiment figure7");
    dir.write("figure.toml", figure().replace("\"figure7\"", "\"table3\""));
    pipeline_in(&dir, LINE).refused(2, "[size.model.bert] is no model of the experiment table3");
    assert!(!dir.path("out").exists());
}
