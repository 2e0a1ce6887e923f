//! `pipeline demo`: the whole road once, on text that this machine already has.
//!
//! Calls the same functions as `dedup`, `train` and `eval`, with the configurations `demo.toml` of
//! `configs/`.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use curation::{CurationConfig, curate};
use evaluation::lambada::Lambada;
use evaluation::wikitext103::WikiText103;
use evaluation::{EvalConfig, Protocol, Task, evaluate};
use tracing::info;
use training::{Resume, RunOptions, TrainConfig, train};

use self::report::DemoReport;
use crate::config::{self, Override};
use crate::exit::{self, Usage};
use crate::machine_text::{
    self, LAMBADA_FILE, LAMBADA_NAME, MachineText, TextRequest, TextRoot, WIKITEXT_FILE,
    WIKITEXT_NAME,
};
use crate::progress::Progress;
use crate::{GlobalArgs, output};

/// Run all three stages once: curate a corpus, train a tensor-parallel GPT-2 on it, measure its
/// perplexity and how well it guesses last words.
///
/// Reads the documentation of the crates in cargo's own registry folder, which every machine that
/// has built this program holds, holds some documents out as test sets, and writes everything to
/// OUT. Takes some minutes and 1 GiB on two cores. `--set data.KEY=VALUE`, `--set train.KEY=VALUE`
/// and `--set eval.KEY=VALUE` override its configurations.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for everything that the demo makes.
    #[arg(long, value_name = "DIR", default_value = "demo-out")]
    out: PathBuf,

    /// Folder with text of your own: *.md, *.txt, LICENSE*, COPYING*.
    #[arg(long, value_name = "DIR")]
    text: Option<PathBuf>,

    /// Remove what an earlier demo left in OUT.
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(
    args: &DemoArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let configs = DemoConfigs::read(&global.overrides)?;
    let root =
        args.text.clone().map_or_else(TextRoot::cargo_registry, |path| Ok(TextRoot::own(path)))?;
    if let (Ok(text), Ok(out)) = (root.path.canonicalize(), args.out.canonicalize())
        && text.starts_with(&out)
    {
        bail!(Usage(anyhow!(
            "--text {} lies in the folder that --out names, which the demo writes to: choose another",
            root.path.display()
        )));
    }
    let folders = Folders::lay_out(&args.out, args.overwrite)?;

    info!("1/4 reading text below {}", root.path.display());
    let text = machine_text::prepare(&root, TextRequest::default(), &folders.text, progress)?;

    info!(
        "2/4 dedup: {} documents; {} held out as {WIKITEXT_NAME} and {} passages {LAMBADA_NAME}",
        text.num_documents, text.num_held_out, text.num_passages
    );
    let curation = curate(&configs.data(&text).validate()?, &folders.data, progress)
        .context("cannot curate the text")?;

    info!("3/4 train: {} documents, {} tokens", curation.documents_kept, curation.tokens);
    let options = RunOptions {
        resume: Resume::Never,
        ..RunOptions::new(folders.data.clone(), folders.run.clone())
    };
    let plan = configs.train.clone().validate_observed(options, progress);
    let plan = plan.context("cannot start training")?;
    let unigram_loss = plan.train.samples.samples().unigram_loss()?;
    let training = train(&plan, progress).context("training failed")?;
    if training.stopped {
        info!("stopped; `pipeline train` goes on where {} stands", folders.run.display());
        return Ok(ExitCode::from(exit::STOPPED));
    }

    info!("4/4 eval");
    let plan = configs.eval.validate(folders.run.clone(), tasks(&text))?;
    let evaluation = evaluate(&plan, progress).context("cannot evaluate")?;

    let report = DemoReport::new(text, curation, training, unigram_loss, evaluation)?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&report.table(&folders))?;
    }
    report.write(&folders.report)?;
    Ok(ExitCode::SUCCESS)
}

/// What the demo measures: the last words only where the text has passages that end in one to
/// guess.
fn tasks(text: &MachineText) -> Vec<Task> {
    let protocol = Protocol::Megatron;
    let wikitext = text.wikitext.clone().map(|data| {
        Task::WikiText103(WikiText103 { name: WIKITEXT_NAME.to_owned(), data, protocol })
    });
    let lambada = text
        .lambada
        .clone()
        .map(|data| Task::Lambada(Lambada { name: LAMBADA_NAME.to_owned(), data, protocol }));
    wikitext.into_iter().chain(lambada).collect()
}

/// Where everything lies in the demo's folder.
pub(crate) struct Folders {
    text: PathBuf,
    data: PathBuf,
    run: PathBuf,
    report: PathBuf,
}

impl Folders {
    /// Names the places in `out`, which must be empty or new or, with `overwrite`, an earlier
    /// demo's: of that `text`, `data`, `run` and `report.json` are removed.
    fn lay_out(out: &Path, overwrite: bool) -> anyhow::Result<Self> {
        let folders = Self {
            text: out.join("text"),
            data: out.join("data"),
            run: out.join("run"),
            report: out.join("report.json"),
        };
        let is_used = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        if is_used && !overwrite {
            bail!(Usage(anyhow!(
                "{} is not empty: pass --overwrite to replace an earlier demo, or --out with another folder",
                out.display()
            )));
        }
        if is_used && !folders.text.join(WIKITEXT_FILE).is_file() {
            bail!(Usage(anyhow!(
                "{} holds no earlier demo, so it is not overwritten: pass --out with another folder",
                out.display()
            )));
        }
        if is_used {
            folders.remove()?;
        }
        Ok(folders)
    }

    fn remove(&self) -> anyhow::Result<()> {
        if self.report.exists() {
            fs::remove_file(&self.report)
                .with_context(|| format!("cannot remove {}", self.report.display()))?;
        }
        // The text last: it is what tells that this is a demo's folder.
        for folder in [&self.data, &self.run, &self.text] {
            if folder.exists() {
                fs::remove_dir_all(folder)
                    .with_context(|| format!("cannot remove {}", folder.display()))?;
            }
        }
        Ok(())
    }
}

/// The three stages' configurations.
struct DemoConfigs {
    data: CurationConfig,
    train: TrainConfig,
    eval: EvalConfig,
}

impl DemoConfigs {
    /// The built-in configurations, each with the overrides that begin with its name.
    fn read(overrides: &[String]) -> anyhow::Result<Self> {
        let sections = ["data.", "train.", "eval."];
        if let Some(other) = overrides
            .iter()
            .find(|assignment| !sections.iter().any(|section| assignment.starts_with(section)))
        {
            bail!(Usage(anyhow!(
                "--set {other}: the demo has three configurations, so begin the key with data., train. or eval."
            )));
        }
        let of = |section: &str| -> Vec<Override> {
            overrides
                .iter()
                .filter_map(|assignment| assignment.strip_prefix(section))
                .map(|assignment| Override::set_within(section, assignment))
                .collect()
        };
        Ok(Self {
            data: config::parse(DATA, "configs/data/demo.toml", &of("data."))?.config,
            train: config::parse(TRAIN, "configs/train/demo.toml", &of("train."))?.config,
            eval: config::parse(EVAL, "configs/eval/demo.toml", &of("eval."))?.config,
        })
    }

    /// The curation of `text`, with its test sets kept out.
    fn data(&self, text: &MachineText) -> CurationConfig {
        let mut config = self.data.clone();
        if text.lambada.is_none()
            && let Some(decontamination) = &mut config.decontamination
        {
            decontamination.test_sets.retain(|path| path != Path::new(LAMBADA_FILE));
        }
        config.resolve_from(text.documents.parent().unwrap_or(Path::new("")));
        config
    }
}

const DATA: &str = include_str!("../../../configs/data/demo.toml");
const TRAIN: &str = include_str!("../../../configs/train/demo.toml");
const EVAL: &str = include_str!("../../../configs/eval/demo.toml");
