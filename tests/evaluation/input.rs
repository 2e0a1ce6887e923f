//! What a user sees when the input is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::Silent;
use evaluation::lambada::Lambada;
use evaluation::wikitext103::WikiText103;
use evaluation::{EvalConfig, EvalError, EvalPlan, Protocol, Task};
use training::TrainError;
use training::architecture::Architecture;
use training::model::Gpt2Config;
use training::parameters::{ParameterSource, ParameterSpec};

use super::{Zeros, evaluated, made_text, narrow_gpt2, plan, run_on_text, task};

/// The error's message with its causes, as the program prints it.
fn message(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn message_for_text(text: impl AsRef<[u8]>) -> String {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    message(&run_on_text(text, &mut model, &plan(32, 1)).unwrap_err())
}

#[test]
fn a_missing_test_file_is_named() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = task("no/such/wiki.tokens").run(&mut model, &plan(32, 1), &Silent).unwrap_err();
    assert!(message(&error).starts_with("cannot read test file no/such/wiki.tokens: "), "{error}");
}

#[test]
fn a_test_file_that_is_no_utf8_gives_the_bad_byte_and_its_line() {
    let found = message_for_text(b" \n = A = \n b \xff c");
    assert!(found.contains("bad byte at offset 13 (line 3)"), "{found}");
}

#[test]
fn an_empty_test_file_is_refused() {
    assert!(message_for_text("").contains("test.tokens is empty; give one with text"));
    assert!(message_for_text(" \n\n ").contains("test.tokens is empty; give one with text"));
}

#[test]
fn a_test_file_of_one_word_is_refused() {
    let found = message_for_text("word\n");
    assert!(found.contains("has 1 word and 2 tokens; at least two of each"), "{found}");
}

#[test]
fn an_overlap_above_the_window_is_refused_with_the_allowed_values() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = run_on_text(made_text(), &mut model, &plan(65, 1)).unwrap_err();
    let expected = "overlap = 65 exceeds the model's seq_length; allowed: 1 to 64";
    assert_eq!(message(&error), expected);
}

#[test]
fn a_plan_that_does_not_fit_a_model_is_found_without_its_weights() {
    let config = Architecture::Gpt2(narrow_gpt2(64));
    assert!(plan(64, 1).check(&config).is_ok());
    let found = plan(65, 1).check(&config).unwrap_err();
    assert_eq!(message(&found), "overlap = 65 exceeds the model's seq_length; allowed: 1 to 64");
    // No other protocol and no other task has windows that overlap.
    let Task::WikiText103(task) = task("unused") else { unreachable!() };
    let (name, data, protocol) = (task.name.clone(), task.data.clone(), Protocol::LmEval);
    let words = Lambada { name, data, protocol: Protocol::Megatron };
    let tasks = vec![Task::WikiText103(WikiText103 { protocol, ..task }), Task::Lambada(words)];
    assert!(EvalPlan { tasks, ..plan(65, 1) }.check(&config).is_ok());
}

#[test]
fn a_tokenizer_with_more_tokens_than_the_model_is_refused() {
    let config = Gpt2Config { vocab_size: 256, ..narrow_gpt2(64) };
    let mut model = evaluated(&config, Zeros, 1);
    let found = message(&run_on_text(made_text(), &mut model, &plan(32, 1)).unwrap_err());
    assert!(found.contains("but the model has 256 tokens"), "{found}");
}

#[test]
fn a_loss_that_is_no_number_is_an_error_and_no_result() {
    struct NotANumber;
    impl ParameterSource for NotANumber {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            Ok(spec.slice(&vec![f32::NAN; spec.num_elements()], rank, size))
        }
    }
    let mut model = evaluated(&narrow_gpt2(64), NotANumber, 1);
    let error = run_on_text(made_text(), &mut model, &plan(32, 1)).unwrap_err();
    assert!(matches!(error, EvalError::NonFinite { window: 0, position: 0, .. }), "{error}");
    assert!(error.to_string().contains("NaN at position 0 of window 0 of made"), "{error}");
}

#[test]
fn a_request_to_stop_ends_the_evaluation_without_a_result() {
    struct Stop;
    impl corpus::Observer for Stop {
        fn begin(&self, _stage: &str, _total: Option<u64>, _unit: corpus::Unit) {}
        fn advance(&self, _amount: u64) {}
        fn finish(&self) {}
        fn stop_requested(&self) -> bool {
            true
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.tokens");
    fs::write(&file, made_text()).unwrap();
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = task(file).run(&mut model, &plan(32, 1), &Stop).unwrap_err();
    assert!(matches!(error, EvalError::Stopped), "{error}");
}

#[test]
fn an_evaluation_without_a_task_is_refused() {
    let error = EvalConfig::default().validate(PathBuf::from("unused"), vec![]).unwrap_err();
    assert!(matches!(error, EvalError::NoTask), "{error}");
}

#[test]
fn the_committed_configuration_is_the_papers_protocol() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/eval/gpt2.toml");
    let config: EvalConfig = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(config, EvalConfig::default());
}

#[test]
fn a_misspelt_setting_is_an_error_that_names_it() {
    let error = toml::from_str::<EvalConfig>("overlapp = 32").unwrap_err();
    assert!(error.to_string().contains("overlapp"), "{error}");
}

#[test]
fn the_configuration_for_bert_holds_out_the_papers_share() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/eval/bert.toml");
    let config: EvalConfig = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let split_weights = Some("97,3,0".parse().unwrap());
    assert_eq!(config, EvalConfig { split_weights, ..EvalConfig::default() });
}
