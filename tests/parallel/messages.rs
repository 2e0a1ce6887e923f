//! What the ranks send each other in one forward and backward pass: the paper's sections 3.3 and
//! 3.4, counted on the model itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use burn::tensor::{Int, Tensor, TensorData};
use training::backend::{Activation, CpuAutodiff};
use training::model::{Gpt2, KeyedInit};
use training::parallel::collective::{Collective, CollectiveError, ReduceOp, ThreadCollective};
use training::parallel::{ParallelDims, TensorParallelGroup, launch};

use crate::micro_gpt2;

/// Calls and numbers of every collective, by name.
type Messages = BTreeMap<String, (usize, usize)>;

/// A group's collective that notes what goes through it.
#[derive(Debug)]
struct Recorder {
    inner: ThreadCollective,
    messages: Arc<Mutex<Messages>>,
}

impl Recorder {
    fn note(&self, name: &str, numbers: usize) {
        let mut messages = self.messages.lock().unwrap();
        let (calls, all_numbers) = messages.entry(name.to_owned()).or_default();
        *calls += 1;
        *all_numbers += numbers;
    }
}

impl Collective for Recorder {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn all_reduce(
        &self,
        name: &str,
        buffer: &mut [f32],
        op: ReduceOp,
    ) -> Result<(), CollectiveError> {
        self.note(name, buffer.len());
        self.inner.all_reduce(name, buffer, op)
    }

    fn all_gather(&self, name: &str, part: &[f32]) -> Result<Vec<f32>, CollectiveError> {
        self.note(name, part.len());
        self.inner.all_gather(name, part)
    }

    fn broadcast(
        &self,
        name: &str,
        buffer: &mut [f32],
        root: usize,
    ) -> Result<(), CollectiveError> {
        self.note(name, buffer.len());
        self.inner.broadcast(name, buffer, root)
    }

    fn barrier(&self, name: &str) -> Result<(), CollectiveError> {
        self.note(name, 0);
        self.inner.barrier(name)
    }

    fn fail(&self, failure: &CollectiveError) {
        self.inner.fail(failure);
    }
}

/// What every rank of a group of `size` sends in one pass over a batch of `[batch, seq]`.
fn messages(size: usize, batch: usize, seq: usize) -> Vec<Messages> {
    let dims = ParallelDims::one_replica(size);
    let recorders = ThreadCollective::group(dims.places(), Duration::from_secs(60));
    let recorders: Vec<_> = recorders
        .into_iter()
        .map(|inner| Arc::new(Recorder { inner, messages: Arc::default() }))
        .collect();
    launch(dims, |rank| {
        let recorder = Arc::clone(&recorders[rank.tensor_parallel.rank()]);
        let group = TensorParallelGroup::new(recorder);
        let (config, device) = (micro_gpt2::config(Activation::Gelu), Default::default());
        let model = Gpt2::<CpuAutodiff>::init(&config, &KeyedInit { seed: 1 }, &group, &device)?;
        let tokens = TensorData::new(vec![1_i64; batch * seq], [batch, seq]);
        let tokens = Tensor::<CpuAutodiff, 2, Int>::from_data(tokens, &device);
        model.loss(tokens, &vec![2; batch * seq], &vec![1.0; batch * seq], None).backward();
        Ok(())
    })
    .unwrap();
    recorders.iter().map(|recorder| recorder.messages.lock().unwrap().clone()).collect()
}

#[test]
fn a_pass_all_reduces_four_activations_per_layer_and_three_numbers_per_position_of_the_loss() {
    let (batch, seq, hidden_size, num_layers) = (2, 24, 32, 2);
    let (positions, activation) = (batch * seq, batch * seq * hidden_size);
    let expected: Messages = [
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
    .map(|(name, calls, numbers)| (name.to_owned(), (calls, calls * numbers)))
    .collect();
    for size in [2, 4] {
        for (rank, sent) in messages(size, batch, seq).into_iter().enumerate() {
            assert_eq!(sent, expected, "rank {rank} of {size}");
        }
    }
}
