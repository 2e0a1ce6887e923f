//! `pipeline eval`: a checkpoint's score on a test set, through [`evaluation::evaluate`].

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use evaluation::lambada::{self, Lambada};
use evaluation::wikitext103::{self, WikiText103};
use evaluation::{EvalConfig, Task, evaluate};

use crate::progress::Progress;
use crate::{GlobalArgs, config, output};

/// Score a checkpoint on a test set; every setting is printed beside the numbers.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Run folder, its checkpoints folder, or one checkpoint.
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// What to measure.
    #[arg(long, value_name = "TASK")]
    task: TaskName,

    /// Test set: a file as its task says.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// Settings (TOML); see configs/eval. The defaults are the paper's protocol.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Tokens between the starts of two windows of wikitext103 [default: 32].
    #[arg(long, value_name = "N")]
    overlap: Option<NonZeroUsize>,

    /// Score only the first N windows or examples; the result is marked as partial.
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
    /// Guessing the last word of LAMBADA's passages, whole (`strict`) and by its last token; JSONL with a `text` in each line.
    Lambada,
}

impl TaskName {
    /// The task on the test set `data`.
    fn on(self, data: PathBuf) -> Task {
        match self {
            Self::Wikitext103 => {
                Task::WikiText103(WikiText103 { name: wikitext103::NAME.to_owned(), data })
            }
            Self::Lambada => Task::Lambada(Lambada { name: lambada::NAME.to_owned(), data }),
        }
    }
}

pub(crate) fn run(
    args: &EvalArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let mut config: EvalConfig = match &args.config {
        Some(path) => config::read(path, &global.overrides)?,
        None => config::parse("", "the defaults", &global.overrides)?,
    };
    config.overlap = args.overlap.unwrap_or(config.overlap);
    config.limit = args.limit.or(config.limit);
    config.tensor_parallel_size = args.tp.unwrap_or(config.tensor_parallel_size);
    let task = args.task.on(args.data.clone());
    let plan = config.validate(args.checkpoint.clone(), vec![task])?;
    let report = evaluate(&plan, progress).context("cannot evaluate")?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
