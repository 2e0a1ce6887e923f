//! What a dry run tells of the paper's three sizes.

use std::fs;
use std::path::Path;

use training::PlanSummary;
use training::config::{ModelConfig, TrainConfig};
use training::model::Arrangement;
use training::optim::{Decay, LrSchedule};

fn preset(name: &str) -> TrainConfig {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train").join(name);
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn summary(config: &TrainConfig) -> PlanSummary {
    config.summary().unwrap()
}

#[test]
fn models_of_table_4_have_their_parameters_to_the_last_one() {
    for (name, layers, h, heads, parameters) in [
        ("bert-336m.toml", 24, 1024, 16, 336_297_858),
        ("bert-1.3b.toml", 24, 2048, 32, 1_280_739_202),
        ("bert-3.9b.toml", 48, 2560, 40, 3_869_260_674_u64),
    ] {
        let mut config = preset(name);
        let plan = summary(&config);
        assert_eq!(plan.parameters, parameters, "{name}");
        assert_eq!((plan.padded_vocab_size, plan.heads_per_rank), (30_592, heads));
        let parts = plan.parameters_by_part;
        assert_eq!(parts.embedding, 30_592 * h);
        assert_eq!((parts.positions, parts.token_types), (512 * h, 2 * h));
        assert_eq!(parts.layers, layers * (12 * h * h + 13 * h));
        assert_eq!(parts.final_norm, 2 * h);
        assert_eq!(parts.heads, (h * h + h) + (h * h + h + 2 * h + 30_592) + (2 * h + 2));
        assert_eq!(plan.tokens_per_step, 1024 * 512);
        assert_eq!(plan.grad_accumulation_steps, 1024 / config.batch.micro_batch_size.get() as u64);

        // Both arrangements own the same parameters.
        let ModelConfig::Bert(section) = &mut config.model else { panic!("a BERT") };
        assert_eq!(section.arrangement, Arrangement::PreNorm);
        section.arrangement = Arrangement::PostNorm;
        assert_eq!(summary(&config), plan);
    }
}

#[test]
fn presets_train_as_the_paper_does() {
    for name in ["bert-336m.toml", "bert-1.3b.toml", "bert-3.9b.toml"] {
        let config = preset(name);
        let ModelConfig::Bert(section) = &config.model else { panic!("a BERT") };
        assert_eq!((section.hidden_dropout, section.attention_dropout), (0.1, 0.1));
        assert_eq!(config.schedule.decay, Decay::Linear);
        let schedule = LrSchedule {
            peak: config.optimizer.lr,
            min: config.optimizer.min_lr,
            warmup_steps: config.schedule.warmup_steps.unwrap(),
            train_steps: config.schedule.train_steps.unwrap().get(),
            decay: config.schedule.decay,
            rule: config.schedule.rule,
        };
        assert_eq!(schedule.for_update(10_000), 1e-4);
        assert_eq!(schedule.for_update(2_000_000), 0.0);
        assert_eq!(schedule.for_update(1_005_000), 0.5e-4);
    }
}

#[test]
fn head_exchanges_what_is_masked_alone() {
    let mut config = preset("bert-336m.toml");
    config.parallel.tensor_parallel_size = 8.try_into().unwrap();
    let plan = summary(&config);
    // 15 of 100 of 8 × 512 tokens.
    let (tokens, masked) = (8 * 512, 615);
    assert_eq!(plan.loss_exchange_numbers, masked);
    assert_eq!(plan.all_reduces_per_step, 4 * 24);
    let message = |name: &str| {
        let mut found = plan.messages_per_micro_batch.iter().filter(|it| it.name == name);
        let found = found.next().unwrap();
        (found.calls, found.numbers, found.bytes)
    };
    assert_eq!(message("head.f"), (1, masked * 1024, 2 * masked * 1024));
    assert_eq!(message("loss.sum"), (2, masked, 4 * masked));
    assert_eq!(message("embedding.g"), (1, tokens * 1024, 2 * tokens * 1024));
    assert_eq!(message("layer.mlp.g").0, 48, "layers run again");

    // A third of the work of scoring all tokens is not done; what remains is the layers.
    let (h, v, s, l) = (1024.0, 30_522.0, 512.0, 24.0);
    let layers = l * (24.0 * h * h + 4.0 * s * h);
    let heads = 0.15 * (2.0 * h * h + 2.0 * h * v) + 2.0 * h * h / s;
    let expected = 3.0 * (layers + heads) * 1024.0 * 512.0;
    assert!((plan.model_flops_per_step / expected - 1.0).abs() < 1e-12);
}
