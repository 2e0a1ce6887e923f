//! How long a training step takes, by part, beside PyTorch's: `cargo bench --bench step`.
//!
//! Two tables. The first has the steps of a small GPT-2 in each precision, with and without
//! recomputation and on two ranks, and PyTorch's of the same model: whole runs of
//! [`training::train`] and of `torch_step.py`, each in a process of its own, round by round in turn,
//! so that a busy moment of the machine hits all alike. The second has the peak memory of a pass for
//! 4, 8 and 16 layers with and without recomputation. Nothing is asserted.
//!
//! `TORCH_PYTHON`, or `-- --python PATH`, names a Python that has torch; without it `python3` is
//! tried, and where that has none the table says so.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod step {
    pub(crate) mod memory;
    pub(crate) mod ours;
    pub(crate) mod torch;
}

use std::env;
use std::io;
use std::process::{Command, Output};

use serde::Deserialize;
use step::ours::Variant;
use step::{memory, ours, torch};

/// The model of both, and what a step sees of it.
pub(crate) const LAYERS: usize = 6;
pub(crate) const HIDDEN: usize = 384;
pub(crate) const HEADS: usize = 6;
pub(crate) const SEQ: usize = 256;
pub(crate) const BATCH: usize = 4;

/// Steps of a process, of which the first warms up.
pub(crate) const STEPS: usize = 6;
const ROUNDS: usize = 3;

/// Any error: a benchmark only tells it.
pub(crate) type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--steps", variant] => ours::run(Variant::named(variant)?),
        ["--pass", layers, recompute] => memory::run(layers.parse()?, recompute == "layer"),
        _ => {
            let python = arguments.iter().position(|&argument| argument == "--python");
            let python = python.and_then(|place| arguments.get(place + 1).copied());
            steps(torch::find(python))?;
            memory()
        }
    }
}

/// A step, in seconds. What a program does not tell is 0.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StepSeconds {
    pub(crate) step: f64,
    pub(crate) data: f64,
    pub(crate) forward: f64,
    pub(crate) backward: f64,
    pub(crate) communication: f64,
    pub(crate) optimizer: f64,
}

/// The steps of one program over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) steps: Vec<StepSeconds>,
    pub(crate) peak_bytes: u64,
}

impl Steps {
    /// Adds the steps after the first of what a process printed, and the memory that it took.
    pub(crate) fn add(&mut self, output: &str) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Peak {
            peak_bytes: u64,
        }
        let lines: Vec<&str> = output.lines().filter(|line| line.starts_with('{')).collect();
        let (last, steps) = lines.split_last().ok_or("nothing was printed")?;
        for step in steps.iter().skip(1) {
            self.steps.push(serde_json::from_str(step)?);
        }
        self.peak_bytes = self.peak_bytes.max(serde_json::from_str::<Peak>(last)?.peak_bytes);
        Ok(())
    }

    /// The median of a part in milliseconds.
    fn median(&self, part: impl Fn(&StepSeconds) -> f64) -> f64 {
        let mut values: Vec<f64> = self.steps.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).map_or(f64::NAN, |seconds| seconds * 1e3)
    }

    fn print(&self, what: &str) {
        let parts: [fn(&StepSeconds) -> f64; 5] = [
            |step| step.data,
            |step| step.forward,
            |step| step.backward,
            |step| step.communication,
            |step| step.optimizer,
        ];
        let [data, forward, backward, communication, optimizer] =
            parts.map(|part| format!("{:.1}", self.median(part)));
        let median = self.median(|step| step.step);
        let tokens = (BATCH * SEQ) as f64;
        let all = self.steps.iter().map(|step| tokens / step.step);
        let (slowest, fastest) =
            all.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let rates = format!("{slowest:.0} to {fastest:.0}");
        let rate = tokens / median * 1e3;
        let peak = self.peak_bytes as f64 / (1 << 20) as f64;
        println!(
            "{what:<28}{median:>8.0}{data:>7}{forward:>9}{backward:>10}{communication:>8}\
             {optimizer:>11}{rate:>10.0}{rates:>14}{peak:>10.0}"
        );
    }
}

/// The first table.
fn steps(torch: Result<String, String>) -> Result<(), Failure> {
    let variants = Variant::all();
    let mut ours = Vec::new();
    ours.resize_with(variants.len(), Steps::default);
    let mut peer = Steps::default();
    let mut version = String::new();
    for _ in 0..ROUNDS {
        if let Ok(python) = &torch {
            version = torch::add_steps(python, &mut peer)?;
        }
        for (variant, steps) in variants.iter().zip(&mut ours) {
            steps.add(&printed(
                this_program()?.args(["--steps", variant.name]).output(),
                variant.name,
            )?)?;
        }
    }
    println!(
        "GPT-2 of {LAYERS} layers, {HIDDEN} wide, {HEADS} heads, {BATCH} sequences of {SEQ} tokens; \
         medians of {} steps, in ms",
        ROUNDS * (STEPS - 1)
    );
    println!(
        "{:<28}{:>8}{:>7}{:>9}{:>10}{:>8}{:>11}{:>10}{:>14}{:>10}",
        "what",
        "step",
        "data",
        "forward",
        "backward",
        "comm.",
        "optimizer",
        "tokens/s",
        "slow to fast",
        "peak MiB"
    );
    for (variant, steps) in variants.iter().zip(&ours) {
        steps.print(variant.name);
    }
    println!("forward has the gradients of head and loss in it, which are made there in one pass");
    match &torch {
        Ok(_) => peer.print(&format!("torch {version}")),
        Err(reason) => println!("torch: {reason}"),
    }
    Ok(())
}

/// The second table.
fn memory() -> Result<(), Failure> {
    println!("\npeak memory of a forward and backward pass beyond weights and gradients, in MiB");
    println!("{:<28}{:>10}{:>12}{:>22}", "layers", "none", "recompute", "inputs of all layers");
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
            let bytes: f64 = printed(output, "a pass")?.trim().parse()?;
            *peak = bytes / (1 << 20) as f64;
        }
        let inputs = (layers * BATCH * SEQ * HIDDEN * size_of::<f32>()) as f64 / (1 << 20) as f64;
        println!("{layers:<28}{:>10.0}{:>12.0}{inputs:>22.0}", peaks[0], peaks[1]);
    }
    Ok(())
}

/// This program, to be called with other arguments.
fn this_program() -> io::Result<Command> {
    env::current_exe().map(Command::new)
}

/// Standard output of a process that ended well.
pub(crate) fn printed(output: io::Result<Output>, what: &str) -> Result<String, Failure> {
    let output = output.map_err(|error| format!("{what}: {error}"))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{what}: {}\n{messages}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
