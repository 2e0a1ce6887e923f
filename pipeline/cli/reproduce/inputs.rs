//! What a reproduction is made from: text, and the test sets that the user names.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::race::{RaceLevel, RaceSet, RaceSplit};
use corpus::reader::Sources;
use corpus::{FileSummary, Observer};
use xxhash_rust::xxh3::Xxh3;

use super::config::{Experiment, ReproduceConfig};
use super::parts::name_of;
use super::report::table3::Task;
use crate::exit::Usage;
use crate::machine_text::{
    self, DOCUMENTS_FILE, LAMBADA_FILE, LAMBADA_NAME, TextRequest, TextRoot, WIKITEXT_FILE,
    WIKITEXT_NAME,
};

/// What was found of what a reproduction is made from.
#[derive(Debug)]
pub(super) struct Inputs {
    /// The test sets of the experiment, in the paper's order.
    tasks: &'static [Task],
    /// The text; `None` where it is not given and nothing stands in for it.
    pub(super) text: Option<TextInput>,
    /// Hash of which files of text there are, how large, and when they were written.
    pub(super) listing: Option<String>,
    /// The test sets that the user named, in the paper's order.
    pub(super) test_files: Vec<TestFile>,
    /// RACE, where the experiment is of it and it is given.
    pub(super) race: Option<RaceInput>,
    /// What is lacking, as flags with what they want.
    pub(super) missing: Vec<String>,
}

/// Where text comes from.
#[derive(Debug)]
pub(super) enum TextInput {
    /// A folder of documents, which the part `text` reads.
    Documents { root: TextRoot, request: TextRequest },
    /// The folder below which the sources of the corpus lie.
    Corpus { folder: PathBuf },
}

/// The folder of RACE.
#[derive(Debug)]
pub(super) struct RaceInput {
    pub(super) path: PathBuf,
    /// Those of [`RaceSplit::ALL`], in its order.
    splits: [RaceSplitInput; 3],
}

/// What a split of RACE holds.
#[derive(Debug)]
pub(super) struct RaceSplitInput {
    /// Hash of all that is read.
    pub(super) fingerprint: String,
    pub(super) questions: u64,
}

impl RaceInput {
    /// Reads the articles of all splits.
    ///
    /// # Errors
    ///
    /// Where one is lacking or not in RACE's form.
    fn read(path: &Path, observer: &dyn Observer) -> anyhow::Result<Self> {
        let [train, dev, test] = RaceSplit::ALL.map(|split| {
            let set = RaceSet::read(path, split, &RaceLevel::ALL, observer)?;
            let questions = set.num_questions() as u64;
            anyhow::Ok(RaceSplitInput { fingerprint: set.fingerprint(), questions })
        });
        let splits = [train.context("--race")?, dev.context("--race")?, test.context("--race")?];
        Ok(Self { path: path.to_owned(), splits })
    }

    /// What `split` holds.
    pub(super) fn split(&self, split: RaceSplit) -> &RaceSplitInput {
        let [train, dev, test] = &self.splits;
        match split {
            RaceSplit::Train => train,
            RaceSplit::Dev => dev,
            RaceSplit::Test => test,
        }
    }
}

/// A test set that the user named.
#[derive(Debug, Clone)]
pub(super) struct TestFile {
    pub(super) task: Task,
    pub(super) path: PathBuf,
    /// Hash of its content.
    pub(super) digest: String,
}

/// A test set of the reproduction.
#[derive(Debug, Clone)]
pub(super) struct TestSet {
    pub(super) task: Task,
    /// What it is called: by the benchmark's name, or as one that was made of the text.
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
}

impl Inputs {
    /// Looks for the text and reads the test files once.
    ///
    /// # Errors
    ///
    /// Where something that was named cannot be read.
    pub(super) fn find(
        config: &ReproduceConfig,
        text: Option<&Path>,
        test_files: [(Task, Option<&Path>); 2],
        race: Option<&Path>,
        observer: &dyn Observer,
    ) -> anyhow::Result<Self> {
        let mut missing = Vec::new();
        let tasks = config.experiment.tasks();
        for (task, path) in test_files {
            if let Some(path) = path.filter(|_| !tasks.contains(&task)) {
                bail!(Usage(anyhow!(
                    "{} {}: the experiment {} is scored on no test set; leave the flag out",
                    flag(task),
                    path.display(),
                    config.experiment.name()
                )));
            }
        }
        let is_given = |task| test_files.iter().any(|(it, path)| *it == task && path.is_some());
        let text = match (&config.text, text) {
            (Some(section), text) => {
                let request = TextRequest {
                    max_bytes: section.max_bytes.get(),
                    wikitext: tasks.contains(&Task::WikiText103) && !is_given(Task::WikiText103),
                    lambada: tasks.contains(&Task::Lambada) && !is_given(Task::Lambada),
                };
                let own = |path: &Path| Ok(TextRoot::own(path.to_owned()));
                let root = text.map_or_else(TextRoot::cargo_registry, own)?;
                Some(TextInput::Documents { root, request })
            }
            (None, Some(folder)) => {
                if !folder.is_dir() {
                    bail!(Usage(anyhow!(
                        "--text {}: it is no folder; the sources of the corpus lie below it",
                        folder.display()
                    )));
                }
                Some(TextInput::Corpus { folder: folder.to_owned() })
            }
            (None, None) => {
                let names: Vec<_> =
                    config.data.sources.iter().map(|source| source.name.as_str()).collect();
                missing.push(format!(
                    "--text DIR, the folder of the corpus ({}), for which this machine's text is \
                     no substitute",
                    names.join(", ")
                ));
                None
            }
        };
        if config.text.is_none() {
            let wanted = [
                (Task::WikiText103, "--wikitext103 FILE, its published wiki.test.tokens"),
                (Task::Lambada, "--lambada FILE, its published lambada_test.jsonl"),
            ];
            let lacking = wanted.into_iter();
            let lacking = lacking.filter(|(task, _)| tasks.contains(task) && !is_given(*task));
            missing.extend(lacking.map(|(_, flag)| flag.to_owned()));
        }
        let race = match (config.experiment, race) {
            (Experiment::Race, Some(path)) => Some(RaceInput::read(path, observer)?),
            (Experiment::Race, None) => {
                missing.push("--race DIR, RACE's folder with train, dev and test in it".to_owned());
                None
            }
            (_, None) => None,
            (other, Some(path)) => bail!(Usage(anyhow!(
                "--race {}: the experiment {} fine-tunes nothing; leave the flag out",
                path.display(),
                other.name()
            ))),
        };
        let mut found = Vec::new();
        for (task, path) in test_files {
            let Some(path) = path else { continue };
            let read = FileSummary::observed(path, observer);
            let digest = read.with_context(|| cannot_read(task))?.xxh3_128;
            found.push(TestFile { task, path: path.to_owned(), digest });
        }
        let listing = text.as_ref().map(|text| text.listing(config)).transpose()?;
        Ok(Self { tasks, text, listing, test_files: found, race, missing })
    }

    /// The test set of `task` that the user named.
    pub(super) fn test_file(&self, task: Task) -> Option<&TestFile> {
        self.test_files.iter().find(|file| file.task == task)
    }

    /// The test sets, those that were not named being in the folder `text`.
    pub(super) fn test_sets(&self, text: &Path) -> Vec<TestSet> {
        let sets = [
            (Task::WikiText103, WIKITEXT_NAME, WIKITEXT_FILE),
            (Task::Lambada, LAMBADA_NAME, LAMBADA_FILE),
        ];
        let sets = sets.into_iter().filter(|(task, ..)| self.tasks.contains(task));
        let sets = sets.map(|(task, stand_in, file)| match self.test_file(task) {
            Some(given) => TestSet { task, name: name_of(task), path: given.path.clone() },
            None => TestSet { task, name: stand_in, path: text.join(file) },
        });
        sets.collect()
    }

    /// Refuses a text or a test file that lies in the folder that is written to, where a part that
    /// is done again would delete it.
    pub(super) fn check_apart(&self, out: &Path) -> anyhow::Result<()> {
        let text = self.text.as_ref().map(TextInput::root);
        let test_files = self.test_files.iter().map(|file| (flag(file.task), file.path.as_path()));
        let race = self.race.as_ref().map(|race| ("--race", race.path.as_path()));
        let text = text.map(|path| ("--text", path));
        for (flag, path) in text.into_iter().chain(race).chain(test_files) {
            if let (Ok(input), Ok(out)) = (path.canonicalize(), out.canonicalize())
                && input.starts_with(&out)
            {
                bail!(Usage(anyhow!(
                    "{flag} {} lies in the folder that --out names, which is written to: choose \
                     another",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

/// The flag that names a test set.
pub(super) fn flag(task: Task) -> &'static str {
    match task {
        Task::WikiText103 => "--wikitext103",
        Task::Lambada => "--lambada",
    }
}

/// What is said before the reason for which a test file cannot be read.
fn cannot_read(task: Task) -> String {
    let (flag, form) = match task {
        Task::WikiText103 => (flag(task), "WikiText103's test split, wiki.test.tokens"),
        Task::Lambada => (flag(task), "LAMBADA's test passages, a JSONL file"),
    };
    format!("cannot read {flag}, which names {form}")
}

impl TextInput {
    /// The folder that is read.
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Documents { root, .. } => &root.path,
            Self::Corpus { folder } => folder,
        }
    }

    /// The folder of the documents that are curated, where `text` is that of the part `text`.
    pub(super) fn folder<'a>(&'a self, text: &'a Path) -> &'a Path {
        match self {
            Self::Documents { .. } => text,
            Self::Corpus { folder } => folder,
        }
    }

    /// Hash of which files there are, how large, and when they were written.
    ///
    /// # Errors
    ///
    /// Where there is no such text.
    fn listing(&self, config: &ReproduceConfig) -> anyhow::Result<String> {
        let sources = match self {
            Self::Documents { root, .. } => machine_text::open(root)?,
            Self::Corpus { folder } => {
                // The test sets are no part of it.
                let mut config = config.curation_config(folder, Vec::new());
                config.decontamination = None;
                let plan = config.validate()?;
                Sources::open(&plan.sources, plan.read_policy).with_context(|| {
                    let folder = folder.display();
                    format!("--text {folder}: the sources of the corpus are looked for below it")
                })?
            }
        };
        let mut hash = Xxh3::new();
        for file in sources.files() {
            hash.update(file.path.as_os_str().as_encoded_bytes());
            hash.update(format!(" {} {}\n", file.bytes, file.modified_ns).as_bytes());
        }
        Ok(format!("{:032x}", hash.digest128()))
    }
}

/// The files that the part `text` writes into its folder, of those that there can be.
pub(super) const TEXT_FILES: [&str; 3] = [DOCUMENTS_FILE, WIKITEXT_FILE, LAMBADA_FILE];
