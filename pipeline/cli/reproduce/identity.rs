//! By what a part is known: its settings, its inputs, and what the parts before it hand on.
//!
//! Handed on is content where it is known (of a text, a corpus, the weights of a model), so that
//! what comes out the same leads to nothing, however it came about.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use corpus::race::RaceSplit;
use serde_json::{Value, json};
use training::TrainConfig;

use super::depends::{Depends, Input, hash};
use super::inputs::TextInput;
use super::journal::Journal;
use super::parts::{Part, Parts, TEXT, name_of};
use super::report::table3::Task;

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

/// What of a training changes its result.
fn what_counts(config: &TrainConfig) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(config)?;
    for free in FREE {
        if let Some(value) = value.pointer_mut(free) {
            *value = Value::Null;
        }
    }
    Ok(value)
}

impl Parts<'_> {
    /// What a part's fingerprint depends on beside its own settings.
    fn needs(&self, part: Part, journal: &Journal) -> Vec<Part> {
        let text = self.config.text.as_ref().map(|_| Part::Text);
        match part {
            Part::Text => Vec::new(),
            Part::Corpus => text.into_iter().collect(),
            Part::Contamination => text.into_iter().chain([Part::Corpus]).collect(),
            Part::Train(_) => vec![Part::Corpus],
            Part::FineTune { size, .. } => vec![Part::Train(size)],
            Part::Race { size, seed, .. } => vec![Part::FineTune { size, seed }],
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
            return Ok(matches!(need, Part::Eval(..) | Part::Race { .. }).then_some(fingerprint));
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
            (Part::Page, Part::Train(_) | Part::FineTune { .. }) => {
                Some(hash(&json!([content, fingerprint])))
            }
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
                let mut train = what_counts(&config.train_config(size))?;
                let model = train.as_object_mut().and_then(|train| train.remove("model"));
                json!({"train": train, "size": {&size.name: {"model": model}}})
            }
            Part::FineTune { size, seed } => {
                let tuned = config.fine_tune_config(&config.sizes[size], self.seed(seed));
                json!({"finetune": tuned.as_ref().map(what_counts).transpose()?})
            }
            Part::Race { .. } => json!({"eval": {"limit": config.eval.limit}}),
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
        let splits: &[RaceSplit] = match part {
            // What is looked at on the way changes no weight.
            Part::FineTune { .. } => &[RaceSplit::Train],
            Part::Race { split: RaceSplit::Dev, .. } => &[RaceSplit::Dev],
            Part::Race { .. } => &[RaceSplit::Test],
            _ => &[],
        };
        if let (Some(race), false) = (&self.inputs.race, splits.is_empty()) {
            let name = race.path.display().to_string();
            let content = splits.iter().map(|&split| race.split(split).fingerprint.as_str());
            let content = content.collect::<Vec<_>>().join(" ");
            inputs.insert("race".to_owned(), Input { name, content });
        }
        for &task in self.config.experiment.tasks() {
            let reads = match part {
                Part::Text | Part::Corpus | Part::Contamination => true,
                Part::Eval(_, of) => of == task,
                _ => false,
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
        let mut told = HashSet::new();
        changes.retain(|change| told.insert(change.clone()));
        Ok(changes)
    }
}
