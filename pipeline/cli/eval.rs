//! `pipeline eval`: a checkpoint's score on a test set, through [`evaluation::evaluate`].

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use evaluation::wikitext103::WikiText103;
use evaluation::{EvalConfig, Task, evaluate};

use crate::config::{self, Override, Resolved};
use crate::progress::Progress;
use crate::{GlobalArgs, output};

/// Score a checkpoint on a test set; every setting is printed beside the numbers.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Run folder, its checkpoints folder, or one checkpoint.
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// What to measure.
    #[arg(long, value_name = "TASK")]
    task: TaskName,

    /// Test set.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// Settings (TOML); see configs/eval. The defaults are the paper's protocol.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Tokens between the starts of two windows [default: 32].
    #[arg(long, value_name = "N")]
    overlap: Option<NonZeroUsize>,

    /// Score only the first N windows; the result is marked as partial.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Tensor-parallel ranks, one thread each [default: 1].
    #[arg(long, value_name = "N")]
    tp: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TaskName {
    /// Word perplexity of WikiText103's test split (`wiki.test.tokens`, with `<unk>`).
    Wikitext103,
}

pub(crate) fn run(
    args: &EvalArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let resolved = args.config(global)?;
    let task = match args.task {
        TaskName::Wikitext103 => {
            Task::WikiText103(WikiText103 { name: "wikitext103".into(), data: args.data.clone() })
        }
    };
    let plan = resolved.config.validate(args.checkpoint.clone(), vec![task])?;
    let report = evaluate(&plan, progress).context("cannot evaluate")?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl EvalArgs {
    /// How to evaluate: the configuration or the paper's protocol, with flags and overrides on top.
    fn config(&self, global: &GlobalArgs) -> anyhow::Result<Resolved<EvalConfig>> {
        let mut overrides = global.overrides();
        overrides.extend(Override::flag("--overlap", "overlap", self.overlap)?);
        overrides.extend(Override::flag("--limit", "limit", self.limit)?);
        overrides.extend(Override::flag("--tp", "tensor_parallel_size", self.tp)?);
        match &self.config {
            Some(path) => config::read(path, &overrides),
            None => config::over_defaults(&EvalConfig::default(), &overrides),
        }
    }
}
