//! What a layer does between its matrix products, and the embedding.

use burn::tensor::activation::gelu;
use burn::tensor::module::embedding;
use burn::tensor::{Distribution, Int, Tensor, TensorData, TensorPrimitive};
use training::backend::{
    Activation, CpuAutodiff, TpBackend, bias_dropout_add, bias_gelu, layer_norm,
};
use training::parallel::random::{DropoutKey, DropoutMask, DropoutSite};
use training::parallel::{TensorParallelGroup, VocabularyRange};

use super::operation::{Operation, T, leaf, numbers, with_backward};
use crate::{BATCH, HIDDEN, SEQ, VOCABULARY};

const PROBABILITY: f64 = 0.1;

pub(crate) fn all() -> Vec<Operation> {
    vec![norm(), activation(), residual(), residual_with_dropout(), lookup()]
}

/// `[batch, seq, width]` and vectors along its last dimension.
fn inputs<const N: usize>(width: usize) -> impl Fn() -> (T<3>, [T<1>; N]) + Clone {
    let (input, vector) = (numbers(BATCH * SEQ * width, 1), numbers(width, 2));
    move || (leaf(&input, [BATCH, SEQ, width]), [(); N].map(|()| leaf(&vector, [width])))
}

fn norm() -> Operation {
    let inputs = inputs(HIDDEN);
    Operation::new(
        "layer norm",
        with_backward(&inputs, |(input, [gain, bias])| layer_norm(input, gain, bias, 1e-5)),
        with_backward(&inputs, |(input, [gain, bias])| {
            let centered = input.clone() - input.mean_dim(2);
            let variance = (centered.clone() * centered.clone()).mean_dim(2);
            centered / (variance + 1e-5).sqrt() * gain.unsqueeze() + bias.unsqueeze()
        }),
    )
}

fn activation() -> Operation {
    let inputs = inputs(4 * HIDDEN);
    Operation::new(
        "bias and GELU",
        with_backward(&inputs, |(input, [bias])| bias_gelu(input, bias, Activation::Gelu)),
        with_backward(&inputs, |(input, [bias])| gelu(input + bias.unsqueeze())),
    )
}

/// Input, bias and residual.
fn residual_inputs() -> impl Fn() -> (T<3>, T<1>, T<3>) + Clone {
    let inputs = inputs(HIDDEN);
    let residual = numbers(BATCH * SEQ * HIDDEN, 3);
    move || {
        let (input, [bias]) = inputs();
        (input, bias, leaf(&residual, [BATCH, SEQ, HIDDEN]))
    }
}

fn residual() -> Operation {
    let inputs = residual_inputs();
    Operation::new(
        "bias and residual",
        with_backward(&inputs, |(input, bias, residual)| {
            bias_dropout_add(input, bias, residual, None)
        }),
        with_backward(&inputs, |(input, bias, residual)| residual + (input + bias.unsqueeze())),
    )
}

fn residual_with_dropout() -> Operation {
    let inputs = residual_inputs();
    let key = DropoutKey { seed: 1, step: 1, first_sample: 0 };
    let mask = DropoutMask::new(&key, DropoutSite::MlpOutput, 0, PROBABILITY);
    Operation::new(
        "bias, dropout and residual",
        with_backward(&inputs, move |(input, bias, residual)| {
            bias_dropout_add(input, bias, residual, Some(mask))
        }),
        with_backward(&inputs, |(input, bias, residual)| {
            let input: T<3> = input + bias.unsqueeze();
            let mask = input.random_like(Distribution::Bernoulli(1.0 - PROBABILITY));
            residual + input * mask * (1.0 / (1.0 - PROBABILITY))
        }),
    )
}

fn lookup() -> Operation {
    let vocabulary = VocabularyRange::new(VOCABULARY, &TensorParallelGroup::single());
    // Held by the model, so that no call gives its memory back.
    let table = leaf(&numbers(vocabulary.rows * HIDDEN, 1), [vocabulary.rows, HIDDEN]);
    let tokens: Vec<i32> = (0..BATCH * SEQ).map(|i| (i * 7919 % VOCABULARY) as i32).collect();
    let inputs = move || {
        let tokens = TensorData::new(tokens.clone(), [BATCH, SEQ]);
        let tokens = Tensor::<CpuAutodiff, 2, Int>::from_data(tokens, &Default::default());
        (table.clone(), tokens)
    };
    Operation::new(
        "embedding",
        with_backward(&inputs, move |(table, tokens)| {
            let table = table.into_primitive().tensor();
            let rows = CpuAutodiff::masked_lookup(table, tokens.into_primitive(), &vocabulary);
            T::<3>::from_primitive(TensorPrimitive::Float(rows))
        }),
        with_backward(&inputs, |(table, tokens)| embedding(table, tokens)),
    )
}
