//! Text that this machine already has: where it comes from, and what of it is held out for tests.
//!
//! Every machine that has built this program holds the documentation of the crates it is made of:
//! real English with hundreds of nearly equal licences. Documents are read in the fixed order of
//! their paths. Where test sets are asked for, some are set apart by a fixed rule; of these are made a
//! test text in WikiText form, from the beginning of each, and passages in LAMBADA's form, from all
//! of each. The others go to the curation, which keeps both test sets out.

mod cloze;
mod prose;
mod wikitext;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::reader::{
    Item, OnBadLine, ReadPolicy, SourceConfig, SourceFormat, Sources, TextTreeConfig,
};
use corpus::{CorpusError, Document, Observer, Unit};
use serde::Serialize;
use tracing::info;
use xxhash_rust::xxh3::xxh3_64;

use self::prose::Prose;
use self::wikitext::{Article, article};
use crate::exit::Usage;
use crate::output;

/// Names of the held-out test sets wherever they appear: they are not the benchmarks whose form they
/// have.
pub(crate) const WIKITEXT_NAME: &str = "demo-wikitext";
pub(crate) const LAMBADA_NAME: &str = "demo-lambada";

/// Their files in the folder of the text, ...
pub(crate) const WIKITEXT_FILE: &str = "demo-wikitext.tokens";
pub(crate) const LAMBADA_FILE: &str = "demo-lambada.jsonl";
/// ... and that of all other documents.
pub(crate) const DOCUMENTS_FILE: &str = "documents.jsonl";

/// Documentation and licences of crates, ...
const INCLUDE: [&str; 3] = ["*.md", "LICENSE*", "COPYING*"];
/// ... and the usual name of text, in a folder of the user's own.
const INCLUDE_OWN: &str = "*.txt";
/// Folders of test inputs, which are no documentation.
const EXCLUDE: [&str; 3] = ["tests", "test_data", "data"];
/// The most text that is read where nothing else is said, in bytes: time grows with it.
pub(crate) const MAX_BYTES: u64 = 15_000_000;
/// The test text: at least this many words where there is enough, ...
const TEST_WORDS: usize = 15_000;
/// ... from at most one document in this many, ...
const ONE_HELD_OUT_IN: usize = 20;
/// ... each with at least so many words of prose, ...
const MIN_ARTICLE_WORDS: usize = 300;
/// ... and cut at so many.
const MAX_ARTICLE_WORDS: usize = 1_500;
/// The most passages whose last word is to be guessed.
const MAX_PASSAGES: usize = 300;

/// How much text is read, and which test sets are made of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextRequest {
    /// The most text that is read, in bytes.
    pub(crate) max_bytes: u64,
    /// Whether documents are held out for a test text in WikiText form, ...
    pub(crate) wikitext: bool,
    /// ... and for passages in LAMBADA's form.
    pub(crate) lambada: bool,
}

/// Both test sets, and as much text as a demo takes.
impl Default for TextRequest {
    fn default() -> Self {
        Self { max_bytes: MAX_BYTES, wikitext: true, lambada: true }
    }
}

/// The files that [`prepare`] wrote, and what is in them.
#[derive(Debug, Serialize)]
pub(crate) struct MachineText {
    /// Folder the text was read from.
    pub(crate) root: PathBuf,
    /// JSONL of the documents that go to the curation.
    pub(crate) documents: PathBuf,
    /// Test text in WikiText form, made of documents that do not; `None` where none was asked for.
    pub(crate) wikitext: Option<PathBuf>,
    /// Passages in LAMBADA's form, made of the same; `None` where there are none, or none
    /// were asked for.
    pub(crate) lambada: Option<PathBuf>,
    pub(crate) num_documents: usize,
    pub(crate) num_held_out: usize,
    /// Bytes of all documents.
    pub(crate) bytes: usize,
    /// Files that are not UTF-8.
    pub(crate) num_unreadable: usize,
    /// Words of the test text, as the benchmark counts them.
    pub(crate) test_words: usize,
    /// Passages whose last word is to be guessed.
    pub(crate) num_passages: usize,
}

/// A folder of text and the names of the files to read in it.
#[derive(Debug)]
pub(crate) struct TextRoot {
    pub(crate) path: PathBuf,
    include: Vec<&'static str>,
    /// Whether the documents lie one folder deeper, in one that is named after a registry: its name
    /// differs between machines.
    pub(crate) is_registry: bool,
}

impl TextRoot {
    /// The folder of sources that cargo keeps of every crate it has built.
    pub(crate) fn cargo_registry() -> anyhow::Result<Self> {
        let cargo_home = env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
            .ok_or_else(|| {
                Usage(anyhow!("neither CARGO_HOME nor a home folder is set: pass --text DIR"))
            })?;
        let path = cargo_home.join("registry").join("src");
        if !path.is_dir() {
            bail!(Usage(anyhow!(
                "there is no {}, the folder of crates whose documentation is read: pass --text DIR with text of your own",
                path.display()
            )));
        }
        Ok(Self { path, include: INCLUDE.to_vec(), is_registry: true })
    }

    /// A folder of the user's.
    pub(crate) fn own(path: PathBuf) -> Self {
        let include = INCLUDE.iter().copied().chain([INCLUDE_OWN]).collect();
        Self { path, include, is_registry: false }
    }

    /// The path of a document below this folder.
    fn relative<'a>(&self, document: &'a Document) -> &'a Path {
        let file = &document.provenance.file;
        file.strip_prefix(&self.path).unwrap_or(file)
    }

    /// The path of a document that is the same on every machine: below the registry, where the text
    /// comes from one.
    fn within_registry<'a>(&self, document: &'a Document) -> &'a Path {
        let mut components = self.relative(document).components();
        if self.is_registry {
            components.next();
        }
        components.as_path()
    }
}

/// Reads the text below `root` and writes `documents.jsonl` to the folder `out`, and the test sets
/// that are asked for: `demo-wikitext.tokens` and, where there are passages, `demo-lambada.jsonl`.
pub(crate) fn prepare(
    root: &TextRoot,
    request: TextRequest,
    out: &Path,
    observer: &dyn Observer,
) -> anyhow::Result<MachineText> {
    let (documents, num_unreadable) = read(root, request.max_bytes, observer)?;
    if documents.is_empty() {
        bail!(Usage(anyhow!(
            "{}: none of its {num_unreadable} files is UTF-8 text: pass --text DIR with text",
            root.path.display()
        )));
    }
    let holds_out = request.wikitext || request.lambada;
    let held_out = if holds_out { hold_out(root, &documents) } else { Vec::new() };
    if holds_out && held_out.is_empty() {
        bail!(Usage(anyhow!(
            "{}: no document has {MIN_ARTICLE_WORDS} words of prose, so none can be held out as the test text: pass --text DIR with more text",
            root.path.display()
        )));
    }
    if documents.len() == held_out.len() {
        bail!(Usage(anyhow!(
            "{}: all of its {} documents go to the test sets, and none is left to train on: pass \
             --text DIR with more text",
            root.path.display(),
            documents.len()
        )));
    }
    let passages = held_out.iter().flat_map(|document| cloze::passages(&document.prose));
    let most = if request.lambada { MAX_PASSAGES } else { 0 };
    let passages: Vec<String> = passages.take(most).collect();
    let test_words = held_out.iter().map(|document| document.article.num_words).sum();

    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let text = MachineText {
        root: root.path.clone(),
        documents: out.join(DOCUMENTS_FILE),
        wikitext: request.wikitext.then(|| out.join(WIKITEXT_FILE)),
        lambada: (!passages.is_empty()).then(|| out.join(LAMBADA_FILE)),
        num_documents: documents.len() - held_out.len(),
        num_held_out: held_out.len(),
        bytes: documents.iter().map(|document| document.text.len()).sum(),
        num_unreadable,
        test_words: if request.wikitext { test_words } else { 0 },
        num_passages: passages.len(),
    };
    // The test text first: by it a later demo knows this folder for its own.
    if let Some(path) = &text.wikitext {
        let articles = held_out.iter().map(|document| document.article.text.as_str());
        output::file(path, articles.collect::<String>().as_bytes())?;
    }
    if let Some(path) = &text.lambada {
        write_jsonl(path, passages.iter().map(|text| Record { id: None, text }))?;
    }
    let is_held_out: HashSet<usize> = held_out.iter().map(|document| document.index).collect();
    let kept = documents.iter().enumerate().filter(|(index, _)| !is_held_out.contains(index));
    let records = kept.map(|(_, document)| Record {
        id: Some(root.relative(document).to_string_lossy().into_owned()),
        text: &document.text,
    });
    write_jsonl(&text.documents, records)?;
    Ok(text)
}

/// The files of text below `root`, in the order of their paths.
pub(crate) fn open(root: &TextRoot) -> anyhow::Result<Sources> {
    if !root.path.is_dir() {
        let what = if root.path.exists() { "it is no folder" } else { "there is no such folder" };
        bail!(Usage(anyhow!(
            "--text {}: {what}; name one that has {} files in it or below",
            root.path.display(),
            root.include.join(", ")
        )));
    }
    let strings = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let tree = TextTreeConfig { include: strings(&root.include), exclude: strings(&EXCLUDE) };
    let source = SourceConfig {
        name: "demo".to_owned(),
        ..SourceConfig::new(&root.path, SourceFormat::Text(tree))
    };
    let policy = ReadPolicy { on_bad_line: OnBadLine::Skip, ..ReadPolicy::default() };
    Sources::open(&[source], policy)
        .context("cannot find text: pass --text DIR with text of your own")
        .map_err(|error| Usage(error).into())
}

/// Documents below `root` in the order of their paths, up to `max_bytes`, and the number of files
/// that are no UTF-8.
fn read(
    root: &TextRoot,
    max_bytes: u64,
    observer: &dyn Observer,
) -> anyhow::Result<(Vec<Document>, usize)> {
    let sources = open(root)?;
    observer.begin("reading", Some(sources.total_bytes().min(max_bytes)), Unit::Bytes);
    let (mut documents, mut num_bytes, mut num_unreadable) = (Vec::new(), 0, 0);
    for item in sources {
        if observer.stop_requested() {
            return Err(CorpusError::Stopped.into());
        }
        match item? {
            Item::Document(document) | Item::Repaired(document, _) => {
                num_bytes += document.text.len() as u64;
                if num_bytes > max_bytes && documents.is_empty() {
                    bail!(Usage(anyhow!(
                        "{}: the first file has {num_bytes} bytes, and no more than {max_bytes} are \
                         read: divide it, or raise the limit",
                        document.provenance.file.display()
                    )));
                }
                if num_bytes > max_bytes {
                    let megabytes = max_bytes as f64 / 1e6;
                    info!("{megabytes} MB of text are enough: the rest is not read");
                    break;
                }
                observer.advance(document.text.len() as u64);
                documents.push(document);
            }
            Item::NullText(_) | Item::Rejected(_) => num_unreadable += 1,
        }
    }
    observer.finish();
    Ok((documents, num_unreadable))
}

/// A document that is kept out of the training.
struct HeldOut {
    /// Its place among all documents.
    index: usize,
    prose: Prose,
    article: Article,
}

/// Chooses the documents of the tests: in the order of a hash of their paths, so that they come
/// from everywhere.
fn hold_out(root: &TextRoot, documents: &[Document]) -> Vec<HeldOut> {
    let mut order: Vec<usize> =
        (0..documents.len()).filter(|&index| may_be_held_out(&documents[index])).collect();
    order.sort_by_cached_key(|&index| {
        xxh3_64(root.within_registry(&documents[index]).as_os_str().as_encoded_bytes())
    });
    let most = (documents.len() / ONE_HELD_OUT_IN).max(1);
    let (mut held_out, mut titles, mut num_words) = (Vec::new(), HashSet::new(), 0);
    for index in order {
        if num_words >= TEST_WORDS || held_out.len() == most {
            break;
        }
        let prose = Prose::read(&documents[index].text);
        let title = title_of(&documents[index].provenance.file);
        let article = article(&prose, &title, MAX_ARTICLE_WORDS);
        let heading = article.text.lines().nth(1).unwrap_or_default().to_owned();
        // Two versions of one text would count its words twice.
        if article.num_words >= MIN_ARTICLE_WORDS && titles.insert(heading) {
            num_words += article.num_words;
            held_out.push(HeldOut { index, prose, article });
        }
    }
    held_out
}

/// Change logs are lists, and licences are everywhere: neither makes a test text.
fn may_be_held_out(document: &Document) -> bool {
    let file = document.provenance.file.file_stem().unwrap_or_default();
    let name = file.to_string_lossy().to_lowercase();
    !["change", "release", "history", "news", "license", "copying", "unlicense"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The name of the folder a file lies in: of the crate, for a README.
fn title_of(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

/// A line of JSONL.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    text: &'a str,
}

fn write_jsonl<'a>(path: &Path, records: impl Iterator<Item = Record<'a>>) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, &record)?;
        lines.push(b'\n');
    }
    output::file(path, &lines)
}
