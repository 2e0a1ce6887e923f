//! Text from a trained model: the same with the cache of keys and values as without it, however it
//! is computed.

mod continuation;
mod logits;
mod sampler;
mod text_stream;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use corpus::Silent;
use training::backend::Activation;
use training::generation::{Continuation, GenerationRequest, GenerationSpeed, Generator};
use training::model::{Gpt2Config, KeyedInit, ParameterSource};

use crate::evaluation::positive;
use crate::micro_gpt2::{self, Tensors};

/// A model of odd sizes: no dimension is a multiple of a vector, and the vocabulary is padded.
fn odd_model() -> Gpt2Config {
    Gpt2Config {
        num_layers: 3,
        hidden_size: 36,
        num_attention_heads: 2,
        seq_length: 21,
        vocab_size: 101,
        ffn_hidden_size: Some(50),
        // Large initial weights make predictions that differ from position to position.
        init_std: 0.4,
        ..micro_gpt2::config(Activation::Gelu)
    }
}

/// Makes a model's weights.
type MakeWeights = Box<dyn Fn() -> Weights + Sync>;

/// The models of the tests by name, each with its sizes and its weights.
fn models() -> [(&'static str, Gpt2Config, MakeWeights); 4] {
    let fixture = |name: &'static str, activation| {
        let read = move || Weights::Read(Tensors::read(name, "model.safetensors"));
        (name, micro_gpt2::config(activation), Box::new(read) as MakeWeights)
    };
    let drawn = |name, seed, config| {
        let draw = move || Weights::Drawn(KeyedInit { seed });
        (name, config, Box::new(draw) as MakeWeights)
    };
    let wide = Gpt2Config { hidden_size: 160, seq_length: 40, ..odd_model() };
    [
        fixture("gpt2_micro", Activation::Gelu),
        fixture("gpt2_micro_gelu_new", Activation::GeluTanh),
        drawn("odd", 7, odd_model()),
        drawn("wide", 8, wide),
    ]
}

/// Weights from a file or from a seed.
enum Weights {
    Read(Tensors),
    Drawn(KeyedInit),
}

impl ParameterSource for Weights {
    fn local(
        &self,
        spec: &training::model::ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, training::TrainError> {
        match self {
            Self::Read(tensors) => tensors.local(spec, rank, size),
            Self::Drawn(init) => init.local(spec, rank, size),
        }
    }
}

fn generator(config: &Gpt2Config, weights: Weights, tensor_parallel_size: usize) -> Generator {
    Generator::new(config, weights, positive(tensor_parallel_size)).unwrap()
}

/// A request for `max_tokens` tokens after made-up tokens of a small vocabulary.
fn request(prompt_tokens: usize, max_tokens: usize) -> GenerationRequest {
    let prompt = (0..prompt_tokens as u32).map(|i| (i * 37 + 11) % 90).collect();
    GenerationRequest::new(prompt, NonZeroUsize::new(max_tokens).unwrap())
}

fn generate(generator: &mut Generator, request: &GenerationRequest) -> Vec<Continuation> {
    measured(generator, request).0
}

fn measured(
    generator: &mut Generator,
    request: &GenerationRequest,
) -> (Vec<Continuation>, GenerationSpeed) {
    generator.generate(request, &Silent, &mut |_, _| ControlFlow::Continue(())).unwrap()
}
