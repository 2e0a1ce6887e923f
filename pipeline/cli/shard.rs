//! `pipeline shard`: whether token shards are whole, and what they hold.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use corpus::shard::ShardReader;
use corpus::{DataFolder, MANIFEST, ShardCheck, tokenizer, verify};
use serde::Serialize;

use crate::exit::Usage;
use crate::{GlobalArgs, output};

/// Check or show token shards (Megatron's .bin and .idx).
#[derive(Debug, Args)]
pub(crate) struct ShardArgs {
    #[command(subcommand)]
    command: ShardCommand,
}

#[derive(Debug, Subcommand)]
enum ShardCommand {
    /// Check a data folder against its manifest, or the shards of another program for consistency.
    Verify {
        /// Data folder, folder of shards, or one shard (with or without its ending).
        path: PathBuf,
    },
    /// Show how many documents and tokens there are, or one document.
    Show {
        /// Data folder, folder of shards, or one shard (with or without its ending).
        path: PathBuf,
        /// Document to show, counted from 0; its text too where the tokenizer is known.
        #[arg(long, value_name = "N")]
        doc: Option<u64>,
    },
}

pub(crate) fn run(args: &ShardArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ShardCommand::Verify { path } => {
            let checks = verify(path).context("the check failed")?;
            print_checks(&checks, global)?;
        }
        ShardCommand::Show { path, doc: None } => {
            let checks = verify(path)?;
            print_checks(&checks, global)?;
        }
        ShardCommand::Show { path, doc: Some(document) } => {
            let shown = ShownDocument::read(path, *document)?;
            if global.json {
                output::json(&shown)?;
            } else {
                output::text(&shown.to_string())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_checks(checks: &[ShardCheck], global: &GlobalArgs) -> anyhow::Result<()> {
    if global.json {
        return output::json(&checks);
    }
    let mut rows = vec![
        ["shard", "documents", "sequences", "tokens", "dtype", "highest token"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for check in checks {
        rows.push(vec![
            check.stem.display().to_string(),
            check.documents.to_string(),
            check.sequences.to_string(),
            check.tokens.to_string(),
            format!("{:?}", check.dtype).to_lowercase(),
            check.max_token.map_or_else(|| "-".into(), |token| token.to_string()),
        ]);
    }
    output::text(&output::table(&rows))
}

/// One document of a shard.
#[derive(Debug, Serialize)]
struct ShownDocument {
    document: u64,
    tokens: Vec<u32>,
    /// What the tokens say; `None` where no manifest names the tokenizer.
    text: Option<String>,
}

impl ShownDocument {
    fn read(path: &Path, document: u64) -> anyhow::Result<Self> {
        let (shard, tokenizer) = if path.join(MANIFEST).is_file() {
            let folder = DataFolder::open(path)?;
            let tokenizer = tokenizer::open(&folder.manifest().tokenizer.name)?;
            (folder.shard()?, Some(tokenizer))
        } else {
            (ShardReader::open(path)?, None)
        };
        if document >= shard.num_documents() {
            bail!(Usage(anyhow!(
                "--doc {document}: {} holds {} documents, counted from 0",
                path.display(),
                shard.num_documents()
            )));
        }
        let tokens = shard.document(document)?;
        let text = tokenizer.map(|tokenizer| tokenizer.decode(&tokens));
        Ok(Self { document, tokens, text })
    }
}

impl std::fmt::Display for ShownDocument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "document {}, {} tokens", self.document, self.tokens.len())?;
        match &self.text {
            Some(text) => write!(formatter, "{text}"),
            None => write!(formatter, "{:?}", self.tokens),
        }
    }
}
