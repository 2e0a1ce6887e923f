//! `pipeline checkpoint`: what a checkpoint holds, and its way to other programs and back, through
//! [`training::checkpoint`].

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use training::TrainError;
use training::checkpoint::{self, Checkpoint, Existing, ExportReport, Manifest, QkvOrder};

use crate::exit::Usage;
use crate::numbers::count;
use crate::progress::Progress;
use crate::{GlobalArgs, output};

const EXAMPLES: &str = "\
Examples:
  What the newest checkpoint of a run is, and whether it is whole:
    pipeline checkpoint show runs/tiny
  A model for transformers, and one from there:
    pipeline checkpoint export --hf exported runs/tiny
    pipeline checkpoint import ~/gpt2 checkpoints/gpt2
    pipeline eval --checkpoint checkpoints/gpt2 --task wikitext103 --data wiki.test.tokens
  Files for two tensor-parallel ranks of Megatron-LM, and back:
    pipeline checkpoint reshard --tp 2 runs/tiny sharded
    pipeline checkpoint reshard --merge sharded merged";

/// Show checkpoints, and take them to other programs and back.
///
/// This program needs none of it to train or evaluate: its checkpoints load at any --tp and --dp as
/// they are, and `transformers` loads their folders too. CHECKPOINT is a run folder, its checkpoints
/// folder or a step-N folder; of several the newest is meant.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(Debug, Subcommand)]
enum CheckpointCommand {
    /// Verify a checkpoint against its manifest, and show what it holds.
    Show {
        /// Run folder, its checkpoints folder, or one checkpoint.
        checkpoint: PathBuf,
    },
    /// Write a checkpoint's model and tokenizer for other programs.
    ///
    /// The folder has model.safetensors with the true vocabulary and a tied head once, config.json,
    /// tokenizer.json and tokenizer_config.json, of a GPT-2 generation_config.json, for byte-level
    /// BPE vocab.json and merges.txt, and for BERT's WordPiece vocab.txt. It is what from_pretrained
    /// reads: of GPT2LMHeadModel for a GPT-2; of a BERT as it is trained, of BertForPreTraining or
    /// MegatronBertForPreTraining, and fine-tuned on RACE of the ForMultipleChoice of either.
    Export {
        /// Folder to write, in Hugging Face's form.
        #[arg(long, value_name = "DIR")]
        hf: PathBuf,
        /// Run folder, its checkpoints folder, or one checkpoint.
        checkpoint: PathBuf,
        /// Replace DIR if it holds an earlier export.
        #[arg(long)]
        overwrite: bool,
    },
    /// Make a checkpoint of a GPT-2 or a BERT in Hugging Face's form: to evaluate, or to begin a run
    /// with.
    ///
    /// Weights are safetensors in one file or several, as F32, F16 or BF16, those of a GPT-2 with or
    /// without `transformer.` in their names; a BERT is a ForPreTraining or a ForMultipleChoice,
    /// with all its heads. What the model asks for and this program does not do is refused by
    /// name. The checkpoint has no state of training: begin a run with it by --init-from.
    Import {
        /// Folder with config.json and weights.
        #[arg(value_name = "HFDIR")]
        from: PathBuf,
        /// Checkpoint folder to write.
        out: PathBuf,
        /// Tokenizer where the folder has none, or another: gpt2, bert, or the path of a
        /// tokenizer.json.
        #[arg(long, value_name = "NAME")]
        tokenizer: Option<String>,
        /// Replace OUT if it holds an earlier import.
        #[arg(long)]
        overwrite: bool,
    },
    /// Cut a checkpoint's model into Megatron-LM's files for each tensor-parallel rank, or put such
    /// files together again.
    ///
    /// OUT holds iter_NNNNNNN/mp_rank_RR/model.safetensors, with the names, the transposed weights
    /// and the padded vocabulary of Megatron-LM; what they are stands in megatron.json. The model
    /// goes out, not the optimizer. There and back again the weights are the same bits.
    Reshard {
        /// Run folder, its checkpoints folder, or one checkpoint; with --merge the folder that an
        /// earlier call made.
        #[arg(value_name = "CHECKPOINT")]
        from: PathBuf,
        /// Folder to write.
        out: PathBuf,
        /// Tensor-parallel ranks to write files for.
        #[arg(long, value_name = "N", value_parser = count, required_unless_present = "merge")]
        tp: Option<NonZeroUsize>,
        /// Order of the rows of queries, keys and values, by the version of Megatron-LM's
        /// checkpoints: 0 for its release 1.0, 2 for current ones [default: 2].
        #[arg(long, value_enum, value_name = "VERSION", conflicts_with = "merge")]
        checkpoint_version: Option<Version>,
        /// Put the files together to a checkpoint instead.
        #[arg(long, conflicts_with = "tp")]
        merge: bool,
        /// Replace OUT if it holds an earlier output of this kind.
        #[arg(long)]
        overwrite: bool,
    },
}

/// A version of Megatron-LM's checkpoints.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Version {
    /// All queries, all keys, all values.
    #[value(name = "0")]
    Zero,
    /// Head by head, place by place.
    #[value(name = "1")]
    One,
    /// Head by head, each with its queries, keys and values.
    #[value(name = "2")]
    Two,
}

impl From<Version> for QkvOrder {
    fn from(version: Version) -> Self {
        match version {
            Version::Zero => Self::Version0,
            Version::One => Self::Version1,
            Version::Two => Self::Version2,
        }
    }
}

pub(crate) fn run(
    args: &CheckpointArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    match &args.command {
        CheckpointCommand::Show { checkpoint } => show(checkpoint, global, progress)?,
        CheckpointCommand::Export { hf, checkpoint, overwrite } => {
            let checkpoint = open(checkpoint, progress)?;
            let exported = checkpoint::export(&checkpoint, hf, existing(*overwrite), progress)
                .map_err(failure)
                .context("cannot export the model")?;
            print_export(&exported, global)?;
        }
        CheckpointCommand::Import { from, out, tokenizer, overwrite } => {
            let imported =
                checkpoint::import(from, out, tokenizer.as_deref(), existing(*overwrite), progress)
                    .map_err(failure)
                    .context("cannot import the model")?;
            print_written(out, &imported, global)?;
        }
        CheckpointCommand::Reshard { from, out, merge: true, overwrite, .. } => {
            let merged = checkpoint::merge(from, out, existing(*overwrite), progress)
                .map_err(failure)
                .context("cannot merge the files")?;
            print_written(out, &merged, global)?;
        }
        CheckpointCommand::Reshard { from, out, tp, checkpoint_version, overwrite, .. } => {
            let Some(tp) = tp else { bail!(Usage(anyhow!("--tp N is needed without --merge"))) };
            let checkpoint = open(from, progress)?;
            let order = checkpoint_version.map_or_else(QkvOrder::default, QkvOrder::from);
            let existing = existing(*overwrite);
            let written =
                checkpoint::reshard(&checkpoint, tp.get(), order, out, existing, progress)
                    .map_err(failure)
                    .context("cannot write the files")?;
            if global.json {
                output::json(&written)?;
            } else {
                output::text(&output::table(&[
                    row("folder", out.display().to_string()),
                    row("step", HumanCount(written.step).to_string()),
                    row("tensor-parallel size", written.tensor_parallel_size.to_string()),
                    row(
                        "padded vocabulary",
                        HumanCount(written.padded_vocab_size as u64).to_string(),
                    ),
                ]))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn existing(overwrite: bool) -> Existing {
    if overwrite { Existing::Replace } else { Existing::Refuse }
}

/// What to tell about work that did not come to its end.
fn failure(error: TrainError) -> anyhow::Error {
    match error {
        TrainError::Stopped => {
            anyhow!("stopped by a signal: nothing was written. The same command begins again")
        }
        error => error.into(),
    }
}

/// Opens a checkpoint, every file of which is read for it.
fn open(path: &Path, progress: &Progress) -> anyhow::Result<Checkpoint> {
    Checkpoint::open_observed(path, progress).map_err(failure)
}

fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// What a checkpoint is; opening it has verified every file.
fn show(path: &Path, global: &GlobalArgs, progress: &Progress) -> anyhow::Result<()> {
    let checkpoint = open(path, progress)?;
    let manifest = checkpoint.manifest();
    let (model, layers) = (checkpoint.architecture(), checkpoint.architecture().layers());
    let parameters: u64 = model.parameters().iter().map(|spec| spec.num_elements() as u64).sum();
    if global.json {
        return output::json(&json!({
            "folder": checkpoint.folder(),
            "step": manifest.step,
            "parameters": parameters,
            "model": manifest.model,
            "tokenizer": manifest.tokenizer,
            "has_training_state": checkpoint.has_training_state(),
            "files": manifest.files,
            "verified": true,
        }));
    }
    let count = |number: usize| HumanCount(number as u64).to_string();
    let mut rows = vec![
        row("folder", checkpoint.folder().display().to_string()),
        row("step", HumanCount(manifest.step).to_string()),
        row("model", model.name().to_owned()),
        row("parameters", HumanCount(parameters).to_string()),
        row("layers", count(layers.num_layers)),
        row("hidden size", count(layers.hidden_size)),
        row("attention heads", count(layers.num_attention_heads)),
        row("sequence length", count(model.seq_length())),
        row("vocabulary", count(model.vocab_size())),
        row("tokenizer", manifest.tokenizer.name.clone()),
        row(
            "training can go on from it",
            if checkpoint.has_training_state() { "yes" } else { "no, weights only" }.to_owned(),
        ),
    ];
    for file in &manifest.files {
        rows.push(row(&file.name, HumanBytes(file.bytes).to_string()));
    }
    rows.push(row("every file is as written", "yes".to_owned()));
    output::text(&output::table(&rows))
}

fn print_export(exported: &ExportReport, global: &GlobalArgs) -> anyhow::Result<()> {
    if global.json {
        return output::json(exported);
    }
    output::text(&output::table(&[
        row("folder", exported.folder.display().to_string()),
        row("step", HumanCount(exported.step).to_string()),
        row("parameters", HumanCount(exported.parameters).to_string()),
        row("vocabulary", HumanCount(exported.vocab_size as u64).to_string()),
        row("files", exported.files.join(", ")),
    ]))
}

/// A checkpoint that was written, of weights alone.
fn print_written(out: &Path, manifest: &Manifest, global: &GlobalArgs) -> anyhow::Result<()> {
    if global.json {
        return output::json(&json!({ "folder": out, "manifest": manifest }));
    }
    let bytes = manifest.files.iter().map(|file| file.bytes).sum();
    output::text(&output::table(&[
        row("checkpoint", out.display().to_string()),
        row("step", HumanCount(manifest.step).to_string()),
        row("vocabulary", HumanCount(manifest.model.vocab_size() as u64).to_string()),
        row("tokenizer", manifest.tokenizer.name.clone()),
        row("bytes", HumanBytes(bytes).to_string()),
    ]))
}
