//! `pipeline reproduce`: an experiment of the paper from raw text to a page of results.
//!
//! An experiment is a configuration ([`config`]) and a list of parts ([`parts`]), each of which is
//! one function of a library: `curation::curate`, `training::train`, `evaluation::evaluate`. What is
//! done is noted in a journal ([`journal`]), so that nothing is done twice; [`losses`] are trainings
//! that a changed call would throw away, which takes `--redo`; [`estimate`] says beforehand what it
//! takes, and [`report`] afterwards what came of it.

mod config;
mod depends;
mod describe;
mod estimate;
mod facts;
mod folder;
mod identity;
mod inputs;
mod journal;
mod losses;
mod make;
mod outputs;
mod parts;
mod plan;
mod pulse;
mod report;
mod speed;
mod work;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use evaluation::Protocol;
use evaluation::lambada::Lambada;
use evaluation::wikitext103::WikiText103;
use tracing::warn;

use self::config::ReproduceConfig;
use self::estimate::Estimate;
use self::folder::OutFolder;
use self::inputs::Inputs;
use self::journal::Journal;
use self::parts::Parts;
use self::plan::Plan;
use self::report::Report;
use self::report::table3::Task;
use self::work::{Outcome, Work};
use crate::GlobalArgs;
use crate::config::{self as config_file, Override, Resolved};
use crate::dry_run::ResolvedConfig;
use crate::exit::{self, Usage};
use crate::numbers::count;
use crate::output;
use crate::progress::Progress;
use crate::threads::ThreadArgs;

const EXAMPLES: &str = "\
Examples:
  Table 3 at the scale of two cores, on text that this machine has, in under an hour; called again
  after Ctrl-C or a crash, it goes on where it was:
    pipeline reproduce --config configs/reproduce/table3-tiny.toml --out table3
  The same on the paper's own test sets, after a look at what would be done:
    pipeline reproduce --config configs/reproduce/table3-tiny.toml --out table3 \\
        --wikitext103 wiki.test.tokens --lambada lambada_test.jsonl --dry-run
  With a value changed: only what depends on it is done again:
    pipeline reproduce --config configs/reproduce/table3-tiny.toml --out table3 \\
        --set eval.overlap=64
  With one that changes the trainings, which are thrown away and done again:
    pipeline reproduce --config configs/reproduce/table3-tiny.toml --out table3 \\
        --set train.optimizer.lr=2e-3 --redo
  Figure 7: BERT with residual connections behind its layer norms and before them, at two depths:
    pipeline reproduce --config configs/reproduce/figure7-tiny.toml --out figure7
  RACE: a BERT pre-trained, fine-tuned from five seeds, the median and the ensemble of them:
    pipeline reproduce --config configs/reproduce/race-tiny.toml --race RACE --out race
  What the paper's largest model takes, and why this machine is refused it:
    pipeline reproduce --config configs/reproduce/table3-8.3b.toml --dry-run";

/// Reproduce an experiment of the paper: text, dedup, trainings, scores, one page.
///
/// The configuration says which. `table3` keeps both test sets out of the corpus, measures what of
/// them is in it before and after, trains each size of GPT-2 on the same samples in the same order,
/// and scores each on both test sets. `figure7` trains BERT in both arrangements of layer norms and
/// residual connections at several depths. `race` pre-trains BERT, fine-tunes it on RACE from several
/// seeds, and has the one with the median accuracy on `dev` and the ensemble of all answer the test
/// questions. Results are put beside the paper's: a table here, and in
/// OUT report.json and, by the name of the experiment, table3.csv and table3.html.
///
/// What is done is not done again; what has changed is, with all that depends on its content, and
/// so is what is damaged. A training that would be thrown away so, because a setting or an input of
/// it has changed (a flag that was forgotten, say) or its files are damaged, is not: the call is
/// refused with the trainings, the reasons and the time they took, until --redo is passed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// The experiment (TOML); see configs/reproduce. Its name is what the file is called, and a
    /// folder holds one experiment.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Folder for everything that is made [default: the configuration's name with `-out`].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Folder of the text: *.md, *.txt, LICENSE*, COPYING* in place of the documentation that this
    /// machine has, or the sources of the paper's corpus as the configuration names them.
    #[arg(long, value_name = "DIR")]
    text: Option<PathBuf>,

    /// WikiText103's test split, `wiki.test.tokens` with its `<unk>`; without it, where the
    /// configuration reads the machine's text, some documents of that are held out in its form.
    #[arg(long, value_name = "FILE")]
    wikitext103: Option<PathBuf>,

    /// LAMBADA's test passages, JSONL with a `text` in each line; without it, where the
    /// configuration reads the machine's text, passages of documents that are held out.
    #[arg(long, value_name = "FILE")]
    lambada: Option<PathBuf>,

    /// The folder of RACE, with `train`, `dev` and `test` in it, for the experiment `race`.
    #[arg(long, value_name = "DIR")]
    race: Option<PathBuf>,

    /// Tensor-parallel ranks, one thread each; overrides train.parallel.tensor_parallel_size and
    /// eval.tensor_parallel_size.
    #[arg(long, value_name = "N", value_parser = count)]
    tp: Option<NonZeroUsize>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Do again what has changed or is damaged even where finished trainings are thrown away; what
    /// has not changed is kept. --dry-run shows which would go, and why.
    #[arg(long, conflicts_with = "overwrite")]
    redo: bool,

    /// Remove all that an earlier reproduction made in OUT, and begin again.
    #[arg(long)]
    overwrite: bool,

    /// Print the resolved configuration with the source of each value, the parts and which of them
    /// are done, and what the others take of this machine; write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(
    args: &ReproduceArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    match reproduce(args, global, progress) {
        // The work itself tells how far it came: this is from before its first part.
        Err(error) if work::is_stop(&error) => {
            progress.error(
                "stopped by a signal before a part was begun: what is done is kept. The same command \
                 goes on from there",
            );
            Ok(ExitCode::from(exit::STOPPED))
        }
        done => done,
    }
}

fn reproduce(
    args: &ReproduceArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    let resolved = args.config(global)?;
    let name = args.name();
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-out")));
    let config = &resolved.config;
    let (text, race) = (args.text.as_deref(), args.race.as_deref());
    let inputs = Inputs::find(config, text, args.test_files(), race, progress)?;
    inputs.check_apart(&out)?;

    let earlier = folder::check(&out, &name, config, args.overwrite)?;
    let earlier = earlier.filter(|_| !args.overwrite);
    let mut earlier = earlier.unwrap_or_else(|| Journal::new(config.experiment, &name));
    earlier.look(&out, progress)?;
    let estimate = Estimate::of(config, &inputs, &out, &earlier, progress)?;
    if args.dry_run {
        let parts = Parts { config, inputs: &inputs, out: &out };
        let plan = Plan::of(&name, &parts, &earlier, &estimate)?;
        ResolvedConfig::of(&resolved)?.print_as(&plan, &plan.text(), global)?;
        if let Some(refusal) = refusal(&name, &inputs, &estimate) {
            warn!("the run would be refused: {refusal}");
        }
        let losses = parts.losses(&earlier)?;
        if !losses.is_empty() && !args.redo {
            warn!("the run would be refused: {}", parts.refusal(&losses));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(refusal) = refusal(&name, &inputs, &estimate) {
        bail!(Usage(anyhow!("{refusal}")));
    }

    let (folder, journal) =
        OutFolder::open(&out, &name, config, args.overwrite, &earlier, progress)?;
    let parts = Parts { config, inputs: &inputs, out: folder.path() };
    let mut work = Work::new(parts, journal, &name, progress, args.redo);
    match work.run()? {
        Outcome::Done(report) => {
            print(&report, global)?;
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Stopped { part, done, of } => {
            progress.error(&format!(
                "stopped by a signal in the part {part}: {done} of {of} parts are done. \
                 The same command goes on from there"
            ));
            Ok(ExitCode::from(exit::STOPPED))
        }
    }
}

/// Prints the result.
fn print(report: &Report, global: &GlobalArgs) -> anyhow::Result<()> {
    if global.json { output::json(report) } else { output::text(&report.table(output::table)) }
}

/// Why a reproduction is not begun, all reasons at once; `None` where nothing speaks against it.
fn refusal(name: &str, inputs: &Inputs, estimate: &Estimate) -> Option<String> {
    let missing = inputs.missing.iter().map(|flag| format!("not given: {flag}"));
    let reasons: Vec<_> = missing.chain(estimate.refusals.iter().cloned()).collect();
    if reasons.is_empty() {
        return None;
    }
    let remedy = match estimate.refusals.is_empty() {
        true => "",
        false => {
            "\n  The configuration is complete: take it to a machine that has this. \
             --set limits.max_days=DAYS allows a longer run, and --dry-run shows the whole plan"
        }
    };
    Some(format!("cannot reproduce {name} here\n  {}{remedy}", reasons.join("\n  ")))
}

/// The task of an evaluation on the test set of that name at `data`.
fn eval_task(task: Task, name: &str, data: PathBuf) -> evaluation::Task {
    let (name, protocol) = (name.to_owned(), Protocol::Megatron);
    match task {
        Task::WikiText103 => evaluation::Task::WikiText103(WikiText103 { name, data, protocol }),
        Task::Lambada => evaluation::Task::Lambada(Lambada { name, data, protocol }),
    }
}

impl ReproduceArgs {
    /// What is to be done: the configuration with flags and overrides on top.
    fn config(&self, global: &GlobalArgs) -> anyhow::Result<Resolved<ReproduceConfig>> {
        let mut overrides = global.overrides();
        for key in ["train.parallel.tensor_parallel_size", "eval.tensor_parallel_size"] {
            overrides.extend(Override::flag("--tp", key, self.tp)?);
        }
        let Resolved { config, origins } =
            config_file::read::<ReproduceConfig>(&self.config, &overrides)?;
        Ok(Resolved { config: config.checked()?, origins })
    }

    /// What the experiment is called: as its configuration.
    fn name(&self) -> String {
        let stem = self.config.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    fn test_files(&self) -> [(Task, Option<&Path>); 2] {
        [(Task::WikiText103, self.wikitext103.as_deref()), (Task::Lambada, self.lambada.as_deref())]
    }
}
