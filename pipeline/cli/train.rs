//! `pipeline train`: a data folder to a trained model, through [`training::train`].

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use training::{Resume, RunPaths, TrainConfig, TrainReport, train};

use crate::progress::Progress;
use crate::{GlobalArgs, config, exit, output};

/// Train a model on a data folder, split over tensor-parallel ranks.
///
/// OUT holds metrics.jsonl, a line per step, and checkpoints/, of which `latest` names the newest. The same call on an unfinished run goes on
/// where its newest checkpoint is; Ctrl-C saves one first.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Configuration of the run (TOML); see configs/train.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Data folder that `pipeline dedup` made.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Run folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Tensor-parallel ranks, one thread each; overrides parallel.tensor_parallel_size.
    #[arg(long, value_name = "N")]
    tp: Option<NonZeroUsize>,

    /// Copies of the model, each of which takes its share of every global batch; overrides
    /// parallel.data_parallel_size.
    #[arg(long, value_name = "N")]
    dp: Option<NonZeroUsize>,

    /// Write which samples each step takes to OUT/samples.jsonl.
    ///
    /// Sample k is tokens k*S to (k+1)*S of the training documents, for a sequence length of S, in every epoch.
    #[arg(long)]
    log_samples: bool,

    /// Delete the run that OUT holds and begin again, instead of going on with it.
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(
    args: &TrainArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let mut config: TrainConfig = config::read(&args.config, &global.overrides)?;
    if let Some(tp) = args.tp {
        config.parallel.tensor_parallel_size = tp;
    }
    if let Some(dp) = args.dp {
        config.parallel.data_parallel_size = dp;
    }
    let resume = if args.overwrite { Resume::Overwrite } else { Resume::Auto };
    let paths = RunPaths {
        data: args.data.clone(),
        out: args.out.clone(),
        resume,
        log_samples: args.log_samples,
    };
    let plan = config.validate(paths).context("cannot start training")?;
    let report = train(&plan, progress).context("training failed")?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&summary(&report))?;
    }
    Ok(if report.stopped { ExitCode::from(exit::STOPPED) } else { ExitCode::SUCCESS })
}

/// What the run came to, as a table.
pub(crate) fn summary(report: &TrainReport) -> String {
    let loss = |loss: Option<f64>| loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}"));
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let count = |count: u64| indicatif::HumanCount(count).to_string();
    output::table(&[
        row("parameters", count(report.parameters)),
        row("tensor-parallel size", report.tensor_parallel_size.to_string()),
        row("data-parallel size", report.data_parallel_size.to_string()),
        row("steps", count(report.steps)),
        row("tokens", count(report.tokens)),
        row("first loss", loss(report.first_loss)),
        row("final loss", loss(report.final_loss)),
        row("validation loss", loss(report.validation_loss)),
        row("tokens per second", format!("{:.0}", report.tokens_per_second)),
        row("seconds", format!("{:.1}", report.seconds)),
        row("checkpoint", report.checkpoint.display().to_string()),
    ])
}
