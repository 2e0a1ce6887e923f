//! `--trace-collectives`: what each rank exchanges in a step, counted by name.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use training::backend::{Precision, Recompute};
use training::config::TrainConfig;
use training::{RunOptions, train};

use super::{StopAfter, Workbench, micro, number, set_layout, steps};
use crate::support::read_json;
use corpus::Silent;

/// Sizes of [`MICRO`](super::MICRO).
const NUM_LAYERS: u64 = 2;
const HIDDEN_SIZE: u64 = 32;
const SEQ_LENGTH: u64 = 16;

/// What a rank exchanges in one micro-batch of `batch` samples with the ranks that share its model,
/// where each layer has `per_layer` all-reduces of activations: calls and numbers by name.
fn expected(batch: u64, per_layer: &[(&str, u64)]) -> BTreeMap<String, (u64, u64)> {
    let (positions, activation) = (batch * SEQ_LENGTH, batch * SEQ_LENGTH * HIDDEN_SIZE);
    let layers = per_layer.iter().map(|(name, calls)| (*name, calls * NUM_LAYERS, activation));
    let model = [("embedding.g", 1, activation), ("head.f", 1, activation)];
    let whole = layers.chain(model).map(|(name, calls, numbers)| (name, calls, calls * numbers));
    // The head takes the positions in chunks of 512, and its numbers are those of all of them.
    let chunks = positions.div_ceil(512);
    let loss = ["loss.max", "loss.target", "loss.sum"].map(|name| (name, chunks, positions));
    whole.chain(loss).map(|(name, calls, numbers)| (name.to_owned(), (calls, numbers))).collect()
}

/// Four per layer: both blocks forward (g) and backward (f).
const WITHOUT_RECOMPUTE: [(&str, u64); 4] =
    [("layer.attention.g", 1), ("layer.mlp.g", 1), ("layer.attention.f", 1), ("layer.mlp.f", 1)];

/// What is exchanged once per step, whatever the micro-batches.
const PER_STEP: [&str; 4] = ["grad_norm", "skipped", "loss", "gradients"];

/// The trace of a run in `out` with `config`, by step and rank.
pub(super) fn traced(workbench: &Workbench, out: &Path, config: TrainConfig) -> Vec<Value> {
    let options = RunOptions { trace_collectives: true, ..workbench.options(out) };
    train(&config.validate(options).unwrap(), &Silent).unwrap();
    entries(out)
}

fn entries(out: &Path) -> Vec<Value> {
    read_json(&out.join("collectives.json")).as_array().unwrap().clone()
}

/// Checks that each micro-batch of each step had the messages that are expected of it.
fn check_messages(
    entries: &[Value],
    micro_batches: u64,
    bytes: u64,
    batch: u64,
    per_layer: &[(&str, u64)],
) {
    for entry in entries {
        let mut collectives = entry["collectives"].as_object().unwrap().clone();
        for name in PER_STEP {
            collectives.remove(name);
        }
        // Between two micro-batches the ranks of a copy ask together whether to stop, and after the
        // last one all copies.
        let stop = collectives.remove("stop").map_or(json!(0), |stop| stop["numbers"].clone());
        assert_eq!(stop, if micro_batches > 1 { micro_batches } else { 0 }, "{entry}");
        let expected: serde_json::Map<_, _> = expected(batch, per_layer)
            .into_iter()
            .map(|(name, (calls, numbers))| {
                let (calls, numbers) = (micro_batches * calls, micro_batches * numbers);
                // The loss is computed in f32 whatever the precision.
                let bytes = if name.starts_with("loss.") { 4 } else { bytes };
                (name, json!({"calls": calls, "numbers": numbers, "bytes": bytes * numbers}))
            })
            .collect();
        assert_eq!(collectives, expected, "{entry}");
    }
}

#[test]
fn a_micro_batch_exchanges_four_activations_per_layer_two_for_the_model_three_rows_for_the_loss() {
    let workbench = Workbench::new(101);
    // 40 samples are 640 positions: a whole chunk of the head and a part of one.
    for (tensor, micro_batch, global_batch) in [(2, 4, 4), (2, 2, 4), (4, 1, 4), (2, 40, 40)] {
        let config = micro(|config| {
            config.batch.micro_batch_size = number(micro_batch);
            config.batch.global_batch_size = number(global_batch);
            config.schedule.train_steps = Some(steps(2));
            set_layout(config, (tensor, 1));
        });
        let entries = traced(&workbench, &workbench.new_run(), config);
        assert_eq!(entries.len(), 2 * tensor);
        let micro_batches = (global_batch / micro_batch) as u64;
        check_messages(&entries, micro_batches, 4, micro_batch as u64, &WITHOUT_RECOMPUTE);
        for entry in &entries {
            assert_eq!(entry["collectives"]["grad_norm"]["calls"], 1);
            assert!(entry["collectives"].get("gradients").is_none(), "one copy has no other");
        }
    }
}

#[test]
fn layers_that_run_again_exchange_six_activations_of_two_bytes_in_half_precision() {
    let workbench = Workbench::new(101);
    for (precision, bytes) in [(Precision::F32, 4), (Precision::Bf16, 2), (Precision::F16, 2)] {
        let config = micro(|config| {
            config.precision = precision;
            config.recompute = Recompute::Layer;
            config.batch.micro_batch_size = number(2);
            config.schedule.train_steps = Some(steps(2));
            set_layout(config, (2, 1));
        });
        let entries = traced(&workbench, &workbench.new_run(), config);
        // Both blocks forward, forward again and backward.
        let per_layer = [
            ("layer.attention.g", 2),
            ("layer.mlp.g", 2),
            ("layer.attention.f", 1),
            ("layer.mlp.f", 1),
        ];
        check_messages(&entries, 2, bytes, 2, &per_layer);
    }
}

#[test]
fn copies_exchange_their_gradients_once_per_step() {
    let workbench = Workbench::new(101);
    let config = micro(|config| {
        config.batch.micro_batch_size = number(1);
        config.schedule.train_steps = Some(steps(2));
        set_layout(config, (1, 2));
    });
    let out = workbench.new_run();
    let entries = traced(&workbench, &out, config.clone());
    let plan = config.validate(workbench.options(&out)).unwrap();
    let parameters = plan.summary().parameters_per_rank;
    for entry in &entries {
        let names: Vec<_> = entry["collectives"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["gradients", "loss", "skipped", "stop"]);
        assert_eq!(
            entry["collectives"]["gradients"],
            json!({"calls": 1, "numbers": parameters, "bytes": 4 * parameters})
        );
    }
}

#[test]
fn one_rank_exchanges_nothing() {
    let workbench = Workbench::new(101);
    let entries = traced(&workbench, &workbench.new_run(), micro(|_| {}));
    assert_eq!(entries.len(), 10);
    assert!(entries.iter().all(|entry| entry["collectives"] == json!({})));
}

#[test]
fn trace_of_a_stopped_run_reads_as_that_of_one_that_never_stopped() {
    let workbench = Workbench::new(101);
    let config = || {
        micro(|config| {
            config.checkpoint.interval_steps = Some(steps(2));
            set_layout(config, (2, 1));
        })
    };
    let unbroken = traced(&workbench, &workbench.new_run(), config());
    let places: Vec<_> = unbroken.iter().map(|entry| (&entry["step"], &entry["rank"])).collect();
    let expected: Vec<_> = (1..=10).flat_map(|step| [(step, 0), (step, 1)]).collect();
    assert_eq!(serde_json::to_value(places).unwrap(), serde_json::to_value(expected).unwrap());

    let out = workbench.new_run();
    let options = RunOptions { trace_collectives: true, ..workbench.options(&out) };
    let plan = config().validate(options).unwrap();
    train(&plan, &StopAfter::new(5)).unwrap();
    assert_eq!(entries(&out), unbroken[..10]);
    // As if the process had been killed in step 7, while it wrote.
    let path = out.join("collectives.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let torn =
        text.replace("\n]\n", ",\n{\"step\":6,\"rank\":0,\"collectives\":{}},\n{\"step\":6,\"ra");
    std::fs::write(&path, torn).unwrap();
    // A trace that was begun goes on.
    train(&config().validate(workbench.options(&out)).unwrap(), &Silent).unwrap();
    assert_eq!(entries(&out), unbroken);
}
