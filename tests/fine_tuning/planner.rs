//! What the shipped configurations amount to.

use std::fs;
use std::path::Path;

use training::config::{ModelConfig, TrainConfig};
use training::data::SampleForm;
use training::fine_tuning::FineTuneConfig;
use training::optim::Decay;

use super::{BENCH, FINE_TUNING, MODEL, article, write_race};
use crate::support::{Dir, pipeline_in};

fn preset(name: &str) -> TrainConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train").join(name);
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn presets_are_table_6_s_for_race() {
    for (name, pretrained, batch, lr, parameters, steps) in [
        ("race-336m.toml", "bert-336m.toml", 32, 2e-5, 335_214_593, 8_238),
        ("race-1.3b.toml", "bert-1.3b.toml", 16, 1e-5, 1_276_506_113, 16_475),
        ("race-3.9b.toml", "bert-3.9b.toml", 32, 2e-5, 3_862_666_241_u64, 8_238),
    ] {
        let config = preset(name);
        let FineTuneConfig::Race(race) = config.finetune.as_ref().unwrap();
        assert_eq!((race.epochs, race.warmup_share), (Some(3.0), Some(0.06)));
        assert_eq!(config.batch.global_batch_size.get(), batch, "{name}");
        assert_eq!((config.optimizer.lr, config.optimizer.min_lr), (lr, 0.0));
        assert_eq!((config.optimizer.weight_decay, config.optimizer.clip_grad), (0.1, 1.0));
        assert_eq!(config.schedule.decay, Decay::Linear);
        assert_eq!((config.schedule.train_steps, config.schedule.warmup_steps), (None, None));
        assert_eq!(config.data.questions().unwrap(), SampleForm::Questions);
        let ModelConfig::Bert(section) = &config.model else { panic!("a BERT") };
        assert_eq!((section.hidden_dropout, section.attention_dropout), (0.1, 0.1));
        assert_eq!(config.model, preset(pretrained).model, "the weights of {pretrained} fit");

        let plan = config.summary().unwrap();
        assert_eq!(plan.parameters, parameters, "{name}");
        let questions = 87_866.0;
        assert_eq!(plan.train_steps, (3.0 * questions / batch as f64).ceil() as u64);
        assert_eq!(plan.train_steps, steps);
        assert_eq!(plan.warmup_steps, (0.06 * steps as f64).round() as u64);
        assert_eq!((plan.rows_per_sample, plan.tokens_per_step), (4, batch as u64 * 4 * 512));
        assert!((plan.epochs.unwrap() - 3.0).abs() < 1e-3);
    }
}

#[test]
fn plan_counts_four_rows_for_each_question_and_no_head_over_the_vocabulary() {
    let mut config = preset("race-336m.toml");
    config.parallel.tensor_parallel_size = 2.try_into().unwrap();
    let fine_tuning = config.summary().unwrap();
    let mut config = preset("bert-336m.toml");
    config.parallel.tensor_parallel_size = 2.try_into().unwrap();
    config.batch.micro_batch_size = 32.try_into().unwrap(); // as many rows as 8 questions have
    let pre_training = config.summary().unwrap();

    let names = |plan: &training::PlanSummary| -> Vec<&str> {
        plan.messages_per_micro_batch.iter().map(|it| it.name).collect()
    };
    let (layers, head) = names(&pre_training)
        .into_iter()
        .partition::<Vec<_>, _>(|name| name.starts_with("layer") || name.starts_with("embedding"));
    assert_eq!(names(&fine_tuning), layers);
    assert_eq!(head, ["head.f", "loss.max", "loss.target", "loss.sum"]);
    let bytes = [&fine_tuning, &pre_training].map(|plan| &plan.bytes_per_rank);
    assert!(bytes[0].activations < bytes[1].activations, "but for the logits of a chunk");
    assert!(bytes[0].activations > bytes[1].activations * 9 / 10);
    assert_eq!(bytes[0].passing, 0);

    let (h, s, l) = (1024.0, 512.0, 24.0);
    let row = s * l * (24.0 * h * h + 4.0 * s * h) + 2.0 * h * h + 2.0 * h;
    let expected = 3.0 * 32.0 * 4.0 * row;
    assert!((fine_tuning.model_flops_per_step / expected - 1.0).abs() < 1e-12);
    let parts = fine_tuning.parameters_by_part;
    assert_eq!(parts.heads, (1024 * 1024 + 1024) + (1024 + 1));
}

#[test]
fn dry_run_tells_the_steps_of_the_epochs_and_which_articles_are_cut() {
    let dir = Dir::new();
    write_race(&dir, "RACE");
    let mut long = article("train", 4);
    long["article"] = vec!["w1"; 40].join(" ").into();
    dir.write("RACE/train/middle/4.txt", long.to_string());
    let toml = dir.write("race.toml", format!("{MODEL}{FINE_TUNING}"));
    let line = format!(
        "train --config {} --data {} --out nowhere --init-from hf --dry-run --json --dp 2 --set \
         finetune.race.epochs=1.1",
        toml.display(),
        dir.path("RACE").display()
    );
    let run = pipeline_in(&BENCH, &line).success();
    let cut =
        "RACE train: of 2 of the 96 questions the end of the article finds no room in 24 tokens";
    assert!(run.stderr.contains(cut), "{}", run.stderr);
    assert!(!run.stderr.contains("RACE dev: of"), "{}", run.stderr);
    let plan = run.json();
    // 1.1 · 96 / 8 is 13.2, and a quarter of 14 is 3.5.
    assert_eq!((&plan["train_steps"], &plan["warmup_steps"]), (&14.into(), &4.into()));
    assert_eq!((&plan["rows_per_sample"], &plan["tokens_per_step"]), (&4.into(), &768.into()));
    assert_eq!(plan["grad_accumulation_steps"], 1);
    let source = &plan["sources"][0];
    assert_eq!((&source["samples"], &source["weight"]), (&96.into(), &serde_json::Value::Null));
    assert!((source["epochs"].as_f64().unwrap() - 14.0 * 8.0 / 96.0).abs() < 1e-12);
    assert!(!BENCH.path("nowhere").exists());
}
