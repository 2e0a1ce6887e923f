//! The tied head with the loss.
//!
//! This crate's finds the gradients in the forward pass.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};
use training::backend::CpuAutodiff;
use training::parallel::{LmHead, Targets, TensorParallelGroup, VocabularyRange};

use super::operation::{Operation, leaf, numbers, with_backward};
use crate::{BATCH, HIDDEN, SEQ, VOCABULARY};

pub(crate) fn all() -> Vec<Operation> {
    let group = TensorParallelGroup::single();
    let head = LmHead::new("head", VOCABULARY, &group);
    let rows = VocabularyRange::new(VOCABULARY, &group).rows;
    let hidden = numbers(BATCH * SEQ * HIDDEN, 1);
    // Held by the model, so that no call gives its memory back.
    let table = leaf(&numbers(rows * HIDDEN, 2), [rows, HIDDEN]);
    let inputs = move || (leaf(&hidden, [BATCH, SEQ, HIDDEN]), table.clone());

    let positions = BATCH * SEQ;
    let tokens: Vec<u32> = (0..positions).map(|i| (i * 7919 % VOCABULARY) as u32).collect();
    let targets = Targets::new(&tokens, &vec![1.0 / positions as f32; positions]);
    vec![Operation::new(
        "head and loss",
        with_backward(&inputs, move |(hidden, table)| head.loss(hidden, table, None, &targets)),
        with_backward(&inputs, move |(hidden, table)| {
            let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
            let targets = TensorData::new(tokens, [positions, 1]);
            let targets = Tensor::<CpuAutodiff, 2, Int>::from_data(targets, &Default::default());
            let logits = hidden.reshape([positions, HIDDEN]).matmul(table.transpose());
            -log_softmax(logits, 1).gather(1, targets).mean()
        }),
    )]
}
