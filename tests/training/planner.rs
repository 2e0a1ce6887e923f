//! What a dry run tells of a run: the figures of the paper, and of an annotated reading of it.

use std::fs;
use std::path::Path;

use serde_json::json;
use training::backend::{Precision, Recompute};
use training::config::{ModelConfig, TrainConfig};
use training::{MessageTotal, PlanSummary};

use super::trace::traced;
use super::{Workbench, micro, number, set_layout, steps};
use crate::support::pipeline;

fn preset(name: &str) -> TrainConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train").join(name);
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn plan(name: &str) -> PlanSummary {
    preset(name).summary().unwrap()
}

/// A number in billions, with `decimals`.
fn billions(number: u64, decimals: usize) -> String {
    format!("{:.decimals$}", number as f64 / 1e9)
}

#[test]
fn models_of_the_paper_have_their_parameters_to_the_last_one() {
    // Tables 1 and 2: layers, width, heads, ranks, and the parameters as the paper rounds them.
    for (name, layers, hidden, heads, ranks, rounded, parameters) in [
        ("gpt2-355m.toml", 24, 1024, 16, 1, "0.4", 354_871_296),
        ("gpt2-1.2b.toml", 40, 1536, 16, 1, "1.2", 1_212_103_680),
        ("gpt2-2.5b.toml", 54, 1920, 20, 2, "2.5", 2_488_934_400),
        ("gpt2-4.2b.toml", 64, 2304, 24, 4, "4.2", 4_197_929_472),
        ("gpt2-8.3b-32-heads.toml", 72, 3072, 32, 8, "8.3", 8_317_040_640),
        ("gpt2-8.3b.toml", 72, 3072, 24, 8, "8.3", 8_317_040_640_u64),
    ] {
        let ModelConfig::Gpt2(model) = preset(name).model else { panic!("a GPT-2") };
        let sizes = [model.num_layers, model.hidden_size, model.num_attention_heads];
        assert_eq!(sizes.map(std::num::NonZero::get), [layers, hidden, heads], "{name}");
        let plan = plan(name);
        assert_eq!(plan.parameters, parameters, "{name}");
        assert_eq!(billions(parameters, 1), rounded);
        assert_eq!(plan.tensor_parallel_size, ranks, "{name}");
        assert_eq!(plan.heads_per_rank, heads as u64 / ranks);

        let (h, parts) = (hidden as u64, plan.parameters_by_part);
        assert_eq!(parts.embedding, plan.padded_vocab_size * h);
        assert_eq!(parts.positions, 1024 * h);
        assert_eq!(parts.attention_per_layer, 4 * h * h + 4 * h);
        assert_eq!(parts.mlp_per_layer, 8 * h * h + 5 * h);
        assert_eq!(parts.norms_per_layer, 4 * h);
        assert_eq!(parts.layers, layers as u64 * (12 * h * h + 13 * h));
        assert_eq!(parts.final_norm, 2 * h);
        let sum = parts.embedding + parts.positions + parts.layers + parts.final_norm;
        assert_eq!(sum, parameters);
    }
    let padded = |name| plan(name).padded_vocab_size;
    let names = ["gpt2-355m.toml", "gpt2-2.5b.toml", "gpt2-4.2b.toml", "gpt2-8.3b.toml"];
    assert_eq!(names.map(padded), [50_304, 50_432, 50_688, 51_200]);
}

#[test]
fn parameters_take_sixteen_bytes_in_either_precision() {
    // 16 bytes for each of 8.3 billion are 133 GB, for each of 1.2 billion 19.2 GB.
    assert_eq!(billions(plan("gpt2-8.3b.toml").state_bytes, 0), "133");
    let smallest = plan("gpt2-1.2b.toml");
    assert_eq!(smallest.state_bytes, 16 * smallest.parameters);
    assert_eq!(
        format!("{:.1}", 16.0 * billions(smallest.parameters, 1).parse::<f64>().unwrap()),
        "19.2"
    );
    for (precision, [weights, gradients, optimizer]) in [
        (Precision::F16, [2, 2, 4 + 4 + 4]),
        (Precision::Bf16, [2, 2, 4 + 4 + 4]),
        (Precision::F32, [4, 4, 4 + 4]),
    ] {
        let plan = TrainConfig { precision, ..preset("gpt2-8.3b.toml") }.summary().unwrap();
        let (held, bytes) = (plan.parameters_per_rank, plan.bytes_per_rank);
        assert_eq!(bytes.weights, weights * held);
        assert_eq!(bytes.gradients, gradients * held);
        assert_eq!(bytes.optimizer, optimizer * held);
        assert_eq!(bytes.total, 16 * held + bytes.activations + bytes.passing);
    }
}

#[test]
fn layers_of_the_largest_model_exchange_288_times_and_14_5_gb() {
    let plan = plan("gpt2-8.3b.toml");
    assert_eq!(plan.all_reduces_per_step, 288);
    // Eight sequences of 1,024 tokens, 3,072 wide, two bytes each.
    assert_eq!(plan.all_reduce_bytes_per_step, 288 * 8 * 1_024 * 3_072 * 2);
    assert_eq!(billions(plan.all_reduce_bytes_per_step, 1), "14.5");
    // The run itself computes layers again, which the paper's count leaves out: six for four.
    let calls = |name: &str| {
        plan.messages_per_micro_batch.iter().find(|message| message.name == name).unwrap().calls
    };
    let names = ["layer.attention.g", "layer.mlp.g", "layer.attention.f", "layer.mlp.f"];
    assert_eq!(names.map(calls), [144, 144, 72, 72]);
}

#[test]
fn loss_exchanges_51_200_times_less_than_the_logits_would() {
    let plan = plan("gpt2-8.3b.toml");
    assert_eq!(plan.loss_exchange_numbers, 8_192);
    assert_eq!(plan.gathered_logits_numbers, 419_430_400);
    assert_eq!(plan.gathered_logits_numbers / plan.loss_exchange_numbers, 51_200);
    assert_eq!(plan.gathered_logits_per_loss_number, 51_200);
    assert_eq!(plan.padded_vocab_size - 50_257, 943);
}

#[test]
fn epoch_of_the_paper_is_68_507_steps_and_the_run_takes_its_days() {
    for (name, tokens_per_second, days_per_epoch, days) in [
        // The speeds that the paper's days per epoch imply (table 2).
        ("gpt2-355m.toml", "483400", "0.86", "3.8"),
        ("gpt2-2.5b.toml", "183100", "2.27", "9.9"),
        ("gpt2-8.3b.toml", "198000", "2.10", "9.2"),
    ] {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train").join(name);
        let flags = ["--dry-run", "--json", "--tokens-per-second", tokens_per_second];
        let config = ["train", "--config", config.to_str().unwrap()];
        let plan = pipeline(config.iter().chain(&flags)).success().json();
        assert_eq!(plan["tokens_per_epoch"], 35_917_398_016_u64);
        assert_eq!(plan["steps_per_epoch"], 68_507.0);
        assert_eq!(plan["tokens_per_step"], 524_288);
        assert_eq!(billions(plan["tokens_total"].as_u64().unwrap(), 0), "157");
        let number = |key: &str| plan[key].as_f64().unwrap();
        assert_eq!(format!("{:.2}", number("epochs")), "4.38");
        assert_eq!(format!("{:.2}", number("days_per_epoch")), days_per_epoch);
        assert_eq!(format!("{:.1}", number("days")), days);
        let flops =
            number("model_flops_per_step") / 524_288.0 * tokens_per_second.parse::<f64>().unwrap();
        assert!((number("model_flops_per_second") / flops - 1.0).abs() < 1e-12);
        // What other tools read.
        for key in ["weights", "gradients", "optimizer", "activations"] {
            assert!(plan["bytes_per_rank"][key].is_u64(), "{key}");
        }
        for key in ["parameters", "parameters_per_rank", "all_reduces_per_step"] {
            assert!(plan[key].is_u64(), "{key}");
        }
    }
}

#[test]
fn work_of_a_step_is_three_quarters_of_the_formula_that_counts_recomputation() {
    let plan = plan("gpt2-8.3b.toml");
    let [b, s, l, h, v] = [512.0, 1024.0, 72.0, 3072.0, 50_257.0];
    let with_recomputation: f64 =
        96.0 * b * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
    // The head does not run again: its share stays whole.
    let head = 6.0 * b * s * h * v;
    let expected = 0.75 * (with_recomputation - head) + head;
    assert!((plan.model_flops_per_step / expected - 1.0).abs() < 1e-12);
}

#[test]
fn recomputation_keeps_one_activation_of_each_layer_and_one_layer_whole() {
    let of = |layers| {
        let mut config = preset("gpt2-8.3b.toml");
        let ModelConfig::Gpt2(model) = &mut config.model else { panic!("a GPT-2") };
        model.num_layers = number(layers);
        config.summary().unwrap().bytes_per_rank
    };
    let activation = 8 * 1_024 * 3_072 * 2;
    let (one, nine) = (of(1), of(9));
    assert_eq!(nine.activations_recomputed - one.activations_recomputed, 8 * activation);
    assert_eq!(nine.activations, nine.activations_recomputed, "as the run is configured");
    assert!(nine.activations_kept - one.activations_kept > 8 * 4 * activation);
    let kept = TrainConfig { recompute: Recompute::None, ..preset("gpt2-8.3b.toml") };
    let kept = kept.summary().unwrap().bytes_per_rank;
    assert_eq!(kept.activations, kept.activations_kept);
    // One of the paper's GPUs, of 32 GB, holds the run only with recomputation.
    assert!(kept.total > 32_000_000_000, "{kept:?}");
    let plan = plan("gpt2-8.3b.toml");
    assert!(plan.bytes_per_rank.total < 32_000_000_000, "{plan:?}");
}

#[test]
fn messages_are_planned_as_they_are_sent() {
    let workbench = Workbench::new(101);
    for (precision, recompute, tensor) in [
        (Precision::F32, Recompute::None, 2),
        (Precision::F32, Recompute::Layer, 4),
        (Precision::Bf16, Recompute::None, 4),
        (Precision::F16, Recompute::Layer, 2),
    ] {
        let config = micro(|config| {
            (config.precision, config.recompute) = (precision, recompute);
            config.schedule.train_steps = Some(steps(1));
            set_layout(config, (tensor, 1));
        });
        let plan = config.clone().validate(workbench.options(&workbench.new_run())).unwrap();
        let planned = plan.summary().messages_per_micro_batch;
        let sent = &traced(&workbench, &workbench.new_run(), config)[0]["collectives"];
        for MessageTotal { name, calls, numbers, bytes } in &planned {
            let message = json!({"calls": calls, "numbers": numbers, "bytes": bytes});
            assert_eq!(sent[name], message, "{name}");
        }
        assert_eq!(planned.len() + 2, sent.as_object().unwrap().len(), "and norm and skipping");
    }
}

#[test]
fn plan_without_data_needs_a_vocabulary_and_a_run_needs_data() {
    let error = micro(|_| {}).summary().unwrap_err().to_string();
    assert!(error.contains("give --data, or write model.gpt2.vocab_size"), "{error}");

    let workbench = Workbench::new(101);
    let config = workbench.new_run().with_extension("toml");
    fs::write(&config, super::MICRO).unwrap();
    let config = ["train", "--config", config.to_str().unwrap()];
    let run = pipeline(config);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--data") && run.stderr.contains("--out"), "{}", run.stderr);
    let run = pipeline(config.iter().chain(&["--dry-run"]));
    assert_eq!(run.code, 2, "{}", run.stderr);
    let vocabulary = ["--dry-run", "--json", "--set", "model.gpt2.vocab_size=101"];
    let plan = pipeline(config.iter().chain(&vocabulary)).success().json();
    assert!(plan["steps_per_epoch"].is_null() && plan["days"].is_null(), "{plan}");

    // Mistakes that need no data are found without it.
    let mut config = preset("gpt2-8.3b.toml");
    config.parallel.tensor_parallel_size = number(5);
    let error = config.summary().unwrap_err().to_string();
    assert!(error.contains("24 attention heads cannot be split over --tp 5"), "{error}");
}
