//! The most memory that a forward and backward pass holds beyond weights and gradients.

use std::fs;
use std::sync::Arc;

use corpus::machine;
use training::backend::cpu::buffers;
use training::backend::{Activation, CpuAutodiff, Recompute};
use training::data::Batch;
use training::model::{Gpt2, Gpt2Config, KeyedInit};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};
use training::timers::StepTimers;

use crate::step::model::{Model, SMALL};
use crate::table::Table;
use crate::{Failure, printed, this_program};

/// Small, so that the head's logits do not hide what the layers hold.
const VOCABULARY: usize = 1024;

/// Prints the bytes that a pass adds at its height to what the process held before it.
pub(crate) fn run(layers: usize, recompute: bool) -> Result<(), Failure> {
    let Model { hidden, heads, seq, batch, .. } = SMALL;
    let config = Gpt2Config {
        num_layers: layers,
        hidden_size: hidden,
        num_attention_heads: heads,
        seq_length: seq,
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
            (0..(batch * (seq + 1)) as u32).map(|i| i * 7919 % VOCABULARY as u32).collect();
        let batch = Batch::of_samples(&tokens, seq, 0, SMALL.tokens());
        let settings = PassSettings {
            dropout: DropoutKey { seed: 1, step: 1, first_sample: 0 },
            loss_scale: 1.0,
            recompute,
        };
        let mut timers = StepTimers::new(Arc::clone(&rank.calls));
        // The first pass makes the gradients, to which the second one adds, and starts the threads.
        gradients.begin();
        forward_backward(&model, &batch, &settings, &mut gradients, &mut timers);
        // What the first pass leaves for a next one would hide what that one takes.
        buffers::release();
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

/// The table: a process for each number of layers, with and without recomputation.
pub(crate) fn table() -> Result<(), Failure> {
    let mebibytes = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
    let mut table = Table::new(["layers", "none", "recompute", "inputs of all layers"]);
    for layers in [4, 8, 16] {
        let mut peaks = [0.0; 2];
        for (peak, recompute) in peaks.iter_mut().zip(["none", "layer"]) {
            // Memory that is given back goes to the system at once, so that what the process holds
            // is what it uses.
            let output = this_program()?
                .args(["--pass", &layers.to_string(), recompute])
                .env("MALLOC_MMAP_THRESHOLD_", "65536")
                .env("MALLOC_TRIM_THRESHOLD_", "65536")
                .output();
            *peak = printed(output, "a pass")?.trim().parse()?;
        }
        let inputs = (layers * SMALL.tokens() * SMALL.hidden * size_of::<f32>()) as f64;
        let cells = peaks.into_iter().chain([inputs]).map(mebibytes);
        table.push([layers.to_string()].into_iter().chain(cells));
    }
    println!(
        "\npeak memory of a forward and backward pass beyond weights and gradients, in MiB\n\n{table}"
    );
    Ok(())
}
