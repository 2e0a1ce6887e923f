//! Causal attention from the projection of queries, keys and values.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor};
use training::backend::{AttentionSettings, CpuAutodiff, VisibleKeys, attention};

use super::operation::{Operation, T, leaf, numbers, with_backward};
use crate::{BATCH, HEADS, HIDDEN, SEQ};

const HEAD_SIZE: usize = HIDDEN / HEADS;

pub(crate) fn all() -> Vec<Operation> {
    let projection = numbers(BATCH * SEQ * 3 * HIDDEN, 1);
    let inputs = move || leaf(&projection, [BATCH, SEQ, 3 * HIDDEN]);
    let scale = (HEAD_SIZE as f64).powf(-0.5);
    let settings =
        AttentionSettings { heads: HEADS, scale, visible: VisibleKeys::Causal, mask: None };
    vec![Operation::new(
        "causal attention",
        with_backward(&inputs, move |projection| attention(projection, settings.clone())),
        with_backward(&inputs, move |projection| of_operations(projection, scale)),
    )]
}

fn of_operations(projection: T<3>, scale: f64) -> T<3> {
    let part = |i: usize| {
        let part = projection.clone().narrow(2, i * HIDDEN, HIDDEN);
        part.reshape([BATCH, SEQ, HEADS, HEAD_SIZE]).swap_dims(1, 2)
    };
    let later: Tensor<CpuAutodiff, 4, Bool> =
        Tensor::<CpuAutodiff, 2, Bool>::tril_mask([SEQ, SEQ], 0, &Default::default()).unsqueeze();
    let scores = part(0).matmul(part(1).swap_dims(2, 3)) * scale;
    let probabilities = softmax(scores.mask_fill(later, f32::NEG_INFINITY), 3);
    probabilities.matmul(part(2)).swap_dims(1, 2).reshape([BATCH, SEQ, HIDDEN])
}
