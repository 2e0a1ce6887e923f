//! The `pipeline` program: raw text to the results of the Megatron-LM paper.
//!
//! The only place that parses flags, reads configuration files, draws progress and prints. `main`
//! parses and dispatches; each command is one file and ends in one function of a library: [`dedup`]
//! in `curation::curate`, [`train`] in `training::train`, [`eval`] in `evaluation::evaluate`,
//! [`generate`] in `training::generation`; [`reproduce`] calls the first three.

mod checkpoint;
mod config;
mod dedup;
mod demo;
mod doctor;
mod dry_run;
mod eval;
mod exit;
mod generate;
mod machine_text;
mod numbers;
mod output;
mod panics;
mod progress;
mod reproduce;
mod shard;
mod threads;
mod train;
mod warnings;

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::config::Override;
use crate::exit::Usage;
use crate::progress::Progress;

/// Curate a corpus, train a tensor-parallel GPT-2 on it and measure it.
///
/// Takes raw text to the results of the paper Megatron-LM (Shoeybi et al. 2019). Start with
/// `pipeline demo`, which runs all three stages on text that this machine already has.
#[derive(Debug, Parser)]
#[command(name = "pipeline", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    global: GlobalArgs,
}

const AFTER_HELP: &str = "\
First steps:
  pipeline doctor                  what this machine has, and how large a model fits
  pipeline demo                    all three stages in a few minutes
  pipeline reproduce ...           the paper's Table 3, at the scale of this machine
  pipeline train --dry-run ...     what a run would be, with the source of each value
  pipeline COMMAND --help          flags and examples

Results go to standard output, everything else to standard error.
Exit codes: 0 done; 1 failed; 2 wrong usage, configuration or input; 3 training stopped by its
own guard; 75 stopped by a signal with resumable work saved.";

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// Print the result as JSON instead of a table.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Override a key of the configuration: `section.key=value`, the value as TOML; may be given
    /// more than once.
    ///
    /// Entries of an array are counted from 0: `source.0.jsonl.text_key=body`. What is no TOML is
    /// taken as a text.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// Say more: -v for details, -vv for everything.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,

    /// Say only warnings and errors, and draw no progress.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl GlobalArgs {
    /// What `--set` puts on top of the configuration.
    fn overrides(&self) -> Vec<Override> {
        self.overrides.iter().map(|assignment| Override::set(assignment)).collect()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Dedup(dedup::DedupArgs),
    Train(train::TrainArgs),
    Eval(eval::EvalArgs),
    Reproduce(reproduce::ReproduceArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Generate(generate::GenerateArgs),
    Shard(shard::ShardArgs),
    Doctor(doctor::DoctorArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let progress = Progress::start(cli.global.verbose, cli.global.quiet);
    panics::log();
    match panics::caught(|| run(&cli, &progress)) {
        Ok(code) => code,
        Err(error) => {
            progress.error(&exit::message_of(&error));
            exit::code_of(&error)
        }
    }
}

fn run(cli: &Cli, progress: &Progress) -> anyhow::Result<ExitCode> {
    let reads_configuration = match &cli.command {
        Command::Doctor(_) | Command::Checkpoint(_) | Command::Generate(_) => false,
        Command::Shard(args) => args.reads_configuration(),
        _ => true,
    };
    if !reads_configuration && let Some(assignment) = cli.global.overrides.first() {
        bail!(Usage(anyhow!("--set {assignment}: this command reads no configuration")));
    }
    match &cli.command {
        Command::Demo(args) => demo::run(args, &cli.global, progress),
        Command::Dedup(args) => dedup::run(args, &cli.global, progress),
        Command::Train(args) => train::run(args, &cli.global, progress),
        Command::Eval(args) => eval::run(args, &cli.global, progress),
        Command::Reproduce(args) => reproduce::run(args, &cli.global, progress),
        Command::Checkpoint(args) => checkpoint::run(args, &cli.global, progress),
        Command::Generate(args) => generate::run(args, &cli.global, progress),
        Command::Shard(args) => shard::run(args, &cli.global, progress),
        Command::Doctor(args) => doctor::run(args, &cli.global),
    }
}
