//! The parts of a reproduction: in which order they are done, what each depends on and leaves.

use std::fs;
use std::path::Path;

use anyhow::{anyhow, bail};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::config::ReproduceConfig;
use super::inputs::{Inputs, TestSet, TextInput};
use super::journal::{Journal, State};
use super::report::Task;
use crate::exit::Usage;

/// The text, as documents.
pub(super) const TEXT: &str = "text";
/// The data folder.
pub(super) const DATA: &str = "data";
/// The overlap of test sets and corpus.
pub(super) const CONTAMINATION_FILE: &str = "contamination.json";
/// The result, for programs, ...
pub(super) const REPORT_FILE: &str = "report.json";
/// ... as a table, ...
pub(super) const CSV_FILE: &str = "table3.csv";
/// ... and as a page.
pub(super) const PAGE_FILE: &str = "table3.html";

/// Sections and keys of a training that change its speed and memory, and no result.
const FREE: [&str; 7] = [
    "/parallel",
    "/recompute",
    "/checkpoint",
    "/logging",
    "/batch/micro_batch_size",
    "/data/epoch_tokens",
    "/data/repeat",
];

/// A part of a reproduction. Sizes are counted as in its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Reading the text, and holding test sets out of it.
    Text,
    /// Curating the corpus.
    Corpus,
    /// Measuring the overlap of test sets and corpus.
    Contamination,
    /// Training a size.
    Train(usize),
    /// Scoring a size on a test set.
    Eval(usize, Task),
    /// Making the result of all of it.
    Page,
}

impl Part {
    /// The size that is trained or scored.
    pub(super) fn size(self) -> Option<usize> {
        match self {
            Self::Train(size) | Self::Eval(size, _) => Some(size),
            Self::Text | Self::Corpus | Self::Contamination | Self::Page => None,
        }
    }
}

/// All that says what the parts of a reproduction are.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) config: &'a ReproduceConfig,
    pub(super) inputs: &'a Inputs,
    /// The reproduction's folder.
    pub(super) out: &'a Path,
}

impl Parts<'_> {
    /// The parts in their order. One that has no test set, because the text has no passages to make
    /// it of, is not among them once that is known.
    pub(super) fn all(&self, journal: &Journal) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.config.text.is_some() {
            parts.push(Part::Text);
        }
        parts.extend([Part::Corpus, Part::Contamination]);
        let tasks: Vec<Task> = self.test_sets(journal).iter().map(|it| it.task).collect();
        for size in 0..self.config.sizes.len() {
            parts.push(Part::Train(size));
            parts.extend(tasks.iter().map(|&task| Part::Eval(size, task)));
        }
        parts.push(Part::Page);
        parts
    }

    /// The test sets that there are; before the text is read, all that there may be.
    pub(super) fn test_sets(&self, journal: &Journal) -> Vec<TestSet> {
        let mut test_sets = self.inputs.test_sets(&self.out.join(TEXT));
        if let Some(text) = journal.result(&self.key(Part::Text)) {
            let is_there = |set: &TestSet| {
                let is_given = self.inputs.test_files.iter().any(|it| it.task == set.task);
                let file = set.path.file_name().unwrap_or_default().to_string_lossy();
                is_given || text["files"].get(file.as_ref()).is_some()
            };
            test_sets.retain(is_there);
        }
        test_sets
    }

    /// The name under which the journal has a part.
    pub(super) fn key(&self, part: Part) -> String {
        match part {
            Part::Text => "text".to_owned(),
            Part::Corpus => "corpus".to_owned(),
            Part::Contamination => "contamination".to_owned(),
            Part::Train(size) => format!("train.{}", self.size(size)),
            Part::Eval(size, task) => format!("eval.{}.{}", self.size(size), name_of(task)),
            Part::Page => "page".to_owned(),
        }
    }

    /// What messages call a part.
    pub(super) fn label(&self, part: Part) -> String {
        match part {
            Part::Train(size) => format!("train {}", self.size(size)),
            Part::Eval(size, task) => format!("eval {} {}", self.size(size), name_of(task)),
            part => self.key(part),
        }
    }

    /// The name of a size.
    pub(super) fn size(&self, size: usize) -> &str {
        &self.config.sizes[size].name
    }

    /// What a part leaves in the folder, all relative to it; whatever is there of it is the part's.
    pub(super) fn outputs(&self, part: Part) -> Vec<String> {
        match part {
            Part::Text => vec![TEXT.to_owned()],
            // A curation keeps its stages and the folder it writes beside the finished one.
            Part::Corpus => {
                vec![DATA.to_owned(), format!(".{DATA}.stages"), format!(".{DATA}.partial")]
            }
            Part::Contamination => vec![CONTAMINATION_FILE.to_owned()],
            Part::Train(size) => vec![run_of(self.size(size))],
            Part::Eval(size, task) => {
                let size = self.size(size);
                vec![score_of(size, task), scores_of(size, task)]
            }
            Part::Page => [REPORT_FILE, CSV_FILE, PAGE_FILE].map(str::to_owned).to_vec(),
        }
    }

    /// The files without which a part is not done, relative to the folder.
    fn witnesses(&self, part: Part, result: &Value) -> Vec<String> {
        match part {
            Part::Text => {
                let files = result["files"].as_object().cloned().unwrap_or_default();
                files.keys().map(|file| format!("{TEXT}/{file}")).collect()
            }
            Part::Corpus => [corpus::MANIFEST, "corpus.bin", "corpus.idx"]
                .map(|file| format!("{DATA}/{file}"))
                .to_vec(),
            Part::Train(size) => {
                let run = run_of(self.size(size));
                let mut files = vec![format!("{run}/metrics.jsonl")];
                if let Some(name) = result["checkpoint"].as_str() {
                    files.push(format!("{run}/checkpoints/{name}/manifest.json"));
                }
                files
            }
            Part::Eval(size, task) => vec![score_of(self.size(size), task)],
            Part::Contamination | Part::Page => self.outputs(part),
        }
    }

    /// What a part's fingerprint depends on beside its own settings.
    fn needs(&self, part: Part, journal: &Journal) -> Vec<Part> {
        match part {
            Part::Text => Vec::new(),
            Part::Corpus if self.config.text.is_some() => vec![Part::Text],
            Part::Corpus => Vec::new(),
            Part::Contamination => vec![Part::Corpus],
            Part::Train(_) => vec![Part::Corpus],
            Part::Eval(size, _) => vec![Part::Train(size)],
            Part::Page => {
                let others = self.all(journal).into_iter();
                others.filter(|&part| part != Part::Page).collect()
            }
        }
    }

    /// The parts whose results depend on that of `part`, by whatever way.
    pub(super) fn dependents(&self, part: Part, journal: &Journal) -> Vec<Part> {
        // What a text hands on is its content, which may be the same.
        if part == Part::Text {
            return Vec::new();
        }
        let mut changed = vec![part];
        for later in self.all(journal) {
            if self.needs(later, journal).iter().any(|need| changed.contains(need)) {
                changed.push(later);
            }
        }
        changed.remove(0);
        changed
    }

    /// Refuses to do a part where something lies that it would write.
    ///
    /// # Errors
    ///
    /// Wrong usage, with the path.
    pub(super) fn check_free(&self, part: Part) -> anyhow::Result<()> {
        for path in self.outputs(part).iter().map(|output| self.out.join(output)) {
            if fs::symlink_metadata(&path).is_ok() {
                bail!(Usage(anyhow!(
                    "{} is none of the reproduction's: move it away, or pass --out with another \
                     folder",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Hash of all that a part's result depends on; `None` where that is not known before a part
    /// that comes earlier is done.
    ///
    /// # Errors
    ///
    /// Where an input cannot be read.
    pub(super) fn fingerprint(
        &self,
        part: Part,
        journal: &Journal,
    ) -> anyhow::Result<Option<String>> {
        let mut needs = Map::new();
        for need in self.needs(part, journal) {
            let Some(identity) = self.identity(need, journal)? else { return Ok(None) };
            needs.insert(self.key(need), identity.into());
        }
        let depends = json!({
            "part": self.key(part),
            "version": env!("CARGO_PKG_VERSION"),
            "settings": self.settings(part, journal)?,
            "needs": needs,
        });
        Ok(Some(format!("{:032x}", xxh3_128(depends.to_string().as_bytes()))))
    }

    /// What a part hands on to those that need it: the hash of what it wrote where that is known,
    /// for a text may have been touched and be the same; its fingerprint otherwise.
    fn identity(&self, part: Part, journal: &Journal) -> anyhow::Result<Option<String>> {
        let Some(fingerprint) = self.fingerprint(part, journal)? else { return Ok(None) };
        if part != Part::Text {
            return Ok(Some(fingerprint));
        }
        let entry = journal.entry(&self.key(part));
        let entry = entry.filter(|it| it.state == State::Done && it.fingerprint == fingerprint);
        Ok(entry.map(|entry| entry.result["files"].to_string()))
    }

    /// The settings and input files of a part itself.
    fn settings(&self, part: Part, journal: &Journal) -> anyhow::Result<Value> {
        let config = self.config;
        // A test set that was made of the text is the text's.
        let test_files: Map<String, Value> = self
            .inputs
            .test_files
            .iter()
            .map(|file| (name_of(file.task).to_owned(), json!(file.digest)))
            .collect();
        Ok(match part {
            Part::Text => match &self.inputs.text {
                Some(TextInput::Documents { root, request }) => json!({
                    "root": root.path,
                    "listing": self.inputs.listing,
                    "max_bytes": request.max_bytes,
                    "wikitext": request.wikitext,
                    "lambada": request.lambada,
                }),
                _ => Value::Null,
            },
            Part::Corpus => json!({
                "data": config.data,
                "listing": match config.text { None => self.inputs.listing.as_deref(), Some(_) => None },
                "test_files": test_files,
            }),
            Part::Contamination => json!({"contamination": config.contamination}),
            Part::Train(size) => {
                let config = config.train_config(&config.sizes[size]);
                let mut value = serde_json::to_value(config)?;
                for free in FREE {
                    if let Some(value) = value.pointer_mut(free) {
                        *value = Value::Null;
                    }
                }
                value
            }
            Part::Eval(_, task) => json!({
                "limit": config.eval.limit,
                "overlap": (task == Task::WikiText103).then_some(config.eval.overlap),
                "test_file": test_files.get(name_of(task)),
                "text": match test_files.contains_key(name_of(task)) {
                    true => None,
                    false => self.identity(Part::Text, journal)?,
                },
            }),
            Part::Page => {
                let rows: Vec<_> = config.sizes.iter().map(|size| &size.paper).collect();
                json!({"title": config.title, "paper": rows})
            }
        })
    }

    /// Whether a part is done, of just this, and its output still there.
    ///
    /// # Errors
    ///
    /// Where an input cannot be read.
    pub(super) fn is_done(&self, part: Part, journal: &Journal) -> anyhow::Result<bool> {
        let Some(entry) = journal.entry(&self.key(part)) else { return Ok(false) };
        if entry.state != State::Done || !self.has_output(part, &entry.result) {
            return Ok(false);
        }
        Ok(self.fingerprint(part, journal)?.as_ref() == Some(&entry.fingerprint))
    }

    fn has_output(&self, part: Part, result: &Value) -> bool {
        self.witnesses(part, result).iter().all(|file| self.out.join(file).is_file())
    }
}

/// What a task is called in keys, names of files, and where its benchmark is scored.
pub(super) fn name_of(task: Task) -> &'static str {
    match task {
        Task::WikiText103 => evaluation::wikitext103::NAME,
        Task::Lambada => evaluation::lambada::NAME,
    }
}

/// A size's run folder, relative to the reproduction's.
pub(super) fn run_of(size: &str) -> String {
    format!("runs/{size}")
}

/// The file of a size's score, relative to the reproduction's folder.
pub(super) fn score_of(size: &str, task: Task) -> String {
    format!("eval/{size}.{}.json", name_of(task))
}

/// Where what is scored of it lies until all is, relative to the reproduction's folder.
pub(super) fn scores_of(size: &str, task: Task) -> String {
    format!("eval/{size}.{}.partial", name_of(task))
}
