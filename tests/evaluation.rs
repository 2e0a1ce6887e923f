//! Evaluation: protocols against reference values, and what a user sees when the input is wrong.
//!
//! Reference values: `fixtures/evaldata`.

mod checkpoint;
mod contamination;
mod data_parallel;
mod detokenizer;
mod hugging_face;
mod input;
mod lambada;
mod lm_eval;
mod masked_lm;
mod published;
pub(crate) mod race;
mod resume;
mod summary;
mod validation;
mod wikitext103;
mod windows;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use corpus::Silent;
use evaluation::wikitext103::{Measured, WikiText103};
use evaluation::{
    CheckpointKind, EvalConfig, EvalError, EvalPlan, EvaluatedModel, ModelIdentity, Protocol, Task,
    TaskResult,
};
pub(crate) use lm_eval::RAW as LM_EVAL_RAW;
use sha2::{Digest, Sha256};
use training::TrainError;
use training::architecture::Architecture;
use training::backend::Activation;
use training::inference::Scorer;
use training::model::Gpt2Config;
use training::parameters::{ParameterSource, ParameterSpec};

/// WikiText103's test split, which the repository does not hold.
pub(crate) fn wikitext103_test_file() -> Option<PathBuf> {
    published_file("wiki.test.tokens")
}

/// A published test set, which the repository does not hold.
#[expect(clippy::print_stdout, reason = "the test's output says why it was skipped")]
fn published_file(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
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

/// A model of nothing but embeddings and the last layer norm, so that the logits after a token
/// depend on that token and its position alone and can be computed by hand.
#[derive(Clone)]
struct Known {
    /// `[vocab_size, hidden_size]`.
    embeddings: Vec<f32>,
    /// `[seq_length, hidden_size]`.
    positions: Vec<f32>,
    hidden_size: usize,
    epsilon: f64,
}

impl ParameterSource for Known {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        match spec.name.as_str() {
            "transformer.wte.weight" => Ok(spec.slice(&self.embeddings, rank, size)),
            "transformer.wpe.weight" => Ok(spec.slice(&self.positions, rank, size)),
            "transformer.ln_f.weight" => Ok(vec![1.0; spec.num_elements()]),
            _ => Zeros.local(spec, rank, size),
        }
    }
}

impl Known {
    fn zeros(config: &Gpt2Config) -> Self {
        Self {
            embeddings: vec![0.0; config.vocab_size * config.hidden_size],
            positions: vec![0.0; config.seq_length * config.hidden_size],
            hidden_size: config.hidden_size,
            epsilon: config.layer_norm_epsilon,
        }
    }

    /// A bigram model: positions make no difference.
    fn bigram(config: &Gpt2Config) -> Self {
        // Numbers in [-1, 1) without a pattern that matters: the fractional parts of multiples of
        // the golden ratio.
        let number =
            |index: usize| ((index as f64 * 0.618_033_988_749_894_9).fract() * 2.0 - 1.0) as f32;
        let mut model = Self::zeros(config);
        model.embeddings = (0..model.embeddings.len()).map(number).collect();
        model
    }

    /// A model that predicts each token of `script` at its position, and at all others every token
    /// alike.
    fn scripted(config: &Gpt2Config, script: &[(usize, u32)]) -> Self {
        assert!(script.len() <= config.hidden_size);
        let mut model = Self::zeros(config);
        for (code, &(position, token)) in script.iter().enumerate() {
            model.positions[position * config.hidden_size + code] = 100.0;
            model.embeddings[token as usize * config.hidden_size + code] = 4.0;
        }
        model
    }

    /// Negative log-likelihood of `target` after `token` at `position`, in f64.
    fn nll(&self, token: u32, position: usize, target: u32) -> f64 {
        let width = self.hidden_size;
        let row = |values: &[f32], index: usize| -> Vec<f64> {
            values[index * width..][..width].iter().map(|&value| f64::from(value)).collect()
        };
        let input: Vec<f64> = row(&self.embeddings, token as usize)
            .iter()
            .zip(row(&self.positions, position))
            .map(|(token, position)| token + position)
            .collect();
        let mean = input.iter().sum::<f64>() / width as f64;
        let variance = input.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64;
        let scale = (variance + self.epsilon).sqrt();
        let hidden: Vec<f64> = input.iter().map(|value| (value - mean) / scale).collect();
        let logit = |token| -> f64 {
            row(&self.embeddings, token).iter().zip(&hidden).map(|(a, b)| a * b).sum()
        };
        let num_tokens = self.embeddings.len() / width;
        (0..num_tokens).map(|token| logit(token).exp()).sum::<f64>().ln() - logit(target as usize)
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
    let scorer = Scorer::new(config, source, positive(tensor_parallel_size)).unwrap();
    EvaluatedModel::new(identity(config), scorer)
}

fn identity(config: &Gpt2Config) -> ModelIdentity {
    ModelIdentity {
        checkpoint: "made in a test".into(),
        kind: CheckpointKind::Trained,
        step: Some(0),
        architecture: Architecture::Gpt2(config.clone()),
        split_weights: None,
        masked_lm: None,
        tokenizer: corpus::tokenizer::open("gpt2").unwrap(),
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
    Task::WikiText103(WikiText103 {
        name: "made".to_owned(),
        data: data.into(),
        protocol: Protocol::Megatron,
    })
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

pub(crate) fn assert_close(actual: f64, expected: f64, relative: f64) {
    let difference = (actual / expected - 1.0).abs();
    assert!(
        difference <= relative,
        "{actual} differs from {expected} by {difference:e}, more than {relative:e} of it"
    );
}
