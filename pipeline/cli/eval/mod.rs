//! `pipeline eval`: a checkpoint's score on a test set, through [`evaluation::evaluate`].

mod contamination;
mod flags;
mod items;
mod task;
mod work;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args};
use evaluation::{EvalConfig, EvalError, PartialScores, ScoresOnDisk};

use self::contamination::ContaminationArgs;
use self::items::ItemsFile;
use self::task::{ProtocolName, SplitName, TaskName};
use self::work::Work;
use crate::GlobalArgs;
use crate::config::{self, Override, Resolved};
use crate::dry_run::{self, ResolvedConfig};
use crate::exit::Usage;
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
  A BERT's perplexity of masked tokens on 3% of the documents:
    pipeline eval --checkpoint runs/bert --task validation --data data/bert \
        --set split_weights=97,3,0
  A fine-tuned BERT on RACE; and the vote of two, with how each question was answered:
    pipeline eval --checkpoint runs/race-1 --task race --data RACE --split dev
    pipeline eval --checkpoint runs/race-1 --checkpoint runs/race-2 --task race --data RACE \
        --items answers.jsonl
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
/// Scores are kept as they come, in OUT.partial (of several checkpoints OUT.1.partial and so on), or
/// without --out in eval-TASK-HASH.partial in the current folder. An evaluation that was stopped or killed leaves that file, and the same command
/// goes on from there and ends with the same numbers; --tp, --dp, --threads, --limit and
/// micro_batch_size may be other ones. The file is gone when the evaluation has ended. A full disk
/// ends no evaluation: scores wait in memory until there is room.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("outputs").args(["out", "items"]).multiple(true)))]
pub(crate) struct EvalArgs {
    /// Run folder (its newest whole checkpoint, also while it trains), its checkpoints folder, one
    /// checkpoint, or a Hugging Face folder of a GPT-2 or a BERT.
    ///
    /// For race it may be given several times: each model answers all questions, one model in memory
    /// at a time, then they vote by the mean of their probabilities; the report tells which of them
    /// has the median accuracy, by which with `--split dev` the model for the test is chosen.
    /// Contamination needs none; with one, it tells the score on what the corpus does not hold
    /// beside the full one.
    #[arg(long, value_name = "DIR")]
    checkpoint: Vec<PathBuf>,

    /// What to measure.
    #[arg(long, value_name = "TASK")]
    task: TaskName,

    /// Test set: a file as its task says, for validation a data folder or shard, for race its folder;
    /// for contamination one or more.
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
    /// validation]; which questions of RACE: train, dev or test [default: test].
    ///
    /// A data folder is divided as the run was trained with; `--set split_weights=969,30,1` divides
    /// it otherwise, and `--set split_weights=97,3,0` holds out 3%, as the paper's BERTs do.
    #[arg(long, value_name = "PART")]
    split: Option<SplitName>,

    /// Score only the first N windows, examples, sequences or questions; the result is marked as
    /// partial.
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

    /// Write what was found of each item there, as JSONL: an article, a page, a passage or a question
    /// a line.
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

pub(crate) fn run(
    args: &EvalArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    args.check_flags()?;
    let resolved = args.config(global)?;
    let written = ResolvedConfig::of(&resolved)?;
    let work = args.work(&resolved.config)?;
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
    let (report, scores) = work.run(progress).map_err(failure)?;
    // Where one of the three cannot be written, it must not cost the others the numbers.
    let printed =
        if global.json { output::json(&report) } else { output::text(&report.to_string()) };
    let written = out.map_or(Ok(()), |file| file.finish(&report));
    let with_items = items.map_or(Ok(()), |file| file.finish(&report));
    printed.and(written).and(with_items)?;
    // Nor is anything to be scored again then.
    scores.into_iter().for_each(ScoresOnDisk::forget);
    Ok(ExitCode::SUCCESS)
}

/// What to tell about an evaluation that did not come to its end.
fn failure(error: EvalError) -> anyhow::Error {
    match error {
        EvalError::Stopped | EvalError::StoppedWithScores { .. } => anyhow::Error::new(error),
        error => anyhow::Error::new(error).context("cannot evaluate"),
    }
}

impl EvalArgs {
    /// What is asked for, with these settings.
    fn work(&self, config: &EvalConfig) -> anyhow::Result<Work> {
        let plan = |(model, checkpoint): (usize, &PathBuf)| {
            let tasks = self.data.iter();
            let tasks =
                tasks.map(|data| self.task.on(data.clone(), self.protocol.into(), self.split));
            let mut plan = config.clone().validate(checkpoint.clone(), tasks.collect())?;
            plan.partial_scores = self.partial_scores(model);
            Ok::<_, EvalError>(plan)
        };
        let plans = self.checkpoint.iter().enumerate().map(plan);
        let mut plans = plans.collect::<Result<Vec<_>, _>>()?;
        Ok(match (self.task, plans.len()) {
            (TaskName::Contamination, _) => {
                Work::Contamination(self.contamination.plan(self.data.clone())?, plans.pop())
            }
            (_, 0) => bail!(Usage(anyhow!("name the model to score with --checkpoint"))),
            (_, 1) => Work::Scoring(plans.remove(0)),
            _ => Work::Ensemble(plans),
        })
    }

    /// Where the scores of a model, counted from 0, are kept until the evaluation has ended: beside
    /// the report, or in the current folder.
    fn partial_scores(&self, model: usize) -> PartialScores {
        match &self.out {
            Some(out) => {
                let mut name = out.as_os_str().to_owned();
                if self.checkpoint.len() > 1 {
                    name.push(format!(".{}", model + 1));
                }
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
