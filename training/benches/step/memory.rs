//! The most memory that a forward and backward pass holds beyond weights and gradients.

use std::fs;
use std::sync::Arc;

use corpus::machine;
use training::backend::{Activation, CpuAutodiff, Recompute};
use training::data::Batch;
use training::model::{Gpt2, Gpt2Config, KeyedInit};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};
use training::timers::StepTimers;

use crate::{BATCH, Failure, HEADS, HIDDEN, SEQ};

/// Small, so that the head's logits do not hide what the layers hold.
const VOCABULARY: usize = 1024;

/// Prints the bytes that a pass adds at its height to what the process held before it.
pub(crate) fn run(layers: usize, recompute: bool) -> Result<(), Failure> {
    let config = Gpt2Config {
        num_layers: layers,
        hidden_size: HIDDEN,
        num_attention_heads: HEADS,
        seq_length: SEQ,
        vocab_size: VOCABULARY,
        ffn_hidden_size: None,
        hidden_dropout: 0.1,
        attention_dropout: 0.1,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    };
    let recompute = if recompute { Recompute::Layer } else { Recompute::None };
    let peaks = launch(ParallelDims::one_replica(1), |rank| {
        let (source, group) = (KeyedInit { seed: 1 }, &rank.tensor_parallel);
        let model = Gpt2::<CpuAutodiff>::init(&config, &source, group, &Default::default())?;
        let specs = config.parameters();
        let sizes = specs.iter().map(|spec| spec.local_shape(0, 1).iter().product());
        let mut gradients = GradientBuffer::new(&specs, sizes);
        let tokens: Vec<u32> =
            (0..(BATCH * (SEQ + 1)) as u32).map(|i| i * 7919 % VOCABULARY as u32).collect();
        let batch = Batch::of_samples(&tokens, SEQ, 0, BATCH * SEQ);
        let settings = PassSettings {
            dropout: DropoutKey { seed: 1, step: 1, first_sample: 0 },
            loss_scale: 1.0,
            recompute,
        };
        let mut timers = StepTimers::new(Arc::clone(&rank.calls));
        // The first pass writes to every page of the gradients, and starts the threads.
        gradients.begin();
        forward_backward(&model, &batch, &settings, &mut gradients, &mut timers);
        gradients.begin();
        // 5 sets the peak back to what the process holds.
        let is_reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        let before = machine::peak_rss_bytes();
        forward_backward(&model, &batch, &settings, &mut gradients, &mut timers);
        Ok((before.filter(|_| is_reset), machine::peak_rss_bytes()))
    })?;
    match peaks[..] {
        [(Some(before), Some(peak))] => println!("{}", peak.saturating_sub(before)),
        _ => return Err("this system does not tell a process's peak memory".into()),
    }
    Ok(())
}
