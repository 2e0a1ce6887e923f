//! How long a training step takes, by part, beside PyTorch's: `cargo bench --bench step`.
//!
//! Three parts, each a table or some. `compare` has the steps of three models on one thread and on
//! all, and PyTorch's of the same models with both of its attentions. `variants` has those of the
//! first model in each precision, with and without recomputation and on two ranks. Both are whole
//! runs of [`training::train`] and of `torch_step.py`, each in a process of its own, round by round
//! in turn, so that a busy moment of the machine hits all alike. `memory` has the peak memory of a
//! pass for 4, 8 and 16 layers with and without recomputation. Nothing is asserted.
//!
//! ```text
//! cargo bench --bench step -- [compare] [variants] [memory] [--model 6x384|6x128|12x768]
//!                             [--threads N] [--rounds N] [--python PATH]
//! ```
//!
//! `--steps 6x384 f32 20` runs 20 steps of one variant in this process, for a profiler.
//!
//! Without the name of a part all are run; model and threads narrow `compare`. `TORCH_PYTHON`, or
//! `--python`, names a Python that has torch; without it `python3` is tried, and where that has none
//! the table says so. It takes about 12 minutes on two cores.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod step {
    pub(crate) mod compare;
    pub(crate) mod memory;
    pub(crate) mod model;
    pub(crate) mod ours;
    pub(crate) mod steps;
    pub(crate) mod torch;
}
mod table;

use std::env;
use std::io;
use std::process::{Command, Output};

use step::compare::{self, Entrant};
use step::model::{MODELS, Model, SMALL};
use step::ours::Variant;
use step::{memory, ours, torch};

/// Any error: a benchmark only tells it.
pub(crate) type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--steps", model, variant] => ours::run(Model::named(model)?, Variant::named(variant)?),
        ["--steps", model, variant, steps] => {
            let model = Model { steps: steps.parse()?, ..Model::named(model)? };
            ours::run(model, Variant::named(variant)?)
        }
        ["--pass", layers, recompute] => memory::run(layers.parse()?, recompute == "layer"),
        _ => tables(&Settings::parse(&arguments)?),
    }
}

/// What is measured.
struct Settings {
    parts: Vec<&'static str>,
    models: Vec<Model>,
    threads: Vec<usize>,
    rounds: usize,
    torch: Result<String, String>,
}

const PARTS: [&str; 3] = ["compare", "variants", "memory"];

impl Settings {
    fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let mut threads = vec![1, corpus::machine::cores()];
        threads.dedup();
        let mut settings = Self {
            parts: Vec::new(),
            models: MODELS.to_vec(),
            threads,
            rounds: 3,
            torch: Ok(String::new()),
        };
        let mut python = None;
        let mut arguments = arguments.iter().copied();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} takes a value"));
            match argument {
                "--bench" => {} // cargo's own
                "--model" => settings.models = vec![Model::named(value()?)?],
                "--threads" => settings.threads = vec![value()?.parse()?],
                "--rounds" => settings.rounds = value()?.parse()?,
                "--python" => python = Some(value()?),
                part => match PARTS.into_iter().find(|&known| known == part) {
                    Some(part) => settings.parts.push(part),
                    None => return Err(format!("{part}: no part of this benchmark").into()),
                },
            }
        }
        if settings.parts.is_empty() {
            settings.parts = PARTS.to_vec();
        }
        settings.torch = torch::find(python);
        Ok(settings)
    }
}

fn tables(settings: &Settings) -> Result<(), Failure> {
    let Settings { parts, models, threads, rounds, torch } = settings;
    for &part in parts {
        match part {
            "compare" => {
                let peers = torch::ATTENTIONS.map(Entrant::Torch);
                let entrants: Vec<_> = [Entrant::Ours("f32")].into_iter().chain(peers).collect();
                for model in models {
                    compare::table(model, threads, &entrants, *rounds, torch)?;
                }
            }
            "variants" => {
                let entrants = Variant::all().map(|variant| Entrant::Ours(variant.name));
                compare::table(
                    &SMALL,
                    &[corpus::machine::cores()],
                    &entrants,
                    *rounds,
                    &Ok(String::new()),
                )?;
            }
            _ => memory::table()?,
        }
    }
    if parts.iter().any(|&part| part != "memory") {
        println!(
            "forward has the gradients of head and loss in it, which are made there in one pass"
        );
    }
    Ok(())
}

/// This program, to be called with other arguments.
pub(crate) fn this_program() -> io::Result<Command> {
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
