//! The parts of a reproduction: in which order they are done, what each depends on and leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use super::config::ReproduceConfig;
use super::depends::{Depends, Input, hash};
use super::inputs::{Inputs, TestSet, TextInput};
use super::journal::Journal;
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
        let key = self.key(Part::Text);
        if let Some(text) = journal.result(&key).and(journal.entry(&key)) {
            let is_there = |set: &TestSet| {
                let name = set.path.file_name();
                let is_of_text =
                    || text.files.iter().any(|file| Path::new(&file.path).file_name() == name);
                self.inputs.test_file(set.task).is_some() || is_of_text()
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

    /// What a part's fingerprint depends on beside its own settings.
    fn needs(&self, part: Part, journal: &Journal) -> Vec<Part> {
        let text = self.config.text.as_ref().map(|_| Part::Text);
        match part {
            Part::Text => Vec::new(),
            Part::Corpus => text.into_iter().collect(),
            Part::Contamination => text.into_iter().chain([Part::Corpus]).collect(),
            Part::Train(_) => vec![Part::Corpus],
            // A test set that was made of the text is the text's.
            Part::Eval(size, task) => {
                let text = text.filter(|_| self.inputs.test_file(task).is_none());
                text.into_iter().chain([Part::Train(size)]).collect()
            }
            Part::Page => {
                let others = self.all(journal).into_iter();
                others.filter(|&part| part != Part::Page).collect()
            }
        }
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
    /// Where a setting cannot be told.
    pub(super) fn fingerprint(
        &self,
        part: Part,
        journal: &Journal,
    ) -> anyhow::Result<Option<String>> {
        let depends = self.depends(part, journal)?;
        Ok(depends.map(|depends| depends.fingerprint(&self.key(part))))
    }

    /// All that a part's result depends on; `None` where that is not known before a part that
    /// comes earlier is done.
    ///
    /// # Errors
    ///
    /// As [`fingerprint`](Self::fingerprint).
    pub(super) fn depends(&self, part: Part, journal: &Journal) -> anyhow::Result<Option<Depends>> {
        let mut depends = self.own(part)?;
        for need in self.needs(part, journal) {
            let Some(identity) = self.identity(part, need, journal)? else { return Ok(None) };
            depends.needs.insert(self.key(need), identity);
        }
        Ok(Some(depends))
    }

    /// What `need` hands on to `part`: what it wrote where that is what counts, for a text may have
    /// been touched and be the same; its fingerprint otherwise. `None` where it is not known.
    fn identity(
        &self,
        part: Part,
        need: Part,
        journal: &Journal,
    ) -> anyhow::Result<Option<String>> {
        let Some(fingerprint) = self.fingerprint(need, journal)? else { return Ok(None) };
        let Some(entry) = journal.done(&self.key(need), &fingerprint) else {
            return Ok(matches!(need, Part::Eval(..)).then_some(fingerprint));
        };
        let content = entry.content.as_ref();
        Ok(match (part, need) {
            (Part::Eval(_, task), Part::Text) => {
                let sets = self.inputs.test_sets(Path::new(TEXT));
                let set = sets.iter().find(|set| set.task == task).map(|set| &set.path);
                let file = entry.files.iter().find(|file| {
                    let name = Path::new(&file.path).file_name();
                    name.is_some() && name == set.and_then(|path| path.file_name())
                });
                file.map(|file| file.xxh3_128.clone())
            }
            // The page shows the settings, and counts.
            (Part::Page, Part::Text | Part::Corpus) => {
                let settings = self.own(need)?.settings;
                Some(hash(&json!([content, entry.result, settings])))
            }
            (Part::Page, Part::Train(_)) => Some(hash(&json!([content, fingerprint]))),
            _ => content.cloned().or(Some(fingerprint)),
        })
    }

    /// What a part depends on by itself: the settings and inputs of its own.
    ///
    /// # Errors
    ///
    /// Where a setting cannot be told.
    pub(super) fn own(&self, part: Part) -> anyhow::Result<Depends> {
        Ok(Depends {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: self.settings(part)?,
            inputs: self.own_inputs(part),
            needs: BTreeMap::new(),
        })
    }

    /// The settings of a part itself.
    fn settings(&self, part: Part) -> anyhow::Result<Value> {
        let config = self.config;
        Ok(match part {
            Part::Text => match &self.inputs.text {
                Some(TextInput::Documents { request, .. }) => {
                    json!({"text": {"max_bytes": request.max_bytes}})
                }
                _ => Value::Null,
            },
            Part::Corpus => json!({"data": config.data}),
            Part::Contamination => {
                json!({"data": config.data, "contamination": config.contamination})
            }
            Part::Train(size) => {
                let size = &config.sizes[size];
                let mut value = serde_json::to_value(config.train_config(size))?;
                for free in FREE {
                    if let Some(value) = value.pointer_mut(free) {
                        *value = Value::Null;
                    }
                }
                let model = value.as_object_mut().and_then(|train| train.remove("model"));
                json!({"train": value, "size": {&size.name: {"model": model}}})
            }
            Part::Eval(_, task) => json!({"eval": {
                "limit": config.eval.limit,
                "overlap": (task == Task::WikiText103).then_some(config.eval.overlap),
            }}),
            Part::Page => {
                let rows: Vec<_> = config.sizes.iter().map(|size| &size.paper).collect();
                json!({"title": config.title, "paper": rows})
            }
        })
    }

    /// What a part itself reads from elsewhere, by the flags.
    fn own_inputs(&self, part: Part) -> BTreeMap<String, Input> {
        let mut inputs = BTreeMap::new();
        let is_read_here = match part {
            Part::Text => true,
            // Of sources, what they hold is not known.
            Part::Corpus | Part::Contamination => self.config.text.is_none(),
            _ => false,
        };
        if is_read_here
            && let (Some(text), Some(listing)) = (&self.inputs.text, &self.inputs.listing)
        {
            let root = text.root().display();
            let content = hash(&json!([text.root(), listing]));
            inputs.insert("text".to_owned(), Input { name: root.to_string(), content });
        }
        for task in [Task::WikiText103, Task::Lambada] {
            let reads = match part {
                Part::Text | Part::Corpus | Part::Contamination => true,
                Part::Eval(_, of) => of == task,
                Part::Train(_) | Part::Page => false,
            };
            if !reads {
                continue;
            }
            let input = match self.inputs.test_file(task) {
                // Whichever file it is, no document is held out for it.
                Some(file) if part == Part::Text => {
                    Input { name: file.path.display().to_string(), content: "given".to_owned() }
                }
                Some(file) => {
                    Input { name: file.path.display().to_string(), content: file.digest.clone() }
                }
                None => Input { name: "the demo set".to_owned(), content: "held out".to_owned() },
            };
            inputs.insert(name_of(task).to_owned(), input);
        }
        inputs
    }

    /// Whether a part is done, of just this, and its output still there as it was.
    ///
    /// # Errors
    ///
    /// Where a setting cannot be told.
    pub(super) fn is_done(&self, part: Part, journal: &Journal) -> anyhow::Result<bool> {
        let key = self.key(part);
        let Some(fingerprint) = self.fingerprint(part, journal)? else { return Ok(false) };
        let is_at_its_place =
            || journal.entry(&key).is_some_and(|it| it.fingerprint == fingerprint);
        Ok(journal.done(&key, &fingerprint).is_some() && is_at_its_place())
    }

    /// Why a part is not the one that the journal has, in the user's words: what has changed of its
    /// own, and where what it needs has, what has changed of that.
    ///
    /// # Errors
    ///
    /// Where a setting cannot be told.
    pub(super) fn changes(&self, part: Part, journal: &Journal) -> anyhow::Result<Vec<String>> {
        let key = self.key(part);
        // Trainings rest on what was set aside.
        let Some(entry) = journal.aside(&key).or_else(|| journal.entry(&key)) else {
            return Ok(Vec::new());
        };
        let mut changes = entry.depends.own_differences(&self.own(part)?);
        for need in self.needs(part, journal) {
            let identity = self.identity(part, need, journal)?;
            if identity.is_some() && identity.as_ref() == entry.depends.needs.get(&self.key(need)) {
                continue;
            }
            let mut causes = self.changes(need, journal)?;
            if causes.is_empty() && identity.is_some() {
                causes.push(format!("{}: its content has changed", self.label(need)));
            }
            changes.extend(causes);
        }
        let mut told = std::collections::HashSet::new();
        changes.retain(|change| told.insert(change.clone()));
        Ok(changes)
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
