//! `pipeline dedup`: raw text to a data folder, through [`curation::curate`].

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use corpus::Existing;
use corpus::reader::{OnBadFile, OnBadLine, SourceConfig, SourceFormat};
use curation::{CurationConfig, CurationError, CurationReport, check_output, curate};

use crate::config::{self, Override, Resolved};
use crate::dry_run::ResolvedConfig;
use crate::exit::Usage;
use crate::progress::Progress;
use crate::{GlobalArgs, numbers, output};

const EXAMPLES: &str = "\
Examples:
  A corpus with the paper's cleaning, after a look at what would be done:
    pipeline dedup corpus/*.jsonl --out data/mine --dry-run
    pipeline dedup corpus/*.jsonl --out data/mine
  Records that keep their text elsewhere, and some that cannot be read:
    pipeline dedup corpus.jsonl --out data/mine --text-key content --on-bad-line skip
  A configuration, with one of its values changed:
    pipeline dedup --config configs/data/openwebtext.toml --out data/owt \\
        --set length.min_tokens=64";

/// Curate a corpus: filter, remove duplicates and test data, tokenize, shard.
///
/// Drops documents under 128 tokens, all but the first of equal texts, documents that hold articles
/// of a test set, and documents whose Jaccard similarity with an earlier kept one is above 0.7.
/// Every dropped document is listed with its reason and witness in OUT/removed.jsonl, the counts
/// are in OUT/report.json. OUT appears when it is complete.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DedupArgs {
    /// Files, folders or quoted globs of JSONL, Parquet, or text as one document per file; `.gz`
    /// and `.zst` are unpacked.
    ///
    /// Names tell what files hold: JSONL is `*.jsonl`, `*.ndjson` or `*.json`, text is `*.txt`,
    /// each with `.gz` or `.zst` where it is compressed; Parquet is `*.parquet`. A folder or glob
    /// must hold one form only. Hidden files and links to folders are left out and listed.
    #[arg(value_name = "INPUT", required_unless_present = "config", conflicts_with = "config")]
    inputs: Vec<PathBuf>,

    /// Configuration of the corpus (TOML), in place of INPUT; its paths are relative to the working
    /// folder.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    corpus: CorpusArgs,
}

/// Tokenize texts as they are into a data folder: dedup with its stages off.
///
/// Documents without text are left out; nothing else is dropped.
#[derive(Debug, Args)]
pub(crate) struct FromTextArgs {
    /// Files, folders or quoted globs of JSONL, Parquet, or text as one document per file; `.gz`
    /// and `.zst` are unpacked.
    ///
    /// Names tell what files hold: JSONL is `*.jsonl`, `*.ndjson` or `*.json`, text is `*.txt`,
    /// each with `.gz` or `.zst` where it is compressed; Parquet is `*.parquet`. A folder or glob
    /// must hold one form only. Hidden files and links to folders are left out and listed.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    corpus: CorpusArgs,
}

/// How texts are read and where their data folder goes, whatever is done to them.
#[derive(Debug, Args)]
struct CorpusArgs {
    /// Data folder to make.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Tokenizer: gpt2, bert, or the path of a tokenizer.json.
    ///
    /// With bert, a sequence of the shard is a sentence, and the index says where documents end; with
    /// others it is a document, unless `--set sequences=sentences` asks for the same.
    #[arg(long, value_name = "NAME")]
    tokenizer: Option<String>,

    /// Key of a JSONL record, or column of a Parquet file, that holds the text [default: text].
    #[arg(long, value_name = "KEY")]
    text_key: Option<String>,

    /// What to do with a record that cannot be read [default: fail].
    #[arg(long, value_name = "POLICY")]
    on_bad_line: Option<BadLinePolicy>,

    /// What to do with a file that breaks off or is damaged [default: fail].
    ///
    /// A file whose last line ends inside its record is such a file, whatever --on-bad-line says.
    #[arg(long, value_name = "POLICY")]
    on_bad_file: Option<BadFilePolicy>,

    /// Threads to work on [default: all cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Memory that the process may hold for itself, such as 256M or 8G [default: half of what the
    /// machine has left].
    ///
    /// The result is the same for any limit; a small one costs passes over the signatures. Stage
    /// files that are read through the memory map are not counted: the system keeps as much of them
    /// as it has room for.
    #[arg(long, value_name = "BYTES", value_parser = numbers::memory_limit)]
    max_memory: Option<u64>,

    /// Replace the data folder OUT, and what another run for OUT left unfinished.
    ///
    /// Without it, a data folder that was made of the same configuration and files is left as it
    /// is, and one that was made, or begun, of something else is refused with what differs. A run
    /// that was killed or stopped goes on where it was, with and without.
    #[arg(long)]
    overwrite: bool,

    /// Print the resolved configuration with the source of each value, and the files and steps;
    /// write nothing, read no document.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BadLinePolicy {
    /// Stop with the file, the line and the remedy.
    Fail,
    /// Pass over it and list it in OUT/rejects.jsonl.
    Skip,
    /// Put U+FFFD in place of what is no character; pass over what cannot be mended so.
    Replace,
}

impl From<BadLinePolicy> for OnBadLine {
    fn from(policy: BadLinePolicy) -> Self {
        match policy {
            BadLinePolicy::Fail => Self::Fail,
            BadLinePolicy::Skip => Self::Skip,
            BadLinePolicy::Replace => Self::Replace,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BadFilePolicy {
    /// Stop with the file, the place of the break and the number of documents before it.
    Fail,
    /// Keep the documents before the break, list the file in OUT/report.json, and go on.
    KeepPrefix,
}

impl From<BadFilePolicy> for OnBadFile {
    fn from(policy: BadFilePolicy) -> Self {
        match policy {
            BadFilePolicy::Fail => Self::Fail,
            BadFilePolicy::KeepPrefix => Self::KeepPrefix,
        }
    }
}

pub(crate) fn run(
    args: &DedupArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let resolved = match &args.config {
        Some(path) => args.corpus.resolve(global, |overrides| config::read(path, overrides)),
        None => args.corpus.inputs(&args.inputs, CurationConfig::of_paper, global),
    }?;
    args.corpus.curate(resolved, global, progress)
}

/// `pipeline shard from-text`.
pub(crate) fn run_from_text(
    args: &FromTextArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let resolved = args.corpus.inputs(&args.inputs, CurationConfig::of_text, global)?;
    args.corpus.curate(resolved, global, progress)
}

/// What to tell about a curation that did not come to its end.
fn failure(error: CurationError) -> anyhow::Error {
    match error {
        stopped @ CurationError::Stopped { .. } => {
            anyhow::Error::new(stopped).context("stopped by a signal")
        }
        error => anyhow::Error::new(error).context("cannot curate the corpus"),
    }
}

impl CorpusArgs {
    /// The configuration that `read` makes under the flags and overrides.
    fn resolve(
        &self,
        global: &GlobalArgs,
        read: impl FnOnce(&[Override]) -> anyhow::Result<Resolved<CurationConfig>>,
    ) -> anyhow::Result<Resolved<CurationConfig>> {
        let mut overrides = global.overrides();
        overrides.extend(Override::flag("--tokenizer", "tokenizer", self.tokenizer.as_ref())?);
        let policy = self.on_bad_line.map(OnBadLine::from);
        overrides.extend(Override::flag("--on-bad-line", "on_bad_line", policy)?);
        let policy = self.on_bad_file.map(OnBadFile::from);
        overrides.extend(Override::flag("--on-bad-file", "on_bad_file", policy)?);
        let mut resolved = read(&overrides)?;
        if let Some(key) = &self.text_key {
            set_text_key(&mut resolved, key)?;
        }
        Ok(resolved)
    }

    /// The configuration that `defaults` makes of the sources at `inputs`.
    fn inputs(
        &self,
        inputs: &[PathBuf],
        defaults: fn(Vec<SourceConfig>) -> CurationConfig,
        global: &GlobalArgs,
    ) -> anyhow::Result<Resolved<CurationConfig>> {
        let sources: Vec<_> = inputs
            .iter()
            .map(SourceConfig::detect)
            .collect::<Result<_, _>>()
            .context("cannot read the inputs")?;
        let count = sources.len();
        let mut resolved =
            self.resolve(global, |overrides| config::over_defaults(&defaults(sources), overrides))?;
        for index in 0..count {
            for key in ["name", "paths"] {
                resolved.origins.note_default(format!("source.{index}.{key}"), "INPUT");
            }
        }
        Ok(resolved)
    }

    /// Curates what was resolved, or prints what that would be, and prints what came of it.
    fn curate(
        &self,
        resolved: Resolved<CurationConfig>,
        global: &GlobalArgs,
        progress: &Progress,
    ) -> anyhow::Result<ExitCode> {
        let written = ResolvedConfig::of(&resolved)?;
        let mut plan = resolved.config.validate()?;
        for source in &plan.sources {
            source.check_output(&self.out).map_err(|error| failure(error.into()))?;
        }
        if self.overwrite {
            plan.existing = Existing::Replace;
        }
        plan.max_memory = self.max_memory;
        // Where no number is given, a thread for every core.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads.map_or(0, usize::from))
            .build()
            .context("cannot start the threads")?;
        if self.dry_run {
            written.print(&plan.summary().map_err(failure)?, global)?;
            if let Err(error) = pool.install(|| check_output(&plan, &self.out, progress)) {
                tracing::warn!("the run would be refused: {error}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        let report = pool.install(|| curate(&plan, &self.out, progress)).map_err(failure)?;
        if global.json {
            output::json(&report)?;
        } else {
            output::text(&summary(&report))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Has every source of records take its text from `key`.
fn set_text_key(resolved: &mut Resolved<CurationConfig>, key: &str) -> anyhow::Result<()> {
    let mut is_used = false;
    for (index, source) in resolved.config.sources.iter_mut().enumerate() {
        let (text_key, written) = match &mut source.format {
            SourceFormat::Jsonl(jsonl) => (&mut jsonl.text_key, "jsonl.text_key"),
            SourceFormat::Parquet(parquet) => (&mut parquet.text_column, "parquet.text_column"),
            SourceFormat::Text(_) => continue,
        };
        key.clone_into(text_key);
        resolved.origins.note(format!("source.{index}.{written}"), "--text-key");
        is_used = true;
    }
    if !is_used {
        bail!(Usage(anyhow!("--text-key {key}: no source is JSONL or Parquet")));
    }
    Ok(())
}

/// What became of the documents, as a table.
pub(crate) fn summary(report: &CurationReport) -> String {
    let mut rows = vec![row("documents in", report.documents_in)];
    rows.extend(report.dropped.iter().map(|(reason, &count)| row(&format!("  {reason}"), count)));
    rows.push(row("documents kept", report.documents_kept));
    rows.extend(report.sentences.map(|sentences| row("sentences", sentences)));
    rows.push(row("tokens", report.tokens));
    for (reason, &count) in &report.rejected {
        rows.push(row(&format!("records passed over, {reason}"), count));
    }
    for (reason, &count) in &report.repaired {
        rows.push(row(&format!("documents repaired, {reason}"), count));
    }
    if let Some(changed) = report.unicode_repaired {
        rows.push(row("documents changed by the Unicode repair", changed));
    }
    if let Some(cut) = &report.cut_words {
        rows.push(row("words cut for the encoder", cut.number));
    }
    if !report.excluded_sources.is_empty() {
        rows.push(vec![
            "sources left out for the model".into(),
            report.excluded_sources.join(", "),
        ]);
    }
    for truncated in &report.truncated_files {
        rows.push(row(
            &format!("documents kept of the broken {}", truncated.file),
            truncated.documents,
        ));
    }
    // Where two rules count different numbers of words, the first of them stands in the table.
    let overlap = report.contamination.as_ref().and_then(|found| found.overlap.first());
    for (test_set, words) in
        overlap.iter().flat_map(|it| it.test_sets.iter().map(|set| (set, it.ngram_words)))
    {
        let share = format!("{:.2}%", 100.0 * test_set.share);
        rows.push(vec![format!("{words}-grams found of {}", test_set.file), share]);
    }
    if !report.skipped_files.is_empty() {
        rows.push(row("files left out", report.skipped_files.len() as u64));
    }
    let megabytes = report.bytes_in as f64 / 1e6;
    rows.push(vec!["megabytes in".into(), format!("{megabytes:.1}")]);
    rows.push(vec!["megabytes per second".into(), format!("{:.1}", megabytes / report.seconds)]);
    let mut text = output::table(&rows);
    if let Some(largest) = report.clusters.first() {
        text.push_str(&format!(
            "largest cluster: {} documents, such as {} (kept) and {} (Jaccard {:.2})\n",
            largest.size, largest.example.kept, largest.example.removed, largest.example.jaccard
        ));
    }
    text
}

fn row(name: &str, count: u64) -> Vec<String> {
    vec![name.to_owned(), indicatif::HumanCount(count).to_string()]
}
