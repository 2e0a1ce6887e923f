//! What a configuration may say, and how a wrong one is refused.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use training::config::{ModelConfig, TrainConfig, ValidationConfig};
use training::data::SplitWeights;

use super::{MICRO, Workbench, micro, number, set_layout};

/// The error of a text that is no configuration.
fn parse_error(text: &str) -> String {
    toml::from_str::<TrainConfig>(text).unwrap_err().to_string()
}

/// The error of a configuration that cannot be run on the counting documents in a vocabulary of
/// 101.
fn plan_error(config: TrainConfig) -> String {
    Workbench::new(101).validate(config).unwrap_err().to_string()
}

fn gpt2(config: &mut TrainConfig) -> &mut training::config::Gpt2Section {
    let ModelConfig::Gpt2(section) = &mut config.model else { panic!("a GPT-2") };
    section
}

#[test]
fn every_shipped_configuration_parses_and_validates() {
    // Enough documents for one validation sample of 1,024 tokens under 969,30,1.
    let documents: Vec<Vec<u32>> = (0..1_000).map(|document| vec![document; 60]).collect();
    let workbench = Workbench::with_documents(50_257, &documents);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train");
    let mut parameters = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let config: TrainConfig = toml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let ModelConfig::Bert(_) = config.model {
            // These documents are no sentences: what it amounts to without them.
            let summary =
                config.summary().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(summary.parameters > 300_000_000, "{}", path.display());
            continue;
        }
        let plan = workbench
            .validate(config)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        parameters.push((path.file_name().unwrap().to_owned(), plan.summary().parameters));
    }
    // The paper's three models, to the last parameter.
    for (name, expected) in [
        ("gpt2-355m.toml", 354_871_296),
        ("gpt2-2.5b.toml", 2_488_934_400),
        ("gpt2-8.3b.toml", 8_317_040_640),
    ] {
        let (_, found) = parameters.iter().find(|(file, _)| file == name).unwrap();
        assert_eq!(*found, expected, "{name}");
    }
}

#[test]
fn plan_of_the_paper_s_largest_model_counts_its_messages() {
    let documents: Vec<Vec<u32>> = (0..1_000).map(|document| vec![document; 60]).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/train/gpt2-8.3b.toml");
    let config: TrainConfig = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let summary = Workbench::with_documents(50_257, &documents).validate(config).unwrap().summary();
    // Eight sequences of 1,024 tokens, 3,072 wide: 25.2 million numbers, four times in each of 72
    // layers.
    assert_eq!(summary.all_reduces_per_step, 288);
    assert_eq!(summary.all_reduce_bytes_per_step, 288 * 25_165_824 * 2);
    assert_eq!(summary.loss_exchange_numbers, 8 * 1_024);
    assert_eq!(summary.gathered_logits_numbers, 8 * 1_024 * 51_200);
    assert_eq!(summary.heads_per_rank, 3);
    assert_eq!(summary.tokens_per_step, 524_288);
    assert_eq!(summary.grad_accumulation_steps, 64);
    assert_eq!(summary.gradient_all_reduce_bytes_per_step, 0, "there is one copy");
}

#[test]
fn plan_of_several_copies_counts_what_they_exchange() {
    let plan = |layout| {
        let config = micro(|config| {
            config.batch.global_batch_size = number(24);
            set_layout(config, layout);
        });
        Workbench::new(101).validate(config).unwrap().summary()
    };
    assert_eq!(plan((1, 3)).all_reduces_per_step, 0, "one rank holds the model");
    assert_eq!(plan((1, 3)).all_reduce_bytes_per_step, 0);
    let (one, three) = (plan((2, 1)), plan((2, 3)));
    assert_eq!((one.grad_accumulation_steps, three.grad_accumulation_steps), (6, 2));
    assert_eq!(three.gradient_all_reduce_bytes_per_step, 4 * three.parameters_per_rank);
    assert_eq!(three.bytes_per_rank, one.bytes_per_rank);
    assert_eq!((three.tokens_per_step, three.tokens_total), (24 * 16, 10 * 24 * 16));
    assert_eq!((three.tensor_parallel_size, three.data_parallel_size), (2, 3));
}

#[test]
fn plan_of_a_huge_batch_counts_no_less_than_there_is() {
    let plan = |size| {
        let config = micro(|config| {
            config.batch.micro_batch_size = number(size);
            config.batch.global_batch_size = number(size);
            set_layout(config, (2, 1));
        });
        Workbench::new(101).validate(config).unwrap().summary()
    };
    let (large, huge) = (plan(1_000_000_000_000_000), plan(100_000_000_000_000_000));
    let least = 1_000_000_000_000_000 * 16 * 32;
    assert!(large.bytes_per_rank.activations > least);
    assert_eq!(huge.bytes_per_rank.activations, u64::MAX);
    assert_eq!(huge.all_reduce_bytes_per_step, u64::MAX);
    assert_eq!(huge.gathered_logits_numbers, u64::MAX);
}

#[test]
fn sizes_that_cannot_be_computed_with_are_refused() {
    let error = plan_error(micro(|config| gpt2(config).num_layers = number(1 << 40)));
    assert_eq!(error, "num_layers = 1099511627776: must be at most 65535");
    let error = plan_error(micro(|config| gpt2(config).hidden_size = number(1 << 62)));
    assert!(error.contains("more than can be computed with"), "{error}");
    let error = plan_error(micro(|config| gpt2(config).seq_length = number(usize::MAX)));
    assert!(error.contains("more than can be computed with"), "{error}");
}

#[test]
fn misspelt_and_missing_keys_are_named_with_their_line() {
    let error = parse_error(&MICRO.replace("warmup_steps = 2", "warmup_step = 2"));
    assert!(
        error.contains("unknown field `warmup_step`") && error.contains("line 22, column 1"),
        "{error}"
    );

    let error = parse_error(&MICRO.replace("num_layers = 2", "layers = 2"));
    assert!(error.contains("unknown field `layers`"), "{error}");

    let error = parse_error(&MICRO.replace("micro_batch_size = 4\n", ""));
    assert!(error.contains("missing field `micro_batch_size`"), "{error}");

    let error = parse_error(&MICRO.replace("[model.gpt2]", "[model.gpt3]"));
    assert!(error.contains("unknown variant `gpt3`") && error.contains("`gpt2`"), "{error}");
}

#[test]
fn impossible_values_are_refused_where_they_stand() {
    let error = parse_error(&MICRO.replace("num_layers = 2", "num_layers = 0"));
    assert!(error.contains("num_layers = 0") && error.contains("nonzero"), "{error}");

    let error = parse_error(&MICRO.replace("90,10,0", "90,abc5,5"));
    assert!(error.contains("split \"90,abc5,5\": `abc5` is no number"), "{error}");
}

#[test]
fn batch_that_does_not_divide_is_refused() {
    let error = plan_error(micro(|config| config.batch.global_batch_size = number(10)));
    assert_eq!(
        error,
        "global_batch_size = 10 cannot be cut into micro-batches of micro_batch_size = 4; \
         allowed: 1, 2, 5, 10"
    );

    let error = plan_error(micro(|config| {
        config.batch.global_batch_size = number(24);
        config.parallel.data_parallel_size = number(4);
    }));
    assert_eq!(
        error,
        "global_batch_size = 24 in micro-batches of 4 cannot be split over --dp 4; \
         allowed: 1, 2, 3, 6"
    );

    let error = plan_error(micro(|config| {
        config.batch.global_batch_size = number(1 << 62);
    }));
    assert!(error.contains("more tokens than can be counted"), "{error}");
}

#[test]
fn heads_that_do_not_divide_are_refused_with_the_sizes_that_do() {
    let config = micro(|config| {
        config.parallel.tensor_parallel_size = number(4);
        gpt2(config).num_attention_heads = number(25);
        gpt2(config).hidden_size = number(100);
    });
    assert_eq!(
        plan_error(config),
        "25 attention heads cannot be split over --tp 4; allowed: 1, 5, 25"
    );
}

#[test]
fn other_sizes_that_do_not_divide_are_refused() {
    let width = micro(|config| gpt2(config).hidden_size = number(30));
    assert!(plan_error(width).contains("30"));

    let ffn = micro(|config| {
        config.parallel.tensor_parallel_size = number(4);
        gpt2(config).ffn_hidden_size = Some(number(50));
    });
    assert!(plan_error(ffn).contains("ffn_hidden_size = 50"));
}

#[test]
fn optimizer_out_of_range_is_refused_by_name() {
    let error = plan_error(micro(|config| config.optimizer.beta2 = 1.0));
    assert_eq!(error, "optimizer.beta2 = 1: must be at least 0 and below 1");
    let error = plan_error(micro(|config| config.optimizer.min_lr = 2e-3));
    assert_eq!(error, "optimizer.min_lr = 0.002: must lie between 0 and lr");
    let error = plan_error(micro(|config| config.optimizer.lr = f64::NAN));
    assert!(error.starts_with("optimizer.lr = NaN: "), "{error}");
}

#[test]
fn vocabulary_comes_from_the_data_and_must_agree_where_it_is_written() {
    let workbench = Workbench::new(101);
    let plan = workbench.validate(micro(|_| {})).unwrap();
    assert_eq!(plan.architecture.vocab_size(), 101);
    assert!(
        workbench.validate(micro(|config| gpt2(config).vocab_size = Some(number(101)))).is_ok()
    );
    let error = plan_error(micro(|config| gpt2(config).vocab_size = Some(number(128))));
    assert!(
        error.starts_with("vocab_size = 128, but the tokenizer of ")
            && error.contains(" has 101 tokens; leave vocab_size out"),
        "{error}"
    );
}

#[test]
fn corpus_smaller_than_one_sample_is_refused() {
    // Three documents, 700 tokens with their ends.
    let documents = [vec![1; 233], vec![2; 232], vec![3; 232]];
    let workbench = Workbench::with_documents(101, &documents);
    let config = |seq_length| {
        micro(|config| {
            gpt2(config).seq_length = number(seq_length);
            config.data.split = "100,0,0".parse().unwrap();
        })
    };
    let error = workbench.validate(config(1_024)).unwrap_err().to_string();
    assert_eq!(error, "corpus has 700 tokens, one sample needs 1025");
    let plan = workbench.validate(config(699)).unwrap();
    assert_eq!(plan.train.samples.samples().len(), 1);
}

#[test]
fn empty_validation_part_is_refused_while_validation_is_on() {
    let on = |split: &str| {
        let split: SplitWeights = split.parse().unwrap();
        micro(|config| {
            config.data.split = split;
            config.validation =
                Some(ValidationConfig { interval_steps: NonZeroU64::MIN, batches: None });
        })
    };
    let error = plan_error(on("100,0,0"));
    assert!(
        error.starts_with(
            "the validation part of split \"100,0,0\" has 0 tokens, one sample needs 17"
        ),
        "{error}"
    );
    let error = plan_error(on("0,100,0"));
    assert!(error.starts_with("the training part of split \"0,100,0\" has 0 tokens"), "{error}");
    assert!(Workbench::new(101).validate(on("90,10,0")).is_ok());
}
