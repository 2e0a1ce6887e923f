//! `pipeline eval`: a checkpoint's score on a test set, through [`evaluation::evaluate`].

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args, ValueEnum};
use evaluation::contamination::{self, ContaminationPlan, ContaminationSummary};
use evaluation::lambada::{self, Lambada};
use evaluation::validation::{self, Validation};
use evaluation::wikitext103::{self, WikiText103};
use evaluation::{
    EvalConfig, EvalError, EvalPlan, EvalReport, EvalSummary, PartialScores, Protocol, Task,
    evaluate,
};
use serde::Serialize;
use training::data::Part;

use crate::GlobalArgs;
use crate::config::{self, Override, Resolved};
use crate::contamination::ContaminationArgs;
use crate::dry_run::{self, ResolvedConfig};
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
  A model of Hugging Face's, two copies side by side:
    pipeline eval --checkpoint gpt2-medium --task lambada --data lambada.jsonl --dp 2
  The loss on the documents that a run has held out, and on those that it never read:
    pipeline eval --checkpoint runs/tiny --task validation --data data/corpus
    pipeline eval --checkpoint runs/tiny --task validation --data data/corpus --split test
  To compare with lm-evaluation-harness's tables, and passage by passage:
    pipeline eval --checkpoint runs/tiny --task wikitext103 --data wiki.test.raw \\
        --protocol lm-eval
    pipeline eval --checkpoint runs/tiny --task lambada --data lambada.jsonl \\
        --items passages.jsonl
  How much of two test sets stands in a corpus, by n-grams of 8 words and of 5 to 13:
    pipeline eval --task contamination --data wiki.test.tokens lambada.jsonl --corpus data/corpus
    pipeline eval --task contamination --data wiki.test.tokens --corpus 'crawl/*.jsonl.gz' \\
        --n 5..13";

/// Score a checkpoint on a test set; every setting is printed beside the numbers.
///
/// Scores are kept as they come, in OUT.partial, or without --out in eval-TASK-HASH.partial in the
/// current folder. An evaluation that was stopped or killed leaves that file, and the same command
/// goes on from there and ends with the same numbers; --tp, --dp, --threads, --limit and
/// micro_batch_size may be other ones. The file is gone when the evaluation has ended. A full disk
/// ends no evaluation: scores wait in memory until there is room.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("outputs").args(["out", "items"]).multiple(true)))]
pub(crate) struct EvalArgs {
    /// Run folder (its newest whole checkpoint, also while it trains), its checkpoints folder, one
    /// checkpoint, or a Hugging Face GPT-2 folder.
    ///
    /// Contamination needs none; with one, it tells the score on what the corpus does not hold
    /// beside the full one.
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,

    /// What to measure.
    #[arg(long, value_name = "TASK")]
    task: TaskName,

    /// Test set: a file as its task says, or for validation a data folder or shard; for
    /// contamination one or more.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<PathBuf>,

    #[command(flatten)]
    contamination: ContaminationArgs,

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

    /// Which documents of the data folder to validate on: train, validation or test [default:
    /// validation].
    ///
    /// The folder is divided as the run was trained with; `--set split_weights=969,30,1` divides it
    /// otherwise.
    #[arg(long, value_name = "PART")]
    split: Option<Part>,

    /// Score only the first N windows, examples or sequences; the result is marked as partial.
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<NonZeroUsize>,

    /// Tensor-parallel ranks of each copy of the model, one thread each [default: 1].
    #[arg(long, value_name = "N", value_parser = count)]
    tp: Option<NonZeroUsize>,

    /// Copies of the model that score side by side, each on --tp ranks [default: 1].
    ///
    /// Each copy holds the whole model in memory, and takes batches of its own: N copies take N
    /// times the memory and change no number.
    #[arg(long, value_name = "N", value_parser = count)]
    dp: Option<NonZeroUsize>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Write the report there too, as JSON: whole when all is measured, or not at all.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write what was found of each item there, as JSONL: an article, a page or a passage a line.
    #[arg(long, value_name = "FILE")]
    items: Option<PathBuf>,

    /// Replace the files OUT and ITEMS if they are there already, and scores of another evaluation
    /// in OUT.partial.
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
    /// Loss and perplexity on held-out documents of a data folder, as training measures them.
    Validation,
    /// Share of a test set's 8-grams that occur in a corpus; needs no checkpoint.
    Contamination,
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
    /// The task on the test set `data`, or on the documents `split` of it; for contamination, the
    /// one that scores a test set of its form.
    fn on(self, data: PathBuf, protocol: Protocol, split: Option<Part>) -> Task {
        match self {
            Self::Wikitext103 => {
                let name = wikitext103::NAME.to_owned();
                Task::WikiText103(WikiText103 { name, data, protocol })
            }
            Self::Lambada => {
                let name = lambada::NAME.to_owned();
                Task::Lambada(Lambada { name, data, protocol })
            }
            Self::Contamination if is_jsonl(&data) => Self::Lambada.on(data, protocol, split),
            Self::Contamination => Self::Wikitext103.on(data, protocol, split),
            Self::Validation => Task::Validation(Validation {
                name: validation::NAME.to_owned(),
                data,
                part: split.unwrap_or_default(),
            }),
        }
    }
}

pub(crate) fn run(
    args: &EvalArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    args.check_flags()?;
    let resolved = args.config(global)?;
    let written = ResolvedConfig::of(&resolved)?;
    let plan = match &args.checkpoint {
        None => None,
        Some(checkpoint) => {
            let tasks = args.data.iter();
            let tasks =
                tasks.map(|data| args.task.on(data.clone(), args.protocol.into(), args.split));
            let mut plan = resolved.config.validate(checkpoint.clone(), tasks.collect())?;
            plan.partial_scores = args.partial_scores();
            Some(plan)
        }
    };
    let work = match (args.task, plan) {
        (TaskName::Contamination, scoring) => {
            Work::Contamination(args.contamination.plan(args.data.clone())?, scoring)
        }
        (_, Some(plan)) => Work::Scoring(plan),
        (_, None) => bail!(Usage(anyhow!("name the model to score with --checkpoint"))),
    };
    if args.dry_run {
        if let Some(path) = &args.out {
            ReportFile::check(path, args.overwrite)?;
        }
        if let Some(path) = &args.items {
            ItemsFile::check(path, args.overwrite)?;
        }
        let summary = work.summary(progress).map_err(failure)?;
        match work {
            // Nothing is scored, and no setting of scoring counts.
            Work::Contamination(_, None) => dry_run::print_plan(&summary, global)?,
            _ => written.print(&summary, global)?,
        }
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
    let report = work.run(progress).map_err(failure)?;
    // Printed before it is written: a disk that is full by now must not cost the numbers.
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report.to_string())?;
    }
    out.map_or(Ok(()), |file| file.finish(&report))?;
    items.map_or(Ok(()), |file| file.finish(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// What an evaluation does.
enum Work {
    /// It scores a model.
    Scoring(EvalPlan),
    /// It looks for test sets in a corpus, and may score a model on what is not there.
    Contamination(ContaminationPlan, Option<EvalPlan>),
}

/// What it would do.
#[derive(Debug, Serialize)]
struct WorkSummary {
    #[serde(flatten)]
    contamination: Option<ContaminationSummary>,
    #[serde(flatten)]
    scoring: Option<EvalSummary>,
}

impl Work {
    fn summary(&self, progress: &Progress) -> Result<WorkSummary, EvalError> {
        let (contamination, scoring) = match self {
            Self::Scoring(plan) => (None, Some(plan)),
            Self::Contamination(plan, scoring) => (Some(plan.summary(progress)?), scoring.as_ref()),
        };
        let scoring = scoring.map(|plan| plan.summary(progress)).transpose()?;
        Ok(WorkSummary { contamination, scoring })
    }

    fn run(&self, progress: &Progress) -> Result<EvalReport, EvalError> {
        match self {
            Self::Scoring(plan) => evaluate(plan, progress),
            Self::Contamination(plan, scoring) => {
                contamination::measure(plan, scoring.as_ref(), progress)
            }
        }
    }
}

/// Whether a test set has an item in each line.
fn is_jsonl(path: &Path) -> bool {
    let endings = ["jsonl", "ndjson", "json"];
    path.extension().is_some_and(|ending| endings.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}

/// What to tell about an evaluation that did not come to its end.
fn failure(error: EvalError) -> anyhow::Error {
    match error {
        EvalError::Stopped => anyhow!(
            "stopped by a signal before more was scored: there is no result, and nothing was \
             written. The same command begins again, or goes on from what an earlier one has kept"
        ),
        error @ EvalError::StoppedWithScores { .. } => anyhow::Error::new(error),
        error => anyhow::Error::new(error).context("cannot evaluate"),
    }
}

impl EvalArgs {
    /// Refuses flags of other tasks.
    fn check_flags(&self) -> anyhow::Result<()> {
        if let TaskName::Contamination = self.task {
            return self.check_flags_of_contamination();
        }
        self.contamination.check_unused()?;
        if let [_, another, ..] = &self.data[..] {
            bail!(Usage(anyhow!(
                "--data {}: only contamination takes several test sets at once",
                another.display()
            )));
        }
        if self.out.is_some() && self.out == self.items {
            bail!(Usage(anyhow!("--items: report and items cannot be one file: name another")));
        }
        let is_lm_eval = matches!(self.protocol, ProtocolName::LmEval);
        let no_overlap = match self.task {
            TaskName::Lambada => Some("lambada has no windows that could overlap"),
            TaskName::Validation => Some("the sequences of validation do not overlap"),
            TaskName::Wikitext103 if is_lm_eval => {
                Some("the windows of --protocol lm-eval are disjoint, as those of its tables are")
            }
            TaskName::Wikitext103 | TaskName::Contamination => None,
        };
        if let (Some(overlap), Some(problem)) = (self.overlap, no_overlap) {
            bail!(Usage(anyhow!("--overlap {overlap}: {problem}")));
        }
        if matches!(self.task, TaskName::Validation) {
            let problem = match &self.items {
                _ if is_lm_eval => "--protocol lm-eval: the harness has no such task as validation",
                Some(_) => {
                    "--items: validation packs documents into sequences; none is scored alone"
                }
                None => return Ok(()),
            };
            bail!(Usage(anyhow!(problem)));
        }
        if let Some(split) = self.split {
            bail!(Usage(anyhow!(
                "--split {}: only validation has a data folder that is divided",
                split.name()
            )));
        }
        Ok(())
    }

    /// Refuses flags of other tasks, and flags about how a model is scored where none is.
    fn check_flags_of_contamination(&self) -> anyhow::Result<()> {
        let unfit = [
            (self.split.is_some(), "--split: a test set is not divided"),
            (
                self.items.is_some(),
                "--items: contamination lists items and documents in its report",
            ),
            (
                matches!(self.protocol, ProtocolName::LmEval),
                "--protocol lm-eval: contamination is measured, and scored, by the paper's protocol",
            ),
        ];
        if let Some((_, problem)) = unfit.iter().find(|(is_given, _)| *is_given) {
            bail!(Usage(anyhow!("{problem}")));
        }
        let flags = [
            ("--overlap", self.overlap),
            ("--limit", self.limit),
            ("--tp", self.tp),
            ("--dp", self.dp),
        ];
        let given = flags.iter().find(|(_, value)| value.is_some());
        match given.filter(|_| self.checkpoint.is_none()) {
            None => Ok(()),
            Some((flag, _)) => {
                bail!(Usage(anyhow!("{flag}: contamination scores no model without --checkpoint")))
            }
        }
    }

    /// Where scores are kept until the evaluation has ended: beside the report, or in the current
    /// folder.
    fn partial_scores(&self) -> PartialScores {
        match &self.out {
            Some(out) => {
                let mut name = out.as_os_str().to_owned();
                name.push(".partial");
                PartialScores::File { path: name.into(), replace: self.overwrite }
            }
            None => PartialScores::Folder(PathBuf::new()),
        }
    }

    /// How to evaluate: the configuration or the paper's protocol, with flags and overrides on top.
    fn config(&self, global: &GlobalArgs) -> anyhow::Result<Resolved<EvalConfig>> {
        let mut overrides = global.overrides();
        overrides.extend(Override::flag("--overlap", "overlap", self.overlap)?);
        overrides.extend(Override::flag("--limit", "limit", self.limit)?);
        overrides.extend(Override::flag("--tp", "tensor_parallel_size", self.tp)?);
        overrides.extend(Override::flag("--dp", "data_parallel_size", self.dp)?);
        match &self.config {
            Some(path) => config::read(path, &overrides),
            None => config::over_defaults(&EvalConfig::default(), &overrides),
        }
    }
}
