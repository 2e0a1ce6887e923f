//! `pipeline eval`: a checkpoint's score on a test set, through [`evaluation::evaluate`].

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args, ValueEnum};
use evaluation::lambada::{self, Lambada};
use evaluation::wikitext103::{self, WikiText103};
use evaluation::{EvalConfig, EvalError, Protocol, Task, evaluate};

use crate::GlobalArgs;
use crate::config::{self, Override, Resolved};
use crate::dry_run::ResolvedConfig;
use crate::exit::Usage;
use crate::items::ItemsFile;
use crate::numbers::count;
use crate::output::{self, ReportFile};
use crate::progress::Progress;
use crate::threads::ThreadArgs;

const EXAMPLES: &str = "\
Examples:
  The paper's protocol on WikiText103's test split:
    pipeline eval --checkpoint runs/tiny --task wikitext103 --data wiki.test.tokens
  A first look at 100 windows, and the report in a file:
    pipeline eval --checkpoint runs/tiny --task wikitext103 --data wiki.test.tokens --limit 100
    pipeline eval --checkpoint runs/tiny --task wikitext103 --data wiki.test.tokens \\
        --out report.json
  To compare with lm-evaluation-harness's tables, and passage by passage:
    pipeline eval --checkpoint runs/tiny --task wikitext103 --data wiki.test.raw \\
        --protocol lm-eval
    pipeline eval --checkpoint runs/tiny --task lambada --data lambada_test.jsonl \\
        --items passages.jsonl";

/// Score a checkpoint on a test set; every setting is printed beside the numbers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("outputs").args(["out", "items"]).multiple(true)))]
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

    /// Whose rules: numbers of different protocols do not compare.
    #[arg(long, value_name = "NAME", default_value = "megatron")]
    protocol: ProtocolName,

    /// Settings (TOML); see configs/eval. The defaults are the paper's protocol.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Tokens between the starts of two windows of wikitext103, at most the model's seq_length, at
    /// which windows do not overlap [default: 32].
    #[arg(long, value_name = "N", value_parser = count)]
    overlap: Option<NonZeroUsize>,

    /// Score only the first N windows or examples; the result is marked as partial.
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<NonZeroUsize>,

    /// Tensor-parallel ranks, one thread each [default: 1].
    #[arg(long, value_name = "N", value_parser = count)]
    tp: Option<NonZeroUsize>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Write the report there too, as JSON: whole when all is measured, or not at all.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write what was found of each item there, as JSONL: an article, a page or a passage a line.
    #[arg(long, value_name = "FILE")]
    items: Option<PathBuf>,

    /// Replace the files OUT and ITEMS if they are there already.
    #[arg(long, requires = "outputs")]
    overwrite: bool,

    /// Print the resolved settings with the source of each value, and what would be scored; write
    /// nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TaskName {
    /// Word perplexity of WikiText103's test split (`wiki.test.tokens`, with `<unk>`).
    Wikitext103,
    /// Guessing the last word of LAMBADA's passages, whole (`strict`) and by its last token; JSONL
    /// with a `text` in each line.
    Lambada,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProtocolName {
    /// Megatron-LM v1.0's, as in the paper: of wikitext103 one stream of `wiki.test.tokens`.
    Megatron,
    /// lm-evaluation-harness's, to compare with its tables: of wikitext103 the pages of
    /// `wiki.test.raw`, of lambada the task `lambada_openai`.
    LmEval,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Self {
        match name {
            ProtocolName::Megatron => Self::Megatron,
            ProtocolName::LmEval => Self::LmEval,
        }
    }
}

impl TaskName {
    /// The task on the test set `data`.
    fn on(self, data: PathBuf, protocol: Protocol) -> Task {
        match self {
            Self::Wikitext103 => {
                let name = wikitext103::NAME.to_owned();
                Task::WikiText103(WikiText103 { name, data, protocol })
            }
            Self::Lambada => {
                let name = lambada::NAME.to_owned();
                Task::Lambada(Lambada { name, data, protocol })
            }
        }
    }
}

pub(crate) fn run(
    args: &EvalArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    if let Some(overlap) = args.overlap {
        let problem = match (args.task, args.protocol) {
            (TaskName::Lambada, _) => Some("lambada has no windows that could overlap"),
            (_, ProtocolName::LmEval) => {
                Some("the windows of --protocol lm-eval are disjoint, as its tables have them")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            bail!(Usage(anyhow!("--overlap {overlap}: {problem}")));
        }
    }
    let resolved = args.config(global)?;
    let written = ResolvedConfig::of(&resolved)?;
    let task = args.task.on(args.data.clone(), args.protocol.into());
    let plan = resolved.config.validate(args.checkpoint.clone(), vec![task])?;
    if args.dry_run {
        if let Some(path) = &args.out {
            ReportFile::check(path, args.overwrite)?;
        }
        if let Some(path) = &args.items {
            ItemsFile::check(path, args.overwrite)?;
        }
        written.print(&plan.summary(progress).map_err(failure)?, global)?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = match &args.out {
        Some(path) => Some(ReportFile::begin(path, args.overwrite)?),
        None => None,
    };
    let items = match &args.items {
        Some(path) => Some(ItemsFile::begin(path, args.overwrite)?),
        None => None,
    };
    let report = evaluate(&plan, progress).map_err(failure)?;
    // Printed before it is written: a disk that is full by now must not cost the numbers.
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report.to_string())?;
    }
    items.map_or(Ok(()), |file| file.finish(&report))?;
    out.map_or(Ok(()), |file| file.finish(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// What to tell about an evaluation that did not come to its end.
fn failure(error: EvalError) -> anyhow::Error {
    match error {
        EvalError::Stopped => anyhow!(
            "stopped by a signal before all was scored: there is no result, and nothing was \
             written. \
             The same command begins again"
        ),
        error => anyhow::Error::new(error).context("cannot evaluate"),
    }
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
