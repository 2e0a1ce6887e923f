//! The demo's text: where it comes from, and what of it is held out for the tests.
//!
//! Every machine that has built this program holds the documentation of the crates it is made of:
//! real English with hundreds of nearly equal licences. Documents are read in the fixed order of
//! their paths. Some are set apart by a fixed rule; of these are made a test text in WikiText form,
//! from the beginning of each, and passages in LAMBADA's form, from all of each. The others go to
//! the curation, which keeps both test sets out.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::reader::{
    Item, OnBadLine, ReadPolicy, SourceConfig, SourceFormat, Sources, TextTreeConfig,
};
use corpus::{Document, Observer, Unit};
use serde::Serialize;
use tracing::info;
use xxhash_rust::xxh3::xxh3_64;

use super::prose::Prose;
use super::wikitext::{Article, article};
use super::{LAMBADA_FILE, WIKITEXT_FILE, cloze};
use crate::exit::Usage;

/// Documentation and licences of crates, ...
const INCLUDE: [&str; 3] = ["*.md", "LICENSE*", "COPYING*"];
/// ... and the usual name of text, in a folder of the user's own.
const INCLUDE_OWN: &str = "*.txt";
/// Folders of test inputs, which are no documentation.
const EXCLUDE: [&str; 3] = ["tests", "test_data", "data"];
/// The most text that is read, in bytes: the demo's time grows with it.
const MAX_BYTES: usize = 15_000_000;
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

/// The files that [`prepare`] wrote, and what is in them.
#[derive(Debug, Serialize)]
pub(super) struct DemoText {
    /// Folder the text was read from.
    pub(super) root: PathBuf,
    /// JSONL of the documents that go to the curation.
    pub(super) documents: PathBuf,
    /// Test text in WikiText form, made of documents that do not.
    pub(super) wikitext: PathBuf,
    /// Passages in LAMBADA's form, made of the same; `None` where there are none.
    pub(super) lambada: Option<PathBuf>,
    pub(super) num_documents: usize,
    pub(super) num_held_out: usize,
    /// Files that are not UTF-8.
    pub(super) num_unreadable: usize,
    /// Words of the test text, as the benchmark counts them.
    pub(super) test_words: usize,
    /// Passages whose last word is to be guessed.
    pub(super) num_passages: usize,
}

/// A folder of text and the names of the files to read in it.
#[derive(Debug)]
pub(super) struct TextRoot {
    pub(super) path: PathBuf,
    include: Vec<&'static str>,
    /// Whether the documents lie one folder deeper, in one that is named after a registry: its name
    /// differs between machines.
    is_registry: bool,
}

impl TextRoot {
    /// The folder of sources that cargo keeps of every crate it has built.
    pub(super) fn cargo_registry() -> anyhow::Result<Self> {
        let cargo_home = env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
            .ok_or_else(|| {
                Usage(anyhow!("neither CARGO_HOME nor a home folder is set: pass --text DIR"))
            })?;
        let path = cargo_home.join("registry").join("src");
        if !path.is_dir() {
            bail!(Usage(anyhow!(
                "there is no {}, the folder of crates whose documentation the demo reads: pass --text DIR with text of your own",
                path.display()
            )));
        }
        Ok(Self { path, include: INCLUDE.to_vec(), is_registry: true })
    }

    /// A folder of the user's.
    pub(super) fn own(path: PathBuf) -> Self {
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

/// Reads the text below `root` and writes `documents.jsonl`, `demo-wikitext.tokens` and, where
/// there are passages, `demo-lambada.jsonl` to the folder `out`.
pub(super) fn prepare(
    root: &TextRoot,
    out: &Path,
    observer: &dyn Observer,
) -> anyhow::Result<DemoText> {
    let (documents, num_unreadable) = read(root, observer)?;
    let held_out = hold_out(root, &documents);
    if held_out.is_empty() {
        bail!(Usage(anyhow!(
            "{}: no document has {MIN_ARTICLE_WORDS} words of prose, so none can be held out as the test text: pass --text DIR with more text",
            root.path.display()
        )));
    }
    let passages = held_out.iter().flat_map(|document| cloze::passages(&document.prose));
    let passages: Vec<String> = passages.take(MAX_PASSAGES).collect();

    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let text = DemoText {
        root: root.path.clone(),
        documents: out.join("documents.jsonl"),
        wikitext: out.join(WIKITEXT_FILE),
        lambada: (!passages.is_empty()).then(|| out.join(LAMBADA_FILE)),
        num_documents: documents.len() - held_out.len(),
        num_held_out: held_out.len(),
        num_unreadable,
        test_words: held_out.iter().map(|document| document.article.num_words).sum(),
        num_passages: passages.len(),
    };
    // The test text first: by it a later demo knows this folder for its own.
    let articles: String = held_out.iter().map(|document| document.article.text.as_str()).collect();
    fs::write(&text.wikitext, articles)
        .with_context(|| format!("cannot write {}", text.wikitext.display()))?;
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

/// Documents below `root` in the order of their paths, up to [`MAX_BYTES`], and the number of files
/// that are no UTF-8.
fn read(root: &TextRoot, observer: &dyn Observer) -> anyhow::Result<(Vec<Document>, usize)> {
    let strings = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let tree = TextTreeConfig { include: strings(&root.include), exclude: strings(&EXCLUDE) };
    let source = SourceConfig {
        name: "demo".to_owned(),
        ..SourceConfig::new(&root.path, SourceFormat::Text(tree))
    };
    let policy = ReadPolicy { on_bad_line: OnBadLine::Skip, ..ReadPolicy::default() };
    let sources = Sources::open(&[source], policy)
        .context("cannot find text for the demo: pass --text DIR with text of your own")
        .map_err(Usage)?;
    let total = sources.total_bytes().min(MAX_BYTES as u64);
    observer.begin("reading", Some(total), Unit::Bytes);
    let (mut documents, mut num_bytes, mut num_unreadable) = (Vec::new(), 0, 0);
    for item in sources {
        match item? {
            Item::Document(document) | Item::Repaired(document, _) => {
                num_bytes += document.text.len();
                if num_bytes > MAX_BYTES {
                    info!("{} MB of text are enough: the rest is not read", MAX_BYTES / 1_000_000);
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
    fs::write(path, &lines).with_context(|| format!("cannot write {}", path.display()))
}
