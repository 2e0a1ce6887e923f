//! `pipeline train`: a data folder to a trained model, through [`training::train`].

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use training::data::WeightedPath;
use training::{
    Fault, PlanSummary, Resume, RunOptions, TrainConfig, TrainPlan, TrainReport, train,
};

use crate::config::{self, Override, Resolved};
use crate::dry_run::ResolvedConfig;
use crate::exit;
use crate::numbers::{count, positive};
use crate::progress::Progress;
use crate::threads::ThreadArgs;
use crate::{GlobalArgs, output};

const EXAMPLES: &str = "\
Examples:
  What the paper's largest model takes, without its data:
    pipeline train --config configs/train/gpt2-8.3b.toml --dry-run --tokens-per-second 198000
  The same of a run of one's own:
    pipeline train --config configs/train/gpt2-tiny.toml --data data/mine --dry-run
  The run, on two ranks; called again after Ctrl-C or a crash, it goes on from its checkpoint:
    pipeline train --config configs/train/gpt2-tiny.toml --data data/mine --out runs/tiny --tp 2
  From another run's checkpoint on, in a folder of its own, with a longer schedule:
    pipeline train --config configs/train/gpt2-tiny.toml --data data/mine --out runs/longer \\
        --resume runs/tiny --set schedule.train_steps=1000 --override-schedule
  With the weights of a model of Hugging Face's to begin with:
    pipeline train --config my-gpt2.toml --data data/mine --out runs/tuned --init-from ~/gpt2
  A pre-trained BERT that learns to answer RACE's questions, of the folder with train/ and dev/:
    pipeline train --config configs/train/race-336m.toml --data RACE --out runs/race \\
        --init-from runs/bert-336m
  With other values:
    pipeline train --config configs/train/gpt2-tiny.toml --data data/mine --out runs/fast \\
        --set optimizer.lr=3e-3 --set schedule.train_steps=1000";

/// Train a model on a data folder, split over tensor-parallel ranks, or fine-tune one on RACE.
///
/// OUT holds metrics.jsonl, a line per step, and checkpoints/, of which `latest` names the newest.
/// The same call on an unfinished run goes on where its newest checkpoint is; Ctrl-C saves one
/// first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    /// Configuration of the run (TOML); see configs/train.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Data folder that `pipeline dedup` made, or a Megatron shard by its path without .bin; may be
    /// given more than once, and with weights.
    ///
    /// Without weights all data is one, drawn in proportion to its size. DIR:WEIGHT makes a blend:
    /// each has its share of the samples at every moment of the run, and one that ends is repeated,
    /// as data.repeat says. Weights need not add up to 1; 0 leaves out. The sources of a folder that
    /// was curated with weights are a blend in themselves, of which WEIGHT is divided. A shard needs
    /// data.tokenizer. A path that holds a colon is taken as it is where it exists. A configuration
    /// with [finetune.race] takes one folder of RACE instead, with train and dev below it.
    #[arg(long, value_name = "DIR[:WEIGHT]", required_unless_present = "dry_run")]
    data: Vec<OsString>,

    /// Run folder.
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// Tensor-parallel ranks, one thread each; overrides parallel.tensor_parallel_size.
    #[arg(long, value_name = "N", value_parser = count)]
    tp: Option<NonZeroUsize>,

    /// Copies of the model, each of which takes its share of every global batch; overrides
    /// parallel.data_parallel_size.
    #[arg(long, value_name = "N", value_parser = count)]
    dp: Option<NonZeroUsize>,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Write which samples each step takes to OUT/samples.jsonl.
    ///
    /// Sample k is tokens k*S to (k+1)*S of the training documents, for a sequence length of S, in
    /// every epoch. Sources of a blend are numbered one behind the other, in the order of --data.
    /// With data.order = "megatron" k counts through the shuffled documents of all epochs. Of RACE it
    /// is question k of the split train.
    #[arg(long)]
    log_samples: bool,

    /// Write what each rank exchanges in each step to OUT/collectives.json: calls, numbers and
    /// bytes of every collective, by name.
    #[arg(long)]
    trace_collectives: bool,

    /// Where to go on from: `auto`, `never`, or a run folder or checkpoint.
    ///
    /// auto goes on with the unfinished run that OUT holds, from its newest complete checkpoint, and
    /// begins one where OUT holds none. never refuses an OUT that holds a run. A path of another run
    /// folder begins a run in OUT that goes on where that one stood; one of OUT's own checkpoints
    /// goes back to it once, and sets later ones aside: repeated, the command goes on. Whatever it
    /// is, configuration and data have to be the same, but for the sections parallel, recompute,
    /// validation, checkpoint and logging, and for batch.micro_batch_size, data.repeat and
    /// data.epoch_tokens.
    #[arg(
        long,
        value_name = "auto|never|PATH",
        default_value = "auto",
        conflicts_with = "overwrite"
    )]
    resume: String,

    /// Go on though the sections schedule or optimizer, or finetune.race, differ from the run's so
    /// far; the change is logged and kept in OUT/run.json.
    #[arg(long)]
    override_schedule: bool,

    /// Begin with these weights at step 0, with a fresh optimizer: a folder in Hugging Face's form,
    /// a run folder or a checkpoint. The sizes have to be the configuration's. Fine-tuning needs it:
    /// its texts are encoded by the tokenizer of these weights, and all but the head begins with
    /// them.
    #[arg(long, value_name = "DIR")]
    init_from: Option<PathBuf>,

    /// Delete the run that OUT holds and begin again, instead of going on with it.
    #[arg(long)]
    overwrite: bool,

    /// Print the resolved configuration with the source of each value, and what the run amounts to;
    /// write nothing.
    ///
    /// That is: parameters by part, memory of a rank, messages, tokens, epochs and work. Without
    /// --data the configuration's model.gpt2.vocab_size and data.epoch_tokens stand for the data,
    /// as configs/train has them for the paper's corpus.
    #[arg(long)]
    dry_run: bool,

    /// With --dry-run: training speed over all ranks, to tell how many days an epoch and the run
    /// would take.
    #[arg(long, value_name = "N", requires = "dry_run", value_parser = positive)]
    tokens_per_second: Option<f64>,

    /// For tests of this program: let something go wrong in the run; may be given more than once.
    ///
    /// nan@7: the loss of step 7 is no number. inf@7, inf@7-8, inf@7-: a gradient overflows in
    /// step 7, in steps 7 and 8, from step 7 on. die@12:rank1: rank 1, counted from 0, fails in
    /// the middle of step 12. sleep@12:rank1: it sleeps there for longer than the others wait for
    /// it (parallel.timeout_seconds).
    #[arg(long, value_name = "FAULT", hide_short_help = true)]
    inject: Vec<Fault>,
}

pub(crate) fn run(
    args: &TrainArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    let resolved = args.config(global)?;
    let written = ResolvedConfig::of(&resolved)?;
    if args.data.is_empty() {
        let plan = resolved.config.summary().context("cannot plan the run")?;
        written.print(&TrainDryRun::of(plan, args.tokens_per_second), global)?;
        return Ok(ExitCode::SUCCESS);
    }
    let data = args.data.iter().map(|data| WeightedPath::parse(data)).collect();
    let options = RunOptions {
        resume: args.resume(),
        override_schedule: args.override_schedule,
        init_from: args.init_from.clone(),
        log_samples: args.log_samples,
        trace_collectives: args.trace_collectives,
        faults: args.inject.clone().into(),
        command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        ..RunOptions::blend(data, args.out.clone().unwrap_or_default())
    };
    let plan =
        resolved.config.validate_observed(options, progress).context("cannot start training")?;
    if args.dry_run {
        written.print(&TrainDryRun::of(plan.summary(), args.tokens_per_second), global)?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = train(&plan, progress).context("training failed")?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&summary(&report, &plan))?;
    }
    Ok(if report.stopped { ExitCode::from(exit::STOPPED) } else { ExitCode::SUCCESS })
}

impl TrainArgs {
    /// What to do with a run that is there already.
    fn resume(&self) -> Resume {
        match self.resume.as_str() {
            _ if self.overwrite => Resume::Overwrite,
            "auto" => Resume::Auto,
            "never" => Resume::Never,
            path => Resume::From(PathBuf::from(path)),
        }
    }

    /// What is to be done: the configuration with flags and overrides on top.
    fn config(&self, global: &GlobalArgs) -> anyhow::Result<Resolved<TrainConfig>> {
        let mut overrides = global.overrides();
        overrides.extend(Override::flag("--tp", "parallel.tensor_parallel_size", self.tp)?);
        overrides.extend(Override::flag("--dp", "parallel.data_parallel_size", self.dp)?);
        config::read(&self.config, &overrides)
    }
}

/// What a run amounts to, and how long it takes at a given speed.
#[derive(Debug, Serialize)]
struct TrainDryRun {
    #[serde(flatten)]
    plan: PlanSummary,
    /// Floating-point operations of the model per second at the given speed, over all ranks.
    model_flops_per_second: Option<f64>,
    /// Time of an epoch; `None` where no speed was given, or the epoch is not known.
    days_per_epoch: Option<f64>,
    /// Time of all steps; `None` where no speed was given.
    days: Option<f64>,
}

impl TrainDryRun {
    fn of(plan: PlanSummary, tokens_per_second: Option<f64>) -> Self {
        let days = |tokens: u64| tokens_per_second.map(|speed| tokens as f64 / speed / 86_400.0);
        let flops_per_token = plan.model_flops_per_step / plan.tokens_per_step as f64;
        Self {
            model_flops_per_second: tokens_per_second.map(|speed| speed * flops_per_token),
            days_per_epoch: plan.tokens_per_epoch.and_then(days),
            days: days(plan.tokens_total),
            plan,
        }
    }
}

/// What the run came to, as a table, and how to go on where it was stopped.
pub(crate) fn summary(report: &TrainReport, plan: &TrainPlan) -> String {
    let loss = |loss: Option<f64>| loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}"));
    let speed =
        |speed: Option<f64>| speed.map_or_else(|| "-".into(), |speed| format!("{speed:.0}"));
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let count = |count: u64| indicatif::HumanCount(count).to_string();
    let steps = match report.stopped {
        true => format!("{} of {}", count(report.steps), count(plan.train_steps)),
        false => count(report.steps),
    };
    let mut rows = vec![
        row("parameters, without padding", count(report.parameters)),
        row("tensor-parallel size", report.tensor_parallel_size.to_string()),
        row("data-parallel size", report.data_parallel_size.to_string()),
        row("steps", steps),
        row("tokens", count(report.tokens)),
        row("first loss", loss(report.first_loss)),
        row(
            &format!("final loss, mean of {} steps", report.final_loss_steps),
            loss(report.final_loss),
        ),
        row("validation loss", loss(report.validation_loss)),
        row("tokens per second", speed(report.tokens_per_second)),
        row("seconds", format!("{:.1}", report.seconds)),
        row("checkpoint", report.checkpoint.display().to_string()),
    ];
    if let Some(accuracy) = report.validation_accuracy {
        let after_loss = rows.len() - 3;
        rows.insert(after_loss, row("validation accuracy", format!("{:.1}%", 1e2 * accuracy)));
    }
    if report.skipped > 0 {
        rows.insert(4, row("skipped steps, for overflows", count(report.skipped)));
    }
    let mut text = output::table(&rows);
    if report.stopped {
        let without = match plan.options.resume {
            Resume::Overwrite => " without --overwrite",
            Resume::Never => " without --resume never",
            Resume::Auto | Resume::From(_) => "",
        };
        text.push_str(&format!(
            "\nStopped by a signal after step {}; all up to there is saved. \
             The same command{without} goes on from the checkpoint.\n",
            count(report.steps)
        ));
    }
    text
}
