//! Evaluation: protocols against reference values, and what a user sees when the input is wrong.
//!
//! Reference values: `fixtures/evaldata`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use corpus::Silent;
use evaluation::detokenizer::{count_original_tokens, detokenize};
use evaluation::wikitext103::{Measured, WikiText103};
use evaluation::windows::OverlapWindows;
use evaluation::{EvalConfig, EvalError, EvalPlan, EvaluatedModel, Task, TaskResult};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use training::TrainError;
use training::backend::Activation;
use training::inference::Scorer;
use training::model::Gpt2Config;
use training::parameters::{ParameterSource, ParameterSpec};

/// WikiText103's test split, which the repository does not hold.
pub(crate) fn wikitext103_test_file() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/wiki.test.tokens");
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}

pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text in WikiText's form with about 300 words, and every mark that its tokenization makes.
fn made_text() -> String {
    let head = " \n = Tin ( element ) = \n \n = = Uses = = \n \n";
    let body = " Tin melts at 231 @.@ 9 ° C , and 1 @,@ 000 tons of it 's well @-@ known <unk> are \
                used ; the \" tin man \" said ' so ' . Is it N or the miners ' tin ? \n";
    format!("{head}{}", body.repeat(8))
}

pub(crate) fn positive(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

pub(crate) fn reference(folder: &str) -> serde_json::Value {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = fs::read_to_string(fixtures.join(folder).join("expect.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

// Detokenizer.

#[test]
fn detokenizer_gives_the_reference_text_of_every_worked_case() {
    let expected = reference("evaldata");
    let cases = expected["wikitext103_test"]["detok_cases"].as_array().unwrap();
    assert_eq!(cases.len(), 21);
    for case in cases {
        let (given, wanted) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        assert_eq!(detokenize(given), wanted, "of {given:?}");
    }
}

#[test]
fn detokenizer_keeps_the_originals_slash_flaw() {
    assert_eq!(detokenize("a /' 5/ b"), "a /'[0-9]/ b");
    assert_eq!(detokenize("a /' x/ b"), "a /' x/ b");
}

#[test]
fn detokenizer_leaves_an_unclosed_bracket_alone() {
    assert_eq!(detokenize("a ( b [ c ] d"), "a ( b [c] d");
}

#[test]
fn original_tokens_are_pieces_between_single_spaces() {
    // The line end between two spaces is a piece, and so is the nothing between two neighboring spaces.
    assert_eq!(count_original_tokens(" \n = A = \n b  c \n "), 7);
    assert_eq!(count_original_tokens("one"), 1);
}

#[test]
fn wikitext103_detokenizes_to_the_reference_text() {
    let Some(file) = wikitext103_test_file() else { return };
    let expected = &reference("evaldata")["wikitext103_test"];
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(count_original_tokens(&text) as u64, expected["original_tokens"].as_u64().unwrap());
    assert_eq!(sha256(detokenize(&text)), expected["sha256_detok"].as_str().unwrap());
}

// Windows.

proptest! {
    #[test]
    fn every_target_is_scored_exactly_once_and_token_0_never(
        num_tokens in 0_usize..400, window in 1_usize..80, overlap in 1_usize..80,
    ) {
        let overlap = overlap.min(window);
        let tokens: Vec<u32> = (0..num_tokens as u32).collect();
        let windows = OverlapWindows::new(&tokens, positive(window), positive(overlap));
        let mut times_scored = vec![0; num_tokens];
        for window_of_text in windows.scoring() {
            prop_assert!(window_of_text.tokens.len() <= window + 1);
            for position in window_of_text.scored {
                times_scored[window_of_text.tokens[position + 1] as usize] += 1;
            }
        }
        prop_assert!(times_scored.iter().take(1).all(|&times| times == 0));
        prop_assert!(times_scored.iter().skip(1).all(|&times| times == 1));
    }

    #[test]
    fn all_windows_but_the_first_see_at_least_window_minus_overlap_tokens(
        num_tokens in 2_usize..400, window in 1_usize..80, overlap in 1_usize..80,
    ) {
        let overlap = overlap.min(window);
        let tokens = vec![0; num_tokens];
        let windows = OverlapWindows::new(&tokens, positive(window), positive(overlap));
        prop_assert!(windows.scoring().skip(1).all(|later| later.scored.start == window - overlap));
    }
}

#[test]
fn window_counts_are_the_originals() {
    let tokens = vec![0; 270_330];
    let count =
        |overlap| OverlapWindows::new(&tokens, positive(1024), positive(overlap)).num_windows();
    assert_eq!([count(32), count(1024), count(512)], [8_448, 264, 528]);
    let one = OverlapWindows::new(&tokens[..2], positive(1024), positive(32));
    assert_eq!((one.num_windows(), one.scoring().count()), (1, 1));
}

#[test]
fn trailing_windows_that_score_nothing_are_counted_but_not_computed() {
    let tokens = vec![0; 270_330];
    let windows = OverlapWindows::new(&tokens, positive(1024), positive(32));
    // 1,024 targets in the first window, 32 in each later one.
    assert_eq!(windows.scoring().count(), 1 + (270_329_usize - 1_024).div_ceil(32));
}

// Scoring.

/// A model whose every parameter is zero: all logits are 0, whatever the text.
struct Zeros;

impl ParameterSource for Zeros {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(vec![0.0; spec.local_shape(rank, size).iter().product()])
    }
}

/// A bigram model: nothing but token embeddings and the last layer norm, so that the logits after a token depend on that
/// token alone.
struct Bigram {
    /// `[vocab_size, hidden_size]`.
    embeddings: Vec<f32>,
}

impl ParameterSource for Bigram {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        match spec.name.as_str() {
            "transformer.wte.weight" => Ok(spec.slice(&self.embeddings, rank, size)),
            "transformer.ln_f.weight" => Ok(vec![1.0; spec.num_elements()]),
            _ => Zeros.local(spec, rank, size),
        }
    }
}

impl Bigram {
    fn new(config: &Gpt2Config) -> Self {
        let count = config.vocab_size * config.hidden_size;
        // Numbers in [-1, 1) without a pattern that matters: the fractional parts of multiples of the golden ratio.
        let number =
            |index: usize| ((index as f64 * 0.618_033_988_749_894_9).fract() * 2.0 - 1.0) as f32;
        Self { embeddings: (0..count).map(number).collect() }
    }

    /// Negative log-likelihood of all tokens but the first, in f64 and without windows.
    fn total_nll(&self, tokens: &[u32], hidden_size: usize, epsilon: f64) -> f64 {
        let row = |token: u32| {
            let start = token as usize * hidden_size;
            self.embeddings[start..start + hidden_size].iter().map(|&value| f64::from(value))
        };
        let num_rows = (self.embeddings.len() / hidden_size) as u32;
        let nll = |pair: &[u32]| {
            let mean = row(pair[0]).sum::<f64>() / hidden_size as f64;
            let variance =
                row(pair[0]).map(|value| (value - mean).powi(2)).sum::<f64>() / hidden_size as f64;
            let scale = (variance + epsilon).sqrt();
            let normed: Vec<f64> = row(pair[0]).map(|value| (value - mean) / scale).collect();
            let logit = |token| row(token).zip(&normed).map(|(a, b)| a * b).sum::<f64>();
            (0..num_rows).map(|token| logit(token).exp()).sum::<f64>().ln() - logit(pair[1])
        };
        tokens.windows(2).map(nll).sum()
    }
}

/// A GPT-2 with the real vocabulary and hardly anything else.
fn narrow_gpt2(seq_length: usize) -> Gpt2Config {
    Gpt2Config {
        num_layers: 1,
        hidden_size: 8,
        num_attention_heads: 2,
        seq_length,
        vocab_size: 50_257,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    }
}

fn evaluated<S>(config: &Gpt2Config, source: S, tensor_parallel_size: usize) -> EvaluatedModel
where
    S: ParameterSource + Send + 'static,
{
    EvaluatedModel {
        scorer: Scorer::new(config, source, positive(tensor_parallel_size)).unwrap(),
        tokenizer: corpus::tokenizer::open("gpt2").unwrap(),
        checkpoint: "made in a test".to_owned(),
    }
}

fn plan(overlap: usize, tensor_parallel_size: usize) -> EvalPlan {
    let config = EvalConfig {
        overlap: positive(overlap),
        tensor_parallel_size: positive(tensor_parallel_size),
        ..EvalConfig::default()
    };
    config.validate(PathBuf::from("unused"), vec![task("unused")]).unwrap()
}

fn task(data: impl Into<PathBuf>) -> Task {
    Task::WikiText103(WikiText103 { name: "made".to_owned(), data: data.into() })
}

/// Runs the task on `text`, written to a file.
fn run_on_text(
    text: impl AsRef<[u8]>,
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
) -> Result<TaskResult, EvalError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.tokens");
    fs::write(&file, text).unwrap();
    task(file).run(model, plan, &Silent)
}

fn measured(result: &TaskResult) -> &Measured {
    match &result.measured {
        evaluation::Measured::WikiText103(measured) => measured,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_uniform_model_has_word_perplexity_of_vocabulary_to_the_token_ratio() {
    for tensor_parallel_size in [1, 2] {
        let mut model = evaluated(&narrow_gpt2(64), Zeros, tensor_parallel_size);
        let result = run_on_text(made_text(), &mut model, &plan(32, tensor_parallel_size)).unwrap();
        let Measured { metrics, counts, settings, .. } = measured(&result);
        let ratio = (counts.tokens - 1) as f64 / (counts.original_tokens - 1) as f64;
        assert_eq!(settings.token_ratio, ratio);
        assert_eq!(counts.targets, counts.tokens - 1);
        // The loss is an f32: 1e-7 relative, times the exponent of about 13.
        assert_close(metrics.word_perplexity, 50_257_f64.powf(ratio), 3e-6);
        assert_close(metrics.token_perplexity, 50_257.0, 3e-6);
        assert_close(metrics.total_nll, 50_257_f64.ln() * counts.targets as f64, 2e-7);
        let bits = 50_257_f64.log2() * counts.targets as f64;
        assert_close(metrics.bits_per_byte, bits / made_text().len() as f64, 2e-7);
    }
}

#[test]
fn a_bigram_model_scores_the_same_total_in_windows_as_pair_by_pair() {
    let config = narrow_gpt2(64);
    let bigram = Bigram::new(&config);
    let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
    let mut tokens = Vec::new();
    tokenizer.encode(&detokenize(&made_text()), &mut tokens);
    let expected = bigram.total_nll(&tokens, 8, config.layer_norm_epsilon);

    let mut model = evaluated(&config, bigram, 1);
    for overlap in [64, 32, 7] {
        let result = run_on_text(made_text(), &mut model, &plan(overlap, 1)).unwrap();
        // f32 losses of some 10 nats, summed over 350 targets in f64.
        assert_close(measured(&result).metrics.total_nll, expected, 1e-6);
    }
}

#[test]
fn the_report_states_every_setting() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let result = run_on_text(made_text(), &mut model, &plan(32, 1)).unwrap();
    let json =
        serde_json::to_value(evaluation::EvalReport { results: vec![result.clone()] }).unwrap();
    let result_json = &json["results"][0];
    assert_eq!(result_json["task"], "made");
    assert_eq!(result_json["protocol"], "megatron");
    assert_eq!(result_json["partial"], false);
    assert_eq!(result_json["settings"]["window"], 64);
    assert_eq!(result_json["settings"]["overlap"], 32);
    assert_eq!(result_json["settings"]["tokenizer"], "gpt2");
    assert_eq!(result_json["settings"]["padded_vocabulary"], "masked");
    let table = evaluation::EvalReport { results: vec![result] }.to_string();
    for section in ["metrics", "counts", "settings"] {
        for name in result_json[section].as_object().unwrap().keys() {
            assert!(table.contains(name.as_str()), "{name} is missing in\n{table}");
        }
    }
}

#[test]
fn a_limit_scores_that_many_windows_and_marks_the_result_partial() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(3)), ..plan(32, 1) };
    let result = run_on_text(made_text(), &mut model, &plan).unwrap();
    let Measured { metrics, counts, settings, .. } = measured(&result);
    assert!(result.partial);
    assert_eq!((counts.windows_scored, counts.targets), (3, 64 + 32 + 32));
    // Words count in proportion, so a uniform model keeps its perplexity.
    assert_close(metrics.word_perplexity, 50_257_f64.powf(settings.token_ratio), 3e-6);
}

#[test]
fn wikitext103_has_the_papers_counts() {
    let Some(data) = wikitext103_test_file() else { return };
    let expected = &reference("evaldata")["wikitext103_test"];
    let mut model = evaluated(&narrow_gpt2(1024), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(2)), ..plan(32, 1) };
    let result = task(data).run(&mut model, &plan, &Silent).unwrap();
    let Measured { counts, settings, .. } = measured(&result);
    assert_eq!(counts.bytes as u64, expected["bytes"].as_u64().unwrap());
    assert_eq!(counts.original_tokens, 245_566);
    assert_eq!(counts.tokens, 270_330);
    assert_eq!(counts.windows, 8_448);
    assert_eq!(settings.token_ratio, 1.100_844_990_124_814_3);
}

pub(crate) fn assert_close(actual: f64, expected: f64, relative: f64) {
    let difference = (actual / expected - 1.0).abs();
    assert!(
        difference <= relative,
        "{actual} differs from {expected} by {difference:e}, more than {relative:e} of it"
    );
}

// Bad input.

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
    assert!(message_for_text("").ends_with("test.tokens is empty"));
    assert!(message_for_text(" \n\n ").ends_with("test.tokens is empty"));
}

#[test]
fn a_test_file_of_one_word_is_refused() {
    let found = message_for_text("word\n");
    assert!(found.contains("has 1 words and 2 tokens; at least two of each"), "{found}");
}

#[test]
fn an_overlap_above_the_window_is_refused_with_the_allowed_values() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = run_on_text(made_text(), &mut model, &plan(65, 1)).unwrap_err();
    let expected = "overlap = 65 exceeds the model's seq_length; allowed: 1 to 64";
    assert_eq!(message(&error), expected);
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
    assert!(matches!(error, EvalError::NonFinite { window: 0, .. }), "{error}");
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
fn a_folder_that_is_no_checkpoint_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let plan = EvalPlan { checkpoint: folder.path().to_owned(), ..plan(32, 1) };
    let found = message(&evaluation::evaluate(&plan, &Silent).unwrap_err());
    assert!(found.contains(&folder.path().display().to_string()), "{found}");
}

// Configuration.

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
