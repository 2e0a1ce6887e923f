//! What is generated and what it takes, beforehand and afterwards.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use corpus::tokenizer::Tokenizer;
use evaluation::ModelIdentity;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use training::generation::{
    Continuation, Finish, GenerationRequest, GenerationSpeed, Sampling, TextStream,
};
use training::model::Gpt2Config;

/// What is asked for, and the memory that it takes.
#[derive(Debug, Serialize)]
pub(super) struct GenerationPlan {
    checkpoint: PathBuf,
    step: Option<u64>,
    parameters: u64,
    seq_length: usize,
    prompt_tokens: usize,
    max_tokens: usize,
    num_samples: usize,
    #[serde(flatten)]
    sampling: Sampling,
    /// Whether a text ends with the document.
    stops_at_end: bool,
    tensor_parallel_size: usize,
    /// Whether keys and values are kept.
    cache: bool,
    /// Of all ranks together.
    bytes: GenerationBytes,
}

#[derive(Debug, Serialize)]
struct GenerationBytes {
    weights: u64,
    /// Keys and values of every layer, head and position.
    cache: u64,
}

impl GenerationPlan {
    pub(super) fn of(
        request: &GenerationRequest,
        model: &ModelIdentity,
        config: &Gpt2Config,
        tensor_parallel_size: NonZeroUsize,
    ) -> Self {
        let parameters = config.num_parameters(tensor_parallel_size.get()) as u64;
        Self {
            checkpoint: model.checkpoint.clone(),
            step: model.step,
            parameters,
            seq_length: config.seq_length,
            prompt_tokens: request.prompt.len(),
            max_tokens: request.max_tokens.get(),
            num_samples: request.num_samples.get(),
            sampling: request.sampling,
            stops_at_end: request.end.is_some(),
            tensor_parallel_size: tensor_parallel_size.get(),
            cache: request.use_cache,
            bytes: GenerationBytes {
                weights: parameters * size_of::<f32>() as u64,
                cache: request.key_value_bytes(config),
            },
        }
    }

    /// The settings in a line.
    pub(super) fn settings(&self) -> String {
        let Sampling { temperature, top_k, top_p, seed } = self.sampling;
        let how = if temperature == 0.0 {
            "the most probable token every time".to_owned()
        } else {
            let top_k = top_k.map_or("off".to_owned(), |k| k.to_string());
            let top_p = if top_p == 1.0 { "off".to_owned() } else { top_p.to_string() };
            format!("temperature {temperature}, top-k {top_k}, top-p {top_p}, seed {seed}")
        };
        let cache = match self.cache {
            true => format!("keys and values {}", HumanBytes(self.bytes.cache)),
            false => "without cache".to_owned(),
        };
        let mut line = format!(
            "{} at step {}: {how}; prompt of {} tokens, weights {}, {cache}",
            self.checkpoint.display(),
            HumanCount(self.step.unwrap_or_default()),
            HumanCount(self.prompt_tokens as u64),
            HumanBytes(self.bytes.weights),
        );
        if self.prompt_tokens.saturating_add(self.max_tokens) > self.seq_length {
            line.push_str(&format!(
                "; the model sees {} tokens: a longer text goes on from the second half of them",
                HumanCount(self.seq_length as u64)
            ));
        }
        line
    }
}

/// What texts go on from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompt<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [u32],
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct GenerationReport {
    prompt: String,
    samples: Vec<Sample>,
    settings: GenerationPlan,
    /// New tokens of all samples.
    pub(super) tokens: usize,
    /// Time until the prompt was read, and of all tokens.
    seconds: f64,
    prompt_tokens_per_second: f64,
    /// Of all samples together, after the prompt.
    tokens_per_second: f64,
    /// How often the text outgrew what the model sees.
    slides: usize,
}

#[derive(Debug, Serialize)]
struct Sample {
    /// What follows the prompt.
    text: String,
    tokens: Vec<u32>,
    finish: Finish,
}

impl GenerationReport {
    pub(super) fn new(
        plan: GenerationPlan,
        prompt: Prompt<'_>,
        texts: Vec<Continuation>,
        speed: GenerationSpeed,
        tokenizer: &dyn Tokenizer,
    ) -> Self {
        let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
        let sample = |text: Continuation| Sample {
            text: TextStream::after(tokenizer, prompt.tokens).all(&text.tokens),
            tokens: text.tokens,
            finish: text.finish,
        };
        Self {
            prompt: prompt.text.to_owned(),
            tokens: texts.iter().map(|text| text.tokens.len()).sum(),
            samples: texts.into_iter().map(sample).collect(),
            seconds: (speed.prompt + speed.continuation).as_secs_f64(),
            prompt_tokens_per_second: rate(plan.prompt_tokens, speed.prompt),
            tokens_per_second: rate(speed.drawn_tokens, speed.continuation),
            slides: speed.slides,
            settings: plan,
        }
    }

    pub(super) fn has_finish(&self, finish: Finish) -> bool {
        self.samples.iter().any(|sample| sample.finish == finish)
    }

    /// The texts, each below a line with its number.
    pub(super) fn texts(&self) -> String {
        let count = self.samples.len();
        let texts = self.samples.iter().enumerate().map(|(index, sample)| {
            let text = format!("{}{}", self.prompt, sample.text);
            format!("--- sample {} of {count} ---\n{}\n", index + 1, text.trim_end_matches('\n'))
        });
        texts.collect()
    }

    /// How fast it was, in a line.
    pub(super) fn speed_line(&self) -> String {
        let ended = self.samples.iter().filter(|text| text.finish == Finish::EndOfDocument).count();
        let ended = match (ended, self.samples.len()) {
            (0, _) => String::new(),
            (_, 1) => ", ended by the model".to_owned(),
            (ended, all) => format!(", {ended} of {all} texts ended by the model"),
        };
        format!(
            "{} tokens in {:.1} s{ended}: {:.1} tokens/s after a prompt at {:.1} tokens/s",
            HumanCount(self.tokens as u64),
            self.seconds,
            self.tokens_per_second,
            self.prompt_tokens_per_second,
        )
    }
}
