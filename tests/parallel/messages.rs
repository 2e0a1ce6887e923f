//! What the ranks send each other in one forward and backward pass: the paper's sections 3.3 and
//! 3.4, counted on the model itself.

use burn::tensor::{Int, Tensor, TensorData};
use training::backend::{Activation, CpuAutodiff};
use training::model::{Gpt2, KeyedInit};
use training::parallel::collective::{CallTotal, CallTotals};
use training::parallel::{ParallelDims, launch};

use crate::micro_gpt2;

/// What every rank of a group of `size` sends in one pass over a batch of `[batch, seq]`.
fn messages(size: usize, batch: usize, seq: usize) -> Vec<CallTotals> {
    launch(ParallelDims::one_replica(size), |rank| {
        let (config, device) = (micro_gpt2::config(Activation::Gelu), Default::default());
        let source = KeyedInit { seed: 1 };
        let model = Gpt2::<CpuAutodiff>::init(&config, &source, &rank.tensor_parallel, &device)?;
        let tokens = TensorData::new(vec![1_i64; batch * seq], [batch, seq]);
        let tokens = Tensor::<CpuAutodiff, 2, Int>::from_data(tokens, &device);
        model.loss(tokens, &vec![2; batch * seq], &vec![1.0; batch * seq], None).backward();
        Ok(rank.calls.take_totals())
    })
    .unwrap()
}

#[test]
fn a_pass_all_reduces_four_activations_per_layer_and_three_numbers_per_position_of_the_loss() {
    let (batch, seq, hidden_size, num_layers) = (2, 24, 32, 2);
    let (positions, activation) = (batch * seq, batch * seq * hidden_size);
    let expected: CallTotals = [
        ("layer.attention.g", num_layers, activation),
        ("layer.mlp.g", num_layers, activation),
        ("layer.attention.f", num_layers, activation),
        ("layer.mlp.f", num_layers, activation),
        ("embedding.g", 1, activation),
        ("head.f", 1, activation),
        ("loss.max", 1, positions),
        ("loss.target", 1, positions),
        ("loss.sum", 1, positions),
    ]
    .into_iter()
    .map(|(name, calls, numbers)| {
        let numbers = (calls * numbers) as u64;
        (name.to_owned(), CallTotal { calls: calls as u64, numbers, bytes: 4 * numbers })
    })
    .collect();
    for size in [2, 4] {
        for (rank, sent) in messages(size, batch, seq).into_iter().enumerate() {
            assert_eq!(sent, expected, "rank {rank} of {size}");
        }
    }
}
