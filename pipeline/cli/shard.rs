//! `pipeline shard`: whether token shards are whole, what they hold, several made one, and texts
//! made one as they are.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use corpus::shard::ShardReader;
use corpus::tokenizer::{self, Tokenizer};
use corpus::{CorpusError, DataFolder, Existing, MANIFEST, ShardCheck, merge, shards_at, verify};
use curation::records::Location;
use serde::Serialize;

use crate::dedup::{self, FromTextArgs};
use crate::exit::Usage;
use crate::progress::Progress;
use crate::{GlobalArgs, output};

/// Check, show, merge or make token shards (Megatron's .bin and .idx).
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
        /// Document to show, counted from 0; its text too where the tokenizer is known, and in a
        /// data folder where it came from.
        #[arg(long, value_name = "N")]
        doc: Option<u64>,
        /// Tokenizer of a shard that lies in no data folder: gpt2, bert, or the path of a
        /// tokenizer.json.
        #[arg(long, value_name = "NAME", requires = "doc")]
        tokenizer: Option<String>,
    },
    FromText(FromTextArgs),
    /// Make one of several: data folders to a data folder, shards of other programs to a shard.
    ///
    /// Documents stand in the order of the inputs, as they are: nothing is filtered, so what stands
    /// in two inputs stands in the result twice. Every input is verified first.
    Merge {
        /// Data folder or shard to make.
        out: PathBuf,
        /// Data folders, or shards and folders of shards.
        #[arg(value_name = "IN", required = true)]
        inputs: Vec<PathBuf>,
        /// Replace OUT if it is there already.
        #[arg(long)]
        overwrite: bool,
    },
}

impl ShardArgs {
    /// Whether `--set` has something to override.
    pub(crate) fn reads_configuration(&self) -> bool {
        matches!(self.command, ShardCommand::FromText(_))
    }
}

pub(crate) fn run(
    args: &ShardArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    match &args.command {
        ShardCommand::Verify { path } => {
            let checks = verify(path, progress).map_err(failure).context("the check failed")?;
            print_checks(&checks, global)?;
        }
        ShardCommand::Show { path, doc: None, .. } => {
            let checks = verify(path, progress).map_err(failure)?;
            print_checks(&checks, global)?;
        }
        ShardCommand::Show { path, doc: Some(document), tokenizer } => {
            let shown = ShownDocument::read(path, *document, tokenizer.as_deref())?;
            if global.json {
                output::json(&shown)?;
            } else {
                output::text(&shown.to_string())?;
            }
        }
        ShardCommand::FromText(args) => return dedup::run_from_text(args, global, progress),
        ShardCommand::Merge { out, inputs, overwrite } => {
            let existing = if *overwrite { Existing::Replace } else { Existing::Refuse };
            let merged = merge(inputs, out, existing, progress)
                .map_err(failure)
                .context("cannot merge the inputs")?;
            print_checks(&[merged], global)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to tell about work that did not come to its end.
fn failure(error: CorpusError) -> anyhow::Error {
    match error {
        CorpusError::Stopped => {
            anyhow!("stopped by a signal: nothing was written. The same command begins again")
        }
        error => error.into(),
    }
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
    /// How many tokens each of its sequences has, where it has several: its sentences.
    sequences: Option<Vec<u64>>,
    /// What the tokens say, a line for each sequence; `None` where the tokenizer is not known.
    text: Option<String>,
    /// Where the document came from; `None` where no data folder tells.
    source: Option<Location>,
}

impl ShownDocument {
    fn read(path: &Path, document: u64, tokenizer: Option<&str>) -> anyhow::Result<Self> {
        if !path.join(MANIFEST).is_file() {
            let tokenizer = tokenizer.map(tokenizer::open).transpose()?;
            let stem = single_shard(path)?;
            return Self::of(&ShardReader::open(&stem)?, path, document, tokenizer);
        }
        if let Some(name) = tokenizer {
            bail!(Usage(anyhow!("--tokenizer {name}: a data folder names its tokenizer itself")));
        }
        let folder = DataFolder::open(path)?;
        let mut shown = Self::of(&folder.shard()?, path, document, Some(folder.tokenizer()?))?;
        if let Some(line) = folder.provenance(document)? {
            let context = || format!("line {} of the list of provenance", document + 1);
            shown.source = Some(serde_json::from_str(&line).with_context(context)?);
        }
        Ok(shown)
    }

    fn of(
        shard: &ShardReader,
        path: &Path,
        document: u64,
        tokenizer: Option<Arc<dyn Tokenizer>>,
    ) -> anyhow::Result<Self> {
        if document >= shard.num_documents() {
            bail!(Usage(anyhow!(
                "--doc {document}: {} holds {} documents, counted from 0",
                path.display(),
                shard.num_documents()
            )));
        }
        let tokens = shard.document(document)?;
        let sequences = shard.document_sequences(document)?;
        let lengths = sequences.map(|sequence| {
            let places = shard.sequence_tokens(sequence)?;
            Ok(places.end - places.start)
        });
        let lengths: Vec<u64> = lengths.collect::<Result<_, CorpusError>>()?;
        let mut rest = &tokens[..];
        let texts = |tokenizer: Arc<dyn Tokenizer>| {
            let texts = lengths.iter().map(|&length| {
                let (sequence, after) = rest.split_at(length as usize);
                rest = after;
                tokenizer.decode(sequence)
            });
            texts.collect::<Vec<_>>().join("\n")
        };
        let text = tokenizer.map(texts);
        let sequences = (lengths.len() != 1).then_some(lengths);
        Ok(Self { document, tokens, sequences, text, source: None })
    }
}

/// The shard at a path: of a folder the one that lies in it.
fn single_shard(path: &Path) -> anyhow::Result<PathBuf> {
    let mut stems = shards_at(path)?;
    match (stems.pop(), stems.first()) {
        (Some(stem), None) => Ok(stem),
        (_, first) => bail!(Usage(anyhow!(
            "--doc: {} holds several shards: name one of them, such as {}",
            path.display(),
            first.map_or_else(String::new, |stem| stem.display().to_string())
        ))),
    }
}

impl std::fmt::Display for ShownDocument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "document {}, {} tokens", self.document, self.tokens.len())?;
        let sequences = self.sequences.as_ref();
        sequences.map_or(Ok(()), |it| write!(formatter, " in {} sequences", it.len()))?;
        writeln!(formatter)?;
        if let Some(Location { source, file, line, id }) = &self.source {
            write!(formatter, "from {file}")?;
            line.map_or(Ok(()), |line| write!(formatter, ":{line}"))?;
            // A source that was given no name has its file's.
            let source = source.as_ref().filter(|source| *source != file);
            source.map_or(Ok(()), |source| write!(formatter, ", source {source}"))?;
            id.as_ref().map_or(Ok(()), |id| write!(formatter, ", id {id}"))?;
            writeln!(formatter)?;
        }
        match &self.text {
            Some(text) => write!(formatter, "{text}"),
            None => write!(formatter, "{:?}", self.tokens),
        }
    }
}
